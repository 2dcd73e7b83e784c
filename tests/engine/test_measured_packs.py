"""How many train together: as many as train fastest, have memory together, and can be packed at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asyncsearch.engine.affected import is_stale
from asyncsearch.engine.state import StudyState
from asyncsearch.events import Outcome, PackMeasured, PackMemory, PackSeconds, PacksTimed, TrainingEnded
from asyncsearch.ids import Lease
from asyncsearch.schedulers import ASHA, FIFO, PBT
from asyncsearch.simulate import Curves, TrainingModel, simulate
from asyncsearch.simulate.virtual_cluster import VirtualPack
from asyncsearch.sizing.lanes import most_lanes
from asyncsearch.sizing.pack_probe import GroupSizes, fastest, most_worth, units_alone
from asyncsearch.sizing.packing import KnownPacks, Packing
from asyncsearch.space import Space, choice, uniform
from asyncsearch.trial import TrialState
from tests.engine.player import Player
from tests.engine.tools import W0, PackPlayer, packed_state, record, replayed, results

AUTO = Packing(1024, is_measured=True)
RISING = {2: 1.9, 4: 3.5, 8: 6.0, 16: 9.0, 32: 8.0}
"""32 together train less in the same time than 16."""


def known(curve: Mapping[int, float]) -> KnownPacks:
    """Return what is known once packs gain as a curve says, where a training alone takes a second."""
    return KnownPacks({count: count / speedup for count, speedup in {1: 1.0, **curve}.items()})


def most(packs: KnownPacks, packing: Packing, units_left: float = math.inf) -> int:
    return most_lanes(packing, packs, units_left).count


def auto_state(scheduler: Any, **options: Any) -> StudyState:
    state = packed_state(scheduler, **options)
    state.packing = AUTO
    return state


def counted_calls(pack: int | str, num_trials: int) -> int:
    """Return in how many calls of a trainer a search trains, where up to 16 together take as long as one alone."""
    calls = 0
    group_s = VirtualPack._group_s

    def counted(self: VirtualPack, lanes: Any) -> float:
        nonlocal calls
        calls += bool(lanes)
        return group_s(self, lanes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VirtualPack, "_group_s", counted)
        training = TrainingModel(pack_speedup={16: 16.0})
        curves = Curves(seed=1, unit_s=0.02)
        simulate(curves, scheduler=ASHA(max_resource=9), num_trials=num_trials, pack=pack, training=training)
    return calls


def lanes_of(steps: Any) -> list[int]:
    return [len(a.work.lanes) for _, _, actions in steps for a in actions if hasattr(a, "work")]


def test_the_number_doubles_while_throughput_rises_and_stays_at_the_fall() -> None:
    assert most(KnownPacks(), AUTO) == 18
    assert KnownPacks().to_measure(AUTO, 18) == (1, 2, 4, 8)
    assert most(known({2: 1.9, 4: 3.5, 8: 6.0}), AUTO) == 24
    assert known({2: 1.9, 4: 3.5, 8: 6.0}).to_measure(AUTO, 24) == (16, 8)
    assert most(known(RISING), AUTO) == 16
    assert known(RISING).to_measure(AUTO, 16) == ()
    assert most(known({2: 1.9, 4: 1.5}), AUTO) == 2


def test_a_pack_of_as_many_as_were_never_timed_is_timed_whatever_its_size() -> None:
    rising = known({2: 1.9, 4: 3.5, 8: 6.0})
    assert [rising.to_measure(AUTO, lanes) for lanes in (8, 12, 16, 20)] == [(8,), (12,), (16,), (12, 8)]


def test_where_packing_gains_nothing_each_trains_alone() -> None:
    assert most(known({2: 1.0, 4: 1.02, 8: 0.9}), AUTO) == 1
    assert most(known({2: 0.5, 4: 0.4, 8: 0.3}), AUTO) == 1
    assert most(known({2: 0.9, 4: 1.12, 8: 1.1}), AUTO) == 1, "so little is within what measured times vary"


def test_of_a_number_that_was_measured_twice_the_least_time_counts() -> None:
    packs = known({2: 0.5})
    packs.note([PackSeconds(2, 1.1)])
    assert packs.best == 2
    packs.note([PackSeconds(2, 9.0)])
    assert packs.best == 2


def test_auto_finds_the_fastest_number_and_is_as_fast_as_when_named() -> None:
    def wall_s(pack: int | str | None) -> float:
        training = TrainingModel(pack_speedup=RISING)
        found = simulate(Curves(seed=1), scheduler=FIFO(max_resource=9), num_trials=256, pack=pack, training=training)
        assert found.is_complete
        return found.wall_s

    assert wall_s("auto") < 1.15 * wall_s(16)
    assert wall_s("auto") < wall_s(None) / 6


def test_where_packing_gains_nothing_auto_costs_a_unit_of_few_trials() -> None:
    def wall_s(pack: int | str | None) -> float:
        training = TrainingModel(pack_speedup={2: 0.9, 4: 0.8, 8: 0.7})
        found = simulate(Curves(seed=1), scheduler=FIFO(max_resource=9), num_trials=64, pack=pack, training=training)
        return found.wall_s

    assert wall_s("auto") <= wall_s(None) + 2 / 0.9 - 2 + 4 / 0.8 - 4 + 1e-9


def test_slow_units_are_not_timed_together_at_over_1_percent_of_the_search() -> None:
    slow = KnownPacks({1: 60.0})
    assert most(slow, AUTO, units_left=199) == 1
    assert most(slow, AUTO, units_left=201) == 3
    assert slow.to_measure(AUTO, 3) == (2, 1)
    assert most(KnownPacks({1: 1.0}), AUTO, units_left=0) == 3, "2 s are always allowed"


def test_a_slower_two_does_not_keep_four_from_being_timed() -> None:
    """As models that go through ``vmap`` do."""
    training = TrainingModel(pack_speedup={2: 0.76, 4: 1.5, 8: 3.0})
    found = simulate(Curves(unit_s=0.1), scheduler=FIFO(max_resource=9), num_trials=64, pack="auto", training=training)
    assert [packs.best >= 8 for packs in found.state.packs.values()] == [True]


@settings(max_examples=1000)
@example(unit_s=1.0, units_left=899, first=0.5625, gains=[1.28125, 1.0, 1.0, 1.0, 1.0])
@given(
    unit_s=st.floats(0.001, 1000.0),
    units_left=st.integers(0, 100_000),
    first=st.floats(0.51, 2.0),
    gains=st.lists(st.floats(0.81, 2.0), min_size=5, max_size=5),
)
def test_timing_costs_at_most_2_s_or_1_percent_of_the_search(
    unit_s: float, units_left: int, first: float, gains: list[float]
) -> None:
    """Two train half as fast to twice as fast as one, and each doubling up to a quarter slower or twice as fast."""
    curve = {2 ** (at + 1): first * math.prod(gains[:at]) for at in range(len(gains) + 1)}
    packs, cost = KnownPacks(), 0.0
    allowed = max(2.0, 0.01 * units_left * unit_s)
    while counts := packs.to_measure(AUTO, most(packs, AUTO, units_left), units_left):
        found: dict[int, float] = {}
        for wanted in counts:
            count = most_worth(found, wanted) if counts[0] == 1 else wanted
            if not count:
                break
            found[count] = unit_s * units_alone(curve, count)
            smaller = {lanes: seconds for lanes, seconds in (packs.seconds | found).items() if lanes <= count}
            cost += found[count] - count * min(seconds / lanes for lanes, seconds in smaller.items())
        assert found.keys() - packs.seconds.keys(), "it times something new each time"
        packs.note([PackSeconds(*one) for one in found.items()])
    assert cost <= allowed * (1 + 1e-9)


@pytest.mark.parametrize("num_trials", [9, 30, 150])
def test_auto_needs_at_most_15_percent_more_calls_than_the_best_size(num_trials: int) -> None:
    def calls(pack: int | str) -> int:
        return counted_calls(pack, num_trials)

    assert calls("auto") <= 1.15 * calls(16)


def test_a_running_pack_times_the_next_size_and_goes_back_if_slower() -> None:
    sizes = GroupSizes()
    for count, seconds in ((1, 1.0), (4, 2.0)):
        sizes.note(count, seconds)
    assert [sizes.to_time(lanes) for lanes in (5, 7, 8)] == [0, 0, 8]
    sizes.note(8, 5.0)
    assert sizes.of(8) == 4
    assert sizes.to_time(8) == 8, "its first time may be of preparing for that number"
    sizes.note(8, 2.2)
    assert sizes.to_time(8) == 0
    assert sizes.of(8) == 8


@given(st.dictionaries(st.integers(1, 64), st.floats(0.01, 10.0)), st.integers(1, 200))
def test_no_group_is_larger_than_what_was_found_too_large(seconds: dict[int, float], lanes: int) -> None:
    sizes = GroupSizes()
    for count, spent in seconds.items():
        sizes.note(count, spent)
    assert sizes.of(lanes) >= 1
    if seconds and fastest(seconds) < max(seconds):
        assert sizes.of(lanes) == fastest(seconds)


@pytest.mark.parametrize(
    "scheduler", [FIFO(max_resource=3), ASHA(max_resource=9), PBT(max_resource=9, perturbation_interval=3)]
)
def test_a_search_that_measures_replays_to_the_same_state(scheduler: Any) -> None:
    training = TrainingModel(pack_speedup=RISING)
    recorded = record(auto_state(scheduler), 40, 2, training=training)
    assert any(isinstance(event, PackMeasured) for _, event, _ in recorded.steps)
    again = replayed(auto_state(scheduler), recorded.lines)
    assert again.packs == recorded.state.packs
    assert results(again) == results(recorded.state)


def test_a_searcher_bounds_what_is_measured_too() -> None:
    state = auto_state(FIFO(max_resource=3))
    state.searcher.max_batch = 3
    recorded = record(state, 20, 1, training=TrainingModel(pack_speedup=RISING))
    assert max(lanes_of(recorded.steps)) == 3


def test_each_structure_has_its_own_number() -> None:
    space = Space.of({"x": uniform(0.0, 1.0), "width": choice([8, 1024])})
    curves = {'{"width": 8}': RISING, "": {2: 0.5, 4: 0.4, 8: 0.3}}
    state = auto_state(FIFO(max_resource=3), space=space)
    record(state, 200, 1, workload=Curves(seed=1), training=TrainingModel(pack_speedup=curves))
    found = {group: most(packs, AUTO, units_left=0) for group, packs in state.packs.items()}
    assert found['{"width": 8}'] >= 8
    assert found['{"width": 1024}'] == 1


def test_too_little_memory_halves_the_packs_of_one_structure_only() -> None:
    space = Space.of({"x": uniform(0.0, 1.0), "width": choice([8, 1024])})
    state = packed_state(FIFO(max_resource=3), pack=4, space=space)
    player = Player(state)
    player.begin(8, 1)
    lease = Lease(0, W0, 1)
    lanes = len(state.attempts_under(lease))
    assert lanes > 1
    for lane in range(lanes):
        player.tell(TrainingEnded(lease, Outcome.FAILED, 0, error_kind="MemoryError", error="x", lane=lane))
    assert [packs.memory for packs in state.packs.values()] == [lanes // 2]


def test_packs_with_too_little_memory_shrink_and_the_search_ends_unfailed() -> None:
    state = packed_state(FIFO(max_resource=3), pack=8)
    recorded = record(state, 24, 1, training=TrainingModel(pack_memory=3))
    assert {trial.state for trial in state.trials} == {TrialState.COMPLETED}
    assert sum(trial.failures + trial.losses for trial in state.trials) == 0
    assert list(dict.fromkeys(lanes_of(recorded.steps))) == [8, 4, 2]


@given(fits=st.integers(1, 40), best=st.sampled_from([1, 8, 16]), lanes=st.integers(1, 100))
def test_no_pack_has_more_lanes_than_are_predicted_to_fit(fits: int, best: int, lanes: int) -> None:
    packs = known({2: 1.9, 4: 3.5, 8: 6.0, 16: 9.0 if best == 16 else 5.0} if best > 1 else {2: 0.5})
    packs.fits = fits
    assert most(packs, AUTO) <= fits
    assert most(packs, Packing(lanes)) == min(lanes, fits)
    assert all(count <= fits for count in packs.to_measure(AUTO, most(packs, AUTO)))


@pytest.mark.parametrize(("limit", "lanes"), [(300, 4), (200, 2), (90, 1)])
def test_memory_measured_by_a_runner_bounds_the_next_packs_of_a_structure(limit: int, lanes: int) -> None:
    player = PackPlayer(trials=12, joins=False)
    player.tell(PackMeasured(player.lease, memory=PackMemory(100, 50, limit, "its cgroup")))
    for lane in range(4):
        player.finish(lane)
    assert player.works() == [lanes]


def timed_by_another(group: str, curve: Mapping[int, float]) -> PacksTimed:
    seconds = tuple(PackSeconds(*one) for one in known(curve).seconds.items())
    return PacksTimed(group, seconds, "x86_64 processor", "another")


@pytest.mark.parametrize(("curve", "lanes"), [({2: 1.9, 4: 3.5, 8: 3.6}, 4), ({2: 0.5, 4: 0.4, 8: 0.3}, 1)])
def test_a_study_packs_the_fastest_number_of_another_and_times_none(curve: dict[int, float], lanes: int) -> None:
    state = auto_state(FIFO(max_resource=3))
    player = Player(state)
    player.tell(timed_by_another("{}", curve))
    player.begin(20, 1)
    (work,) = [action.work for action in player.last if hasattr(action, "work")]
    assert len(work.lanes) == lanes
    assert not isinstance(work.measured, tuple)


def test_no_pack_exceeds_the_memory_of_the_study_that_timed_it() -> None:
    player = Player(auto_state(FIFO(max_resource=3)))
    player.tell(msgspec.structs.replace(timed_by_another("{}", RISING), fits=3))
    player.begin(20, 1)
    assert [len(action.work.lanes) for action in player.last if hasattr(action, "work")] == [3]


def test_times_of_others_count_only_where_auto_has_measured_nothing_itself() -> None:
    told = timed_by_another("{}", RISING)
    assert not is_stale(auto_state(FIFO(max_resource=3)), told)
    assert is_stale(packed_state(FIFO(max_resource=3), pack=4), told)
    assert is_stale(packed_state(FIFO(max_resource=3), pack=None), told)
    state = auto_state(FIFO(max_resource=3))
    state.packs["{}"] = known({2: 1.5})
    assert is_stale(state, told)


def test_what_cannot_be_packed_trains_alone_from_then_on() -> None:
    player = PackPlayer(trials=6)
    player.tell(PackMeasured(player.lease, refusal="model.py, line 3, calls an LSTM"))
    for lane in range(4):
        player.finish(lane)
    assert player.works() == [1]
