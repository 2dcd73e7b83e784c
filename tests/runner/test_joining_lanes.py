"""Lanes that join others in one runner: between two units, wherever they are, and as if each was alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch.events import KILLED, Outcome
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packs.packed_training import PackRun
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.trainable import TrialStopped
from tests.agent.driver import make_stage
from tests.agent.recorder import Recorder
from tests.runner.test_packed_training import BEFORE, CALLS, NoInterrupts, Pack, Sum


@pytest.fixture(autouse=True)
def _forget() -> None:
    CALLS.clear()
    BEFORE.clear()


class Joined(Pack):
    """A pack of two lanes that a third one joins while they train unit ``at``."""

    def __init__(self, folder: Path, at: int, **changes: Any) -> None:
        super().__init__(folder, {}, {})
        self.coming: dict[int, SearchContext] = {}
        self.at, self.changes, self.folder = at, changes, folder
        BEFORE.append(self.come)

    def come(self, unit: int) -> None:
        if unit == self.at:
            folder = self.folder / "7"
            folder.mkdir()
            link = self.links[7] = Recorder(folder)
            link.reason = self.changes.pop("reason", None)
            load = self.changes.pop("load", None)
            stage = make_stage(7, params={"lr": 4.0}, **{"stop": 3, "max_resource": 3, **self.changes})
            self.coming[7] = SearchContext([stage], link, load)

    def taken(self) -> dict[int, SearchContext]:
        coming, self.coming = self.coming, {}
        return coming

    def run(self, *measured: int, interrupts: SigtermGuard | None = None) -> Joined:
        guard = NoInterrupts() if interrupts is None else interrupts
        PackRun(Sum, self.contexts, guard, "accuracy", self.tell, measured, self.taken).run()
        return self


def test_a_lane_joins_after_the_others_unit_and_trains_as_it_does_alone(tmp_path: Path) -> None:
    pack = Joined(tmp_path, 1).run()
    assert CALLS[:3] == [["trial-0", "trial-1"], *[["trial-0", "trial-1", "trial-7"]] * 2]
    assert pack.values(7) == [4.0, 8.0, 12.0]
    assert pack.values(0) == [0.5, 1.0, 1.5]
    assert pack.outcomes() == [Outcome.RETURNED] * 3


def test_a_lane_that_joins_in_the_others_last_unit_trains_on_alone(tmp_path: Path) -> None:
    pack = Joined(tmp_path, 3).run()
    assert CALLS == [["trial-0", "trial-1"]] * 3
    assert pack.values(7) == [4.0, 8.0, 12.0]
    assert pack.outcomes() == [Outcome.RETURNED] * 3


def test_a_lane_joins_from_its_checkpoint(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.write_text("20.0")
    pack = Joined(tmp_path, 1, start=1, load=saved).run()
    assert pack.values(7) == [24.0, 28.0]
    assert pack.links[7].resources == [2, 3]


def test_a_lane_that_was_stopped_before_it_joined_trains_nothing(tmp_path: Path) -> None:
    pack = Joined(tmp_path, 1, reason="not worth it").run()
    assert pack.end_of(7).outcome is Outcome.STOPPED
    assert pack.values(7) == []
    assert pack.values(1) == [1.0, 2.0, 3.0]


def test_a_signal_that_ends_the_pack_ends_the_lanes_that_were_to_join_it(tmp_path: Path) -> None:
    pack, guard = Joined(tmp_path, 1), NoInterrupts()

    def interrupt(unit: int) -> None:
        guard.is_received = True
        raise TrialStopped("SIGTERM")

    BEFORE.append(interrupt)
    pack.run(interrupts=guard)
    assert [pack.end_of(lane).error_kind for lane in (0, 1, 7)] == [KILLED] * 3


def test_a_lane_that_came_while_all_others_failed_to_begin_trains(tmp_path: Path) -> None:
    pack = Joined(tmp_path, 1)
    pack.come(1)
    PackRun(Sum, {}, NoInterrupts(), "accuracy", pack.tell, (), pack.taken).run()
    assert pack.values(7) == [4.0, 8.0, 12.0]


def test_a_lane_that_comes_when_another_has_left_trains_the_same_unit(tmp_path: Path) -> None:
    pack = Joined(tmp_path, 0)
    short = Recorder(tmp_path / "2")
    (tmp_path / "2").mkdir()
    pack.links[2] = short
    pack.contexts[2] = SearchContext([make_stage(2, params={"lr": 1.0}, stop=1, max_resource=1)], short)
    waits: list[float] = []

    def comes(timeout_s: float) -> None:
        waits.append(timeout_s)
        if len(waits) == 1:
            pack.come(0)

    pack.at = 0
    BEFORE.clear()
    PackRun(Sum, pack.contexts, NoInterrupts(), "accuracy", pack.tell, (), pack.taken, None, comes).run()
    assert CALLS[:2] == [["trial-0", "trial-1", "trial-2"], ["trial-0", "trial-1", "trial-7"]]
    assert pack.values(7) == [4.0, 8.0, 12.0]
    assert waits[0] <= 0.05


def test_a_lane_that_comes_before_another_has_left_is_built_after_that(tmp_path: Path) -> None:
    pack = Joined(tmp_path, 2, start=1, load=tmp_path / "saved")
    (tmp_path / "saved").write_text("8.0")
    (tmp_path / "2").mkdir()
    pack.links[2] = Recorder(tmp_path / "2")
    pack.contexts[2] = SearchContext([make_stage(2, params={"lr": 1.0}, stop=2, max_resource=2)], pack.links[2])
    ends_before: list[int] = []

    class Told(Sum):
        def setup(self, hp: Any) -> None:
            ends_before.append(len(pack.ends))
            super().setup(hp)

    PackRun(Told, pack.contexts, NoInterrupts(), "accuracy", pack.tell, (), pack.taken).run()
    assert ends_before == [0, 0, 0, 1]
    assert [len(call) for call in CALLS] == [3, 3, 3]


def test_a_pack_waits_once_in_vain_for_joiners(tmp_path: Path) -> None:
    stages = [{"stop": stop, "max_resource": stop} for stop in (2, 4, 6, 6)]
    pack = Pack(tmp_path, *stages)
    waits: list[float] = []
    PackRun(Sum, pack.contexts, NoInterrupts(), "accuracy", pack.tell, (), dict, None, waits.append).run()
    assert len(waits) == 1
    assert [len(call) for call in CALLS] == [4, 4, 3, 3, 2, 2]


def test_lanes_that_come_while_the_first_is_built_train_its_first_unit(tmp_path: Path) -> None:
    pack = Joined(tmp_path, 0)
    pack.come(0)
    pack.at = 9
    PackRun(Sum, pack.contexts, NoInterrupts(), "accuracy", pack.tell, (), pack.taken).run()
    assert CALLS == [["trial-0", "trial-1", "trial-7"]] * 3
