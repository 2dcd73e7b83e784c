"""Agents that train batches of stages, read their amendments late, and keep what they save in one store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from asyncsearch.actions import AnyAction, Assign, CutWork, DeleteCheckpoint, EndRun, SaveAt, StopTraining
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    Reported,
    TrainingEnded,
    TrialTimedOut,
)
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.testing.agent_world import World
from asyncsearch.testing.histories import Histories
from asyncsearch.trial import UNBOUNDED
from asyncsearch.work import Stage, Work

HISTORIES = Histories()


def as_it_is(value: float) -> float | str:
    """Return the value unchanged."""
    return value


def is_silent(value: float, silences: float) -> bool:
    """Return whether a loss is not reported, which follows from the hyper-parameters alone."""
    return value * 1_000 % 1.0 < silences


class BatchTraining:
    """A lease on a batch of stages; the runner's own ``LaneTimeline`` decides where it saves and ends."""

    def __init__(self, work: Work, own_ends: float) -> None:
        self.own_ends = own_ends
        self.lease, lane = work.lease, work.lanes[0]
        self.load = lane.load
        self.is_loaded = lane.load is None
        self.batch = LaneTimeline(lane.stages)
        self.resource = self.batch.start
        self.saved: int | None = None
        """The resource of the newest saved checkpoint whose commit has not failed."""
        self.uploads: list[CheckpointRef] = []
        self.amendments: list[SaveAt | CutWork] = []
        """Sent to it, and not read yet."""
        self.is_ended = self.is_stop_requested = False

    @property
    def is_at_own_end(self) -> bool:
        """Whether the user's function returns here, which follows from the hyper-parameters alone."""
        return self.resource > 0 and self.value_at(self.resource) < self.own_ends

    def value_at(self, resource: int) -> float:
        """The loss of what it trains."""
        return HISTORIES.value(TrialId(0), self.batch.stages[self.batch.index_at(resource)].params, resource)

    def place(self) -> CheckpointRef:
        return CheckpointRef(self.batch.stages[self.batch.index_at(self.resource)].node, self.resource)

    def read(self) -> None:
        for amendment in self.amendments:
            self.batch.amend(amendment)
        self.amendments.clear()


