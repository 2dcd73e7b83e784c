"""What befalls a whole pack is a loss of each lane: who does it again alone pays for it, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AddLane, Assign, LaunchWorker
from asyncsearch.events import (
    KILLED,
    AnyEvent,
    Outcome,
    Reported,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import Lease
from asyncsearch.schedulers import FIFO
from asyncsearch.trial import TrialState
from asyncsearch.work import Work
from tests.engine.player import Player, only
from tests.engine.tools import W0, packed_state

UNITS = 4


class OneWorker(Player):
    """Trains packs of which some trials end the process of all, at a unit of their own and in a way of their own."""

    def __init__(self, pack: int, trials: int, culprits: dict[int, tuple[int, str]], **config: Any) -> None:
        super().__init__(packed_state(FIFO(max_resource=UNITS), pack, **config))
        self.culprits, self.epoch = culprits, 1
        self.rounds, self.joined = 0, set[int]()
        self.begin(trials, 1)

    def live(self) -> None:
        while self.state.run is not None:
            self.rounds += 1
            assert self.rounds < 200, "it goes on for ever"
            for launched in only(self.last, LaunchWorker):
                self.epoch = launched.epoch
                self.tell(WorkerAttached(W0, self.epoch))
            (assign,) = only(self.last, Assign)
            self.train(assign.work)

    def train(self, work: Work) -> None:
        """Train unit after unit of all lanes, and of those that join, until one of them ends the process."""
        lease = work.lease
        trials = {number: int(lane.stages[0].trials[0]) for number, lane in enumerate(work.lanes)}
        done = dict.fromkeys(trials, 0)
        self.joined.clear()

        def tell(event: AnyEvent) -> None:
            for joining in only(self.tell(event), AddLane):
                trials[joining.lane], done[joining.lane] = int(joining.added.stages[0].trials[0]), 0
                self.joined.add(joining.lane)

        while done:
            at_fault = [
                self.culprits[trials[lane]][1]
                for lane, units in done.items()
                if self.culprits.get(trials[lane], (0, ""))[0] == units + 1
            ]
            if at_fault:
                self.end_process(at_fault[0], lease, done)
                return
            unit = list(done)
            for lane in unit:
                done[lane] += 1
                tell(Reported(lease, done[lane], {"loss": 1.0}, lane))
            for lane in unit:
                if done[lane] == UNITS:
                    del done[lane]
                    tell(TrainingEnded(lease, Outcome.RETURNED, UNITS, lane=lane))

    def end_process(self, way: str, lease: Lease, done: dict[int, int]) -> None:
        told = list[AnyEvent]()
        if way == "hangs":
            for joined in sorted({lane if lane in self.joined else None for lane in done}, key=str):
                self.tell(TrialTimedOut(lease, joined))
            told = [TrainingEnded(lease, Outcome.STOPPED, units, lane=lane) for lane, units in done.items()]
        elif way == "is killed":
            for lane, units in done.items():
                told.append(TrainingEnded(lease, Outcome.FAILED, units, error="x", error_kind=KILLED, lane=lane))
        else:
            told = [WorkerLost(W0, lease.epoch, "its machine went away")]
        for event in told:
            self.tell(event)


WAYS = st.sampled_from(["hangs", "is killed", "loses the worker"])
CULPRITS = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(1, UNITS), WAYS), max_size=3)


@settings(max_examples=40, deadline=None)
@given(CULPRITS, st.sampled_from([2, 4, 10]), st.integers(0, 3), st.integers(0, 1))
def test_only_who_ends_a_process_alone_fails(
    culprits: dict[int, tuple[int, str]], pack: int, max_losses: int, max_failures: int
) -> None:
    limits: dict[str, Any] = {"max_losses": max_losses, "max_failures": max_failures, "max_relaunches": 100}
    player = OneWorker(pack, 10, culprits, **limits)
    player.live()
    failed = {trial.id for trial in player.state.trials if trial.state is TrialState.FAILED}
    assert failed == set(culprits)
    done = [trial for trial in player.state.trials if trial.id not in culprits]
    assert all(trial.state is TrialState.COMPLETED and trial.failures == 0 for trial in done)


def test_a_hang_costs_its_pack_the_time_limit_once() -> None:
    """The innocent train alone until they have passed the place, and no pack is made of those that may hang."""
    player = OneWorker(12, 12, {3: (2, "hangs")})
    player.live()
    assert player.rounds == 1 + 12
    assert player.state.trials[3].failures == 1
    assert player.state.trials[3].reason == "it ran longer than trial_timeout"
    assert [trial.losses for trial in player.state.trials] == [1] * 12


@pytest.mark.parametrize("way", ["hangs", "is killed", "loses the worker"])
def test_a_trial_that_no_others_train_with_is_charged_as_ever(way: str) -> None:
    player = OneWorker(1, 2, {1: (1, way)}, max_losses=1, max_relaunches=100)
    player.live()
    assert player.states() == [TrialState.COMPLETED, TrialState.FAILED]
