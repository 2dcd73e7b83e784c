"""Agents of one study in a random order of events: losses, duplicates, stale leases, restarts.

The trials of ``World`` report random values; those of ``BatchWorld`` report values that depend on their training.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from asyncsearch.actions import AnyAction, Assign, DismissWorker, EndRun, LaunchWorker, StopTraining
from asyncsearch.engine import snapshot
from asyncsearch.engine.handling import handle
from asyncsearch.engine.invariants import check
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.journal.format import FORMAT, Header, encode_header, encode_record
from asyncsearch.testing.recording import replayed, restored
from asyncsearch.work import Stage, Work

VALUES: tuple[float | str, ...] = (0.0, 0.25, 0.5, 0.5, 1.0, "NaN", "Infinity")
"""Few, so that ties are common."""


class Training:
    """The training under one lease, as its agent knows it."""

    def __init__(self, work: Work) -> None:
        self.lease = work.lease
        self.stage: Stage = work.lanes[0].stages[0]
        self.is_loaded = work.lanes[0].load is not None
        self.resource = self.stage.start
        self.saved: int | None = None
        self.uploads: list[CheckpointRef] = []
        """Saved checkpoints whose commit has neither succeeded nor failed yet."""
        self.is_ended = self.is_stop_requested = False

    @property
    def is_at_end(self) -> bool:
        return self.resource == self.stage.stop

    def save(self) -> None:
        self.saved = self.resource
        self.uploads.append(CheckpointRef(self.stage.node, self.resource))


class World:
    """Agents of one study; a commit may come before or after the end of its training.

    Args:
        make: returns a fresh state of the study, each time the same.
        chance: chooses the next event.
    """

    def __init__(self, make: Callable[[], StudyState], chance: random.Random) -> None:
        self.make = make
        self.state = make()
        self.twin: StudyState | None = None
        """A restored state that handles the same events since."""
        self.chance = chance
        self.now = 0.0
        self.lines = [encode_header(Header(FORMAT, "test", 1))]
        self.sent: list[AnyEvent] = []
        self.trainings: dict[int, Training] = {}
        self.launches: dict[WorkerId, int] = {}
        self.attached: set[WorkerId] = set()

    def tell(self, event: AnyEvent) -> None:
        self.now += 1.0
        is_stale, before = self.state.is_stale(event), snapshot.encode(self.state, 0)
        actions = handle(self.state, event, self.now)
        check(self.state)
        if self.twin is not None:
            assert handle(self.twin, event, self.now) == actions, "what was restored decides otherwise"
        self.lines.append(encode_record(len(self.lines), self.now, event, actions))
        if is_stale:
            assert not actions
            assert snapshot.encode(self.state, 0) == before
        self.decided(actions)
        for action in actions:
            self.carry_out(action)

    def decided(self, actions: Sequence[AnyAction]) -> None:
        """Check actions before they are carried out."""

    def carry_out(self, action: AnyAction) -> None:
        match action:
            case LaunchWorker(worker=worker, epoch=epoch):
                assert epoch > self.launches.get(worker, 0)
                self.launches[worker] = epoch
            case Assign(work=work):
                assert work.lease.number not in self.trainings
                self.trainings[work.lease.number] = Training(work)
            case StopTraining(lease=lease):
                assert not self.trainings[lease.number].is_stop_requested, "stopped twice"
                self.trainings[lease.number].is_stop_requested = True
            case DismissWorker(worker=worker):
                self.attached.discard(worker)
            case EndRun():
                assert not self.state.attempts
                assert not self.state.pool.alive()
            case _:
                pass

    def send(self, event: AnyEvent) -> None:
        self.sent.append(event)
        self.tell(event)

    def living(self) -> list[Training]:
        """Trainings of present workers that have events left to send."""
        return [
            training
            for training in self.trainings.values()
            if self.state.pool.is_current(training.lease.worker, training.lease.epoch)
            and (training.uploads or not training.is_ended)
        ]

    def begin_run(self) -> None:
        if self.state.run is None:
            self.tell(RunRequested(self.chance.randint(1, 14), self.chance.randint(1, 4)))

    def attach(self) -> None:
        for slot in self.state.pool.alive():
            if slot.worker not in self.attached:
                self.attached.add(slot.worker)
                self.send(WorkerAttached(slot.worker, slot.epoch))
                return

    def train(self, *, is_kind: bool = False) -> None:
        """Let one agent make one step."""
        trainings = self.living()
        if not trainings:
            return
        training = self.chance.choice(trainings)
        if training.uploads and (training.is_ended or self.chance.random() < 0.5):
            self.settle(training, is_kind=is_kind)
        elif training.is_stop_requested:
            self.end(training, Outcome.STOPPED)
        elif not is_kind and self.chance.random() < 0.1:
            self.fail(training)
        elif not training.is_at_end:
            self.report(training)
        elif training.saved != training.resource:
            training.save()
        else:
            top = training.resource == self.state.max_resource
            self.end(training, Outcome.RETURNED if top else Outcome.REACHED)

    def report(self, training: Training) -> None:
        training.resource += 1
        metrics: dict[str, float | str] = {"loss": self.chance.choice(VALUES)}
        self.send(Reported(training.lease, training.resource, metrics))
        every = training.stage.save_every
        if every is not None and training.resource % every == 0:
            training.save()

    def settle(self, training: Training, *, is_kind: bool) -> None:
        checkpoint = training.uploads.pop(0)
        if is_kind or self.chance.random() < 0.8:
            self.send(CheckpointCommitted(training.lease, checkpoint))
        else:
            self.send(CheckpointFailed(training.lease, checkpoint, "disk full"))

    def end(self, training: Training, outcome: Outcome, error_kind: str = "") -> None:
        training.is_ended = True
        self.send(TrainingEnded(training.lease, outcome, training.resource, training.saved, error_kind, error_kind))

    def fail(self, training: Training) -> None:
        if training.is_loaded and training.resource == training.stage.start:
            self.end(training, Outcome.FAILED, "checkpoint")
        elif training.resource > training.stage.start and self.chance.random() < 0.3:
            self.end(training, Outcome.RETURNED)
        else:
            self.end(training, Outcome.FAILED, "ValueError")

    def lose(self) -> None:
        alive = self.state.pool.alive()
        if alive:
            slot = self.chance.choice(alive)
            self.attached.discard(slot.worker)
            self.send(WorkerLost(slot.worker, slot.epoch, "killed"))

    def send_again(self) -> None:
        if self.sent:
            self.tell(self.chance.choice(self.sent[-20:]))

    def time_out(self) -> None:
        trainings = self.living()
        if trainings:
            self.tell(TrialTimedOut(self.chance.choice(trainings).lease))

    def send_stale(self) -> None:
        slots = list(self.state.pool.slots.values())
        if slots:
            slot = self.chance.choice(slots)
            number = self.chance.randint(0, self.state.next_lease)
            self.tell(Reported(Lease(number, slot.worker, slot.epoch - 1), 1, {"loss": -1.0}))

    def stop(self) -> None:
        self.tell(StopRequested("it was interrupted"))

    def restart(self) -> None:
        """The driver dies; the next one has the journal, and no worker."""
        self.state = self.restored() if self.chance.random() < 0.5 else self.replayed()
        self.attached.clear()
        self.twin = None
        self.tell(DriverStarted("test"))
        assert not self.state.attempts

    def restored(self) -> StudyState:
        return restored(self.state, self.make())

    def replayed(self) -> StudyState:
        return replayed(self.make(), self.lines)

    def require_memory(self) -> None:
        """Require that a restore and a replay both give the present state."""
        present = snapshot.encode(self.state, 0)
        assert snapshot.encode(self.restored(), 0) == present
        assert snapshot.encode(self.replayed(), 0) == present

    def require_same_decisions(self) -> None:
        """Require that a state restored now decides like the present one from now on."""
        self.twin = self.restored()

    def step(self) -> None:
        rare = [self.lose, self.send_again, self.time_out, self.send_stale, self.stop, self.restart]
        common: list[Callable[[], None]] = [self.train] * 40 + [self.attach] * 8 + [self.begin_run] * 3
        self.chance.choice([*common, *rare])()

    def drain(self) -> None:
        """Continue without faults until the run has ended."""
        self.begin_run()
        for _ in range(2_000):
            if self.state.run is None:
                return
            self.attach()
            self.train(is_kind=True)
        raise AssertionError(f"the run never ends; open: {self.state.attempts}")
