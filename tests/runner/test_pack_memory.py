"""What one lane and two hold says how many fit: what is measured, and what limits it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.events import PackMemory
from asyncsearch.runner.packs.pack_memory import AcceleratorMemory, PackMemoryProbe, ProcessMemory
from asyncsearch.runner.process.kernel_files import limit_of, room_in
from asyncsearch.sizing.pack_probe import MEMORY_SHARE, most_that_fit


class Meter:
    """A process that holds ``base`` bytes, ``built`` for each lane that is built, and ``step`` for each that trains."""

    def __init__(self, base: int, built: int, step: int, room: int | None) -> None:
        self.base, self.built, self.step, self._room = base, built, step, room
        self.lanes = self.training = 0
        self.guess: int | None = None

    def begin(self) -> None:
        self.training = 0

    def held(self) -> int:
        return self.base + self.built * self.lanes

    def peak(self) -> int:
        return self.held() + self.step * self.training

    def lane_at_most(self) -> int | None:
        return self.guess

    def room(self) -> tuple[int, str] | None:
        return None if self._room is None else (self._room, "its cgroup")


def probed(meter: Meter, lanes: int, *trained: int) -> PackMemory | None:
    """Build lanes, and train some of them together, in turns."""
    probe = PackMemoryProbe(meter)
    for _ in range(lanes):
        meter.lanes += 1
        probe.lane_built()
    for count in trained:
        with probe.watched(count):
            meter.training = count
    return probe.found()


@given(
    base=st.integers(1, 10**9),
    built=st.integers(0, 10**7),
    step=st.integers(0, 10**7),
    lanes=st.integers(3, 20),
    room=st.integers(0, 10**10),
)
def test_so_many_fit_as_stay_below_the_share_of_the_limit(
    base: int, built: int, step: int, lanes: int, room: int
) -> None:
    meter = Meter(base, built, step, room)
    found = probed(meter, lanes, 1, 2)
    assert found is not None
    assert found.limit == base + lanes * built + room
    most = most_that_fit(found)
    taken = [base + count * (built + step) for count in (most, most + 1)]
    if built + step:
        assert most == 1 or taken[0] <= MEMORY_SHARE * found.limit
        assert taken[1] > MEMORY_SHARE * found.limit - 1


@given(
    built=st.integers(0, 10**7),
    step=st.integers(0, 10**7),
    lanes=st.tuples(st.integers(1, 5), st.integers(2, 5)),
)
def test_lanes_that_are_built_between_the_two_measures_count_as_built(
    built: int, step: int, lanes: tuple[int, int]
) -> None:
    meter = Meter(1000, built, step, 10**9)
    probe = PackMemoryProbe(meter)
    for count, more in enumerate(lanes, 1):
        for _ in range(more):
            meter.lanes += 1
            probe.lane_built()
        with probe.watched(count):
            meter.training = count
    found = probe.found()
    assert found is not None
    assert (found.one, found.each) == (1000 + built + step, built + step)


def test_memory_is_plenty_where_a_generous_guess_fits_or_nobody_tells() -> None:
    meter = Meter(10, 0, 0, 1000)
    assert not PackMemoryProbe(meter).is_plenty_for(1), "no guess"
    meter.guess = 100
    assert [PackMemoryProbe(meter).is_plenty_for(lanes) for lanes in (9, 10)] == [True, False]
    assert PackMemoryProbe(Meter(10, 0, 0, None)).is_plenty_for(1000)


def test_nothing_is_predicted_before_one_and_two_trained_or_without_limits() -> None:
    assert probed(Meter(10, 1, 1, 100), 3) is None
    assert probed(Meter(10, 1, 1, 100), 3, 1) is None
    assert probed(Meter(10, 1, 1, 100), 20, 16, 8) is None, "later packs time no lane alone"
    assert probed(Meter(10, 1, 1, None), 3, 1, 2) is None


def test_what_more_lanes_hold_later_changes_nothing() -> None:
    assert probed(Meter(10, 2, 3, 100), 18, 1, 2, 4, 8) == probed(Meter(10, 2, 3, 100), 18, 1, 2)


@pytest.fixture(params=[1, 2])
def cgroup(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the file of events of a cgroup of either version that may hold 1,000 bytes and holds 400."""
    names = {
        1: ("memory.oom_control", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.events", "memory.max", "memory.current", "inactive_file"),
    }[request.param]
    events, limit, used, reclaimed = names
    (tmp_path / limit).write_text("1000\n")
    (tmp_path / used).write_text("400\n")
    (tmp_path / "memory.stat").write_text(f"anon 250\nslab 7\n{reclaimed} 150\n")
    return tmp_path / events


def test_a_cgroup_has_room_for_what_it_may_take_and_for_file_caches(cgroup: Path) -> None:
    assert limit_of(cgroup) == 1000
    assert room_in(cgroup) == 750


@pytest.mark.parametrize("unlimited", ["max\n", f"{2**63 - 4096}\n", ""])
def test_a_cgroup_without_a_limit_has_no_room_to_name(cgroup: Path, unlimited: str) -> None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        (cgroup.parent / name).write_text(unlimited)
    assert limit_of(cgroup) is None
    assert room_in(cgroup) is None


def test_this_process_has_no_more_room_than_the_machine() -> None:
    room = ProcessMemory().room()
    assert room is not None
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert 0 < room[0] < total


class Cuda:
    """Answers as ``torch.cuda`` does: there is no GPU here. Of 100 bytes 8 are taken by other processes."""

    def __init__(self, fraction: float, allocated: int, cached: int) -> None:
        self.get_per_process_memory_fraction = lambda: fraction
        self.memory_allocated = lambda: allocated
        self.memory_reserved = lambda: allocated + cached
        self.mem_get_info = lambda: (100 - 8 - allocated - cached, 100)


@pytest.mark.parametrize(
    ("fraction", "room", "limit"),
    [
        (1.0, 82, "the accelerator"),
        (0.5, 40, "this worker's share of the accelerator"),
        (0.12, 5, "this worker's share"),
    ],
)
def test_a_pack_has_room_in_its_share_of_an_accelerator(fraction: float, room: int, limit: str) -> None:
    found = AcceleratorMemory(Cuda(fraction, allocated=10, cached=5)).room()
    assert found is not None
    assert (found[0], found[1][: len(limit)]) == (room, limit)