class BatchWorld(World):
    """Agents whose trainings have histories, so that a checkpoint of another training is recognised.

    Args:
        make: returns a fresh state of the study, each time the same.
        chance: chooses the next event.
        own_ends: share of the units after which the user's function returns by itself.
        report: turns a loss between 0 and 1 into the reported value.
        silences: share of the units after which nothing is reported, except by an evaluation.
    """

    def __init__(
        self,
        make: Callable[[], StudyState],
        chance: random.Random,
        *,
        own_ends: float = 0.0,
        report: Callable[[float], float | str] = as_it_is,
        silences: float = 0.0,
    ) -> None:
        super().__init__(make, chance)
        self.own_ends, self.shown, self.silences = own_ends, report, silences
        self.evaluations = 0
        """How many evaluations were begun."""
        self.batches: dict[int, BatchTraining] = {}
        self.stored: dict[CheckpointRef, float] = {}
        """The checkpoints in the store, each with the value of its history."""
        self.corrupt: set[CheckpointRef] = set()
        self.end_of_run: EndRun | None = None
        self.reads = chance.choice([0.05, 0.5])
        """How often an agent reads its amendments rather than that it trains on."""
        self.uploads = chance.choice([0.05, 0.5])
        self.fails = chance.choice([0.0, 0.02])

    def carry_out(self, action: AnyAction) -> None:
        match action:
            case Assign(work=work):
                self.require_that_nobody_else_trains(work)
                load = work.lanes[0].load
                assert load is None or load in self.stored, f"{load} was deleted"
                self.batches[work.lease.number] = batch = BatchTraining(work, self.own_ends)
                self.evaluations += batch.batch.is_evaluation
            case StopTraining(lease=lease):
                assert not self.batches[lease.number].is_stop_requested, "stopped twice"
                self.batches[lease.number].is_stop_requested = True
            case SaveAt(lease=lease) | CutWork(lease=lease):
                self.batches[lease.number].amendments.append(action)
            case DeleteCheckpoint(checkpoint=checkpoint):
                self.stored.pop(checkpoint, None)
            case EndRun():
                self.end_of_run = action
                assert action.error_kind in ("", "WorkersLostError"), action
                super().carry_out(action)
            case _:
                super().carry_out(action)

    def require_that_nobody_else_trains(self, work: Work) -> None:
        taken = set(self.units(work.lanes[0].stages, 0))
        for attempt in self.state.attempts.values():
            batch = self.batches.get(attempt.lease.number)
            if attempt.is_training and batch is not None:
                stages = batch.batch.stages
                rest = [(n, r) for n, r in self.units(stages, attempt.resource) if r <= attempt.stop or r == UNBOUNDED]
                assert not taken.intersection(rest), f"{attempt.lease} and {work.lease}"

    @staticmethod
    def units(stages: tuple[Stage, ...], after: int) -> Iterator[tuple[NodeKey, int]]:
        for stage in stages:
            if stage.stop is None:
                yield stage.node, UNBOUNDED
            else:
                yield from ((stage.node, unit) for unit in range(max(stage.start, after) + 1, stage.stop + 1))

    def tell(self, event: AnyEvent) -> None:
        if isinstance(event, CheckpointCommitted) and not self.state.is_stale(event):
            self.stored[event.checkpoint] = self.batches[event.lease.number].value_at(event.checkpoint.resource)
        super().tell(event)

    def living_batches(self) -> list[BatchTraining]:
        return [
            batch
            for batch in self.batches.values()
            if self.state.pool.is_current(batch.lease.worker, batch.lease.epoch)
            and (batch.uploads or not batch.is_ended)
        ]

    def train(self, *, is_kind: bool = False) -> None:
        batches = self.living_batches()
        if not batches:
            return
        training = self.chance.choice(batches)
        if training.uploads and (training.is_ended or self.chance.random() < self.uploads):
            self.commit(training, is_kind=is_kind)
        elif training.amendments and self.chance.random() < self.reads:
            training.read()
        elif training.is_stop_requested and self.chance.random() < 2 * self.reads:
            self.finish(training, Outcome.STOPPED)
        elif not is_kind and self.chance.random() < self.fails:
            self.finish(training, Outcome.FAILED, "ValueError")
        elif not training.is_loaded:
            self.fetch(training, is_kind=is_kind)
        else:
            self.go_on(training, is_kind=is_kind)

    def fetch(self, training: BatchTraining, *, is_kind: bool) -> None:
        assert training.load is not None
        training.is_loaded = True
        if training.load not in self.stored:
            assert training.load in self.corrupt, f"{training.load} was deleted before it was loaded"
            self.finish(training, Outcome.FAILED, "checkpoint")
        elif not is_kind and self.chance.random() < 0.1:
            self.corrupt.add(training.load)
            self.finish(training, Outcome.FAILED, "checkpoint")
        else:
            assert self.stored[training.load] == training.value_at(training.resource), "of another training"

    def go_on(self, training: BatchTraining, *, is_kind: bool) -> None:
        batch, done = training.batch, training.resource
        if batch.is_evaluation:
            self.send(Reported(training.lease, done, {"loss": self.shown(training.value_at(done))}))
            self.finish(training, Outcome.REACHED if batch.is_pause(done) else Outcome.RETURNED)
        elif training.is_at_own_end and not batch.is_over(done):
            self.finish(training, Outcome.RETURNED)
        elif batch.is_save_due(done):
            batch.saved(done)
            if is_kind or batch.is_save_needed(done) or self.chance.random() < 0.9:
                training.saved = done
                training.uploads.append(training.place())
            else:
                self.send(CheckpointFailed(training.lease, training.place(), "disk full"))
        elif batch.is_over(done):
            self.finish(training, Outcome.REACHED if batch.is_pause(done) else Outcome.RETURNED)
        else:
            training.resource += 1
            value = training.value_at(training.resource)
            if not is_silent(value, self.silences):
                self.send(Reported(training.lease, training.resource, {"loss": self.shown(value)}))

    def commit(self, training: BatchTraining, *, is_kind: bool) -> None:
        checkpoint = training.uploads.pop(0)
        if is_kind or self.chance.random() < 0.8:
            self.send(CheckpointCommitted(training.lease, checkpoint))
        else:
            if training.saved == checkpoint.resource:
                training.saved = None
            self.send(CheckpointFailed(training.lease, checkpoint, "disk full"))

    def finish(self, training: BatchTraining, outcome: Outcome, error_kind: str = "") -> None:
        training.is_ended = True
        self.send(TrainingEnded(training.lease, outcome, training.resource, training.saved, error_kind, error_kind))

    def begin_run(self) -> None:
        if self.state.run is None:
            self.end_of_run = None
        super().begin_run()

    def restart(self) -> None:
        self.end_of_run = None
        super().restart()

    def time_out(self) -> None:
        batches = self.living_batches()
        if batches:
            self.tell(TrialTimedOut(self.chance.choice(batches).lease))

    def drain(self) -> None:
        for _ in range(5_000):
            if self.state.run is None:
                if self.end_of_run is not None and self.end_of_run.is_complete:
                    return
                self.begin_run()
            self.attach()
            self.train(is_kind=True)
        waiting = [self.state.trials[number] for number in self.state.waiting]
        raise AssertionError(f"the run never ends; open: {self.state.attempts}; waiting: {waiting}")
