"""A virtual cluster in a random order of events: losses, duplicates, stale leases, restarts, late amendments.

Each worker trains batches of stages and keeps its checkpoints in one store. A journal in memory records every event.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    CutWork,
    DeleteCheckpoint,
    EndRun,
    ExtendWork,
    GivenLane,
    LaunchWorker,
    SaveAt,
    StopTraining,
    lanes_given,
)
from asyncsearch.engine import snapshot
from asyncsearch.engine.affected import is_stale
from asyncsearch.engine.handling import handle
from asyncsearch.engine.invariants import check
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    KILLED,
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
from asyncsearch.simulate.virtual_cluster import VirtualCluster
from asyncsearch.testing.recording import VALUES, Training, replayed, restored
from asyncsearch.trial import UNBOUNDED


class RandomCluster(VirtualCluster):
    """Agents of one study. Their trainings have histories, so that a checkpoint of another training is recognised.

    Args:
        make: returns a fresh state of the study, each time the same.
        chance: chooses the next event.
        own_ends: share of the units after which the user's function returns by itself.
        report: turns a loss between 0 and 1 into the reported value.
        silences: share of the units after which nothing is reported, except by an evaluation.
        is_fickle: whether functions fail often and return anywhere, and the same training again reports another value.
    """

    now = 0.0
    """The number of the last event, as seconds."""

    def __init__(
        self,
        make: Callable[[], StudyState],
        chance: random.Random,
        *,
        own_ends: float = 0.0,
        report: Callable[[float], float | str] = float,
        silences: float = 0.0,
        is_fickle: bool = False,
    ) -> None:
        super().__init__(make())
        self.make, self.chance = make, chance
        self.own_ends, self.silences, self.is_fickle = own_ends, silences, is_fickle
        self.shown: Callable[[float], float | str] = (lambda _: chance.choice(VALUES)) if is_fickle else report
        self.reads = chance.choice([0.05, 0.5])
        """How often an agent reads its amendments rather than that it trains on."""
        self.commits = chance.choice([0.05, 0.5])
        self.fails = 0.1 if is_fickle else chance.choice([0.0, 0.02])
        self.twin: StudyState | None = None
        """A restored state that handles the same events since."""
        self.lines = [encode_header(Header(FORMAT, "test", 1))]
        self.sent: list[AnyEvent] = []
        self.trainings: dict[int, Training] = {}
        self.launches: dict[WorkerId, int] = {}
        self.evaluations = 0
        """How many evaluations were begun."""
        self.stored: dict[CheckpointRef, float] = {}
        """The checkpoints in the store, each with the value of its history."""
        self.corrupt: set[CheckpointRef] = set()

    def tell(self, event: AnyEvent) -> None:
        """Let the engine handle an event, and require that a stale one changes nothing."""
        self.now += 1.0
        if not is_stale(self.state, event):
            self._store(event)
            super().tell(event)
            return
        before, lines = snapshot.encode(self.state, 0), len(self.lines)
        super().tell(event)
        assert snapshot.encode(self.state, 0) == before
        assert self.lines[lines:] == [encode_record(lines, self.now, event, [])]

    def _store(self, event: AnyEvent) -> None:
        if isinstance(event, CheckpointCommitted):
            training = self.trainings[event.lease.number + event.lane]
            self.stored[event.checkpoint] = training.value_at(event.checkpoint.resource)

    def _watch(self, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        check(self.state)
        if self.twin is not None:
            assert handle(self.twin, event, self.now) == actions, "the restored state decides otherwise"
        self.lines.append(encode_record(len(self.lines), self.now, event, actions))
        self.decided(actions)

    def decided(self, actions: Sequence[AnyAction]) -> None:
        """Check actions before they are carried out."""

    def _launch(self, action: LaunchWorker) -> None:
        assert action.epoch > self.launches.get(action.worker, 0)
        self.launches[action.worker] = action.epoch

    def _assign(self, action: Assign) -> None:
        for given in lanes_given(action):
            self.begin(given, has_joined=False)

    def _add_lane(self, action: AddLane) -> None:
        for given in lanes_given(action):
            self.begin(given, has_joined=True)

    def _stop(self, action: StopTraining) -> None:
        training = self.trainings[action.lease.number + action.lane]
        assert not training.is_stop_requested, "stopped twice"
        training.is_stop_requested = True

    def _amend(self, action: SaveAt | CutWork | ExtendWork) -> None:
        self.trainings[action.lease.number + action.lane].amendments.append(action)

    def _delete(self, action: DeleteCheckpoint) -> None:
        self.stored.pop(action.checkpoint, None)

    def _end_run(self, action: EndRun) -> None:
        super()._end_run(action)
        assert action.error_kind in ("", "WorkersLostError", "TrialsFailedError", "StoreError"), action
        assert not self.state.attempts
        assert not self.state.pool.alive()

    def begin(self, given: GivenLane, *, has_joined: bool) -> None:
        assert given.attempt not in self.trainings
        load, training = given.lane.load, Training(given, has_joined=has_joined)
        self.require_that_nobody_else_trains(training)
        assert load is None or load in self.stored, f"{load} was deleted"
        self.trainings[given.attempt] = training
        self.evaluations += training.timeline.is_evaluation

    def require_that_nobody_else_trains(self, begun: Training) -> None:
        taken = set(begun.units(0))
        for attempt in self.state.attempts.values():
            training = self.trainings.get(attempt.number)
            if attempt.is_training and training is not None:
                units = training.units(attempt.resource)
                rest = [(n, r) for n, r in units if r <= attempt.stop or r == UNBOUNDED]
                assert not taken.intersection(rest), f"{attempt.lease}, lane {attempt.lane}, and {begun.lease}"

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
            self.end = None
            self.tell(RunRequested(self.chance.randint(1, 14), self.chance.randint(1, 4)))

    def attach(self) -> None:
        slot = next((slot for slot in self.state.pool.alive() if slot.state is SlotState.LAUNCHING), None)
        if slot is not None:
            self.send(WorkerAttached(slot.worker, slot.epoch))

    def train(self, *, is_kind: bool = False) -> None:
        """Let one agent make one step; ``is_kind``: nothing fails."""
        trainings = self.living()
        if not trainings:
            return
        training = self.chance.choice(trainings)
        training.is_begun = True
        if training.is_dying and not training.is_ended:
            self.finish(training, Outcome.FAILED, KILLED)
        elif training.uploads and (training.is_ended or self.chance.random() < self.commits):
            self.commit(training, is_kind=is_kind)
        elif training.amendments and self.chance.random() < self.reads:
            training.read()
        elif training.is_stop_requested and self.chance.random() < 2 * self.reads:
            self.finish(training, Outcome.STOPPED)
        elif not is_kind and self.chance.random() < self.fails:
            self.fail(training)
        elif not training.is_loaded:
            self.fetch(training, is_kind=is_kind)
        else:
            self.go_on(training, is_kind=is_kind)

    def fail(self, training: Training) -> None:
        if self.is_fickle and training.resource > training.timeline.start and self.chance.random() < 0.3:
            self.finish(training, Outcome.RETURNED)
        else:
            kind = self.chance.choice(["ValueError", "ValueError", KILLED])
            for other in self.living() if kind == KILLED else []:
                other.is_dying |= other.lease == training.lease and other.is_begun and not other.is_ended
            self.finish(training, Outcome.FAILED, kind)

    def fetch(self, training: Training, *, is_kind: bool) -> None:
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

    def go_on(self, training: Training, *, is_kind: bool) -> None:
        timeline, done = training.timeline, training.resource
        if timeline.is_evaluation:
            self.send(Reported(training.lease, done, {"loss": self.shown(training.value_at(done))}, training.lane))
            self.finish(training, Outcome.REACHED if timeline.is_pause(done) else Outcome.RETURNED)
        elif done > 0 and training.value_at(done) < self.own_ends and not timeline.is_over(done):
            self.finish(training, Outcome.RETURNED)
        elif timeline.is_save_due(done):
            timeline.saved(done)
            if is_kind or timeline.is_save_needed(done) or self.chance.random() < 0.9:
                training.saved = done
                training.uploads.append(training.checkpoint())
            else:
                self.send(CheckpointFailed(training.lease, training.checkpoint(), "disk full", lane=training.lane))
        elif timeline.is_over(done):
            self.finish(training, Outcome.REACHED if timeline.is_pause(done) else Outcome.RETURNED)
        else:
            training.resource += 1
            loss = training.value_at(training.resource)
            # Silence follows from the hyper-parameters alone, as the loss does.
            if loss * 1_000 % 1.0 >= self.silences:
                self.send(Reported(training.lease, training.resource, {"loss": self.shown(loss)}, training.lane))

    def commit(self, training: Training, *, is_kind: bool) -> None:
        checkpoint = training.uploads.pop(0)
        if is_kind or self.chance.random() < 0.8:
            self.send(CheckpointCommitted(training.lease, checkpoint, lane=training.lane))
        else:
            if training.saved == checkpoint.resource and not self.is_fickle:
                training.saved = None
            kind = self.chance.choice(["", "store"])
            self.send(CheckpointFailed(training.lease, checkpoint, "disk full", error_kind=kind, lane=training.lane))

    def finish(self, training: Training, outcome: Outcome, error_kind: str = "") -> None:
        training.is_ended = True
        resource, saved, lane = training.resource, training.saved, training.lane
        self.send(TrainingEnded(training.lease, outcome, resource, saved, error_kind, error_kind, lane))

    def lose(self) -> None:
        if alive := self.state.pool.alive():
            slot = self.chance.choice(alive)
            self.send(WorkerLost(slot.worker, slot.epoch, "killed"))

    def send_again(self) -> None:
        if self.sent:
            self.tell(self.chance.choice(self.sent[-20:]))

    def time_out(self) -> None:
        trainings = self.living()
        if trainings:
            training = self.chance.choice(trainings)
            self.tell(TrialTimedOut(training.lease, training.lane if training.has_joined else None))

    def send_stale(self) -> None:
        if slots := list(self.state.pool.slots.values()):
            slot = self.chance.choice(slots)
            number = self.chance.randint(0, self.state.next_lease)
            self.tell(Reported(Lease(number, slot.worker, slot.epoch - 1), 1, {"loss": -1.0}))

    def interrupt(self) -> None:
        self.tell(StopRequested("it was interrupted"))

    def restart(self) -> None:
        """The driver dies; the next one has the journal, and no worker."""
        self.state = self.restored() if self.chance.random() < 0.5 else self.replayed()
        self.twin = self.end = None
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
        for other in (self.restored(), self.replayed()):  # what both snapshots may lack
            is_whole = (other.stop_facts, other.best_saved) == (self.state.stop_facts, self.state.best_saved)
            assert is_whole, "what stop rules and kept checkpoints need is lost"

    def require_same_decisions(self) -> None:
        """Require that a state restored now decides like the present one from now on."""
        self.twin = self.restored()

    def step(self) -> None:
        rare = [self.lose, self.send_again, self.time_out, self.send_stale, self.interrupt, self.restart]
        common: list[Callable[[], None]] = [self.train] * 40 + [self.attach] * 8 + [self.begin_run] * 3
        self.chance.choice([*common, *rare])()

    def live(self, steps: int) -> None:
        """Start a driver and let this many random events happen."""
        self.tell(DriverStarted("test"))
        for _ in range(steps):
            self.step()

    def drain(self) -> None:
        """Continue without faults until a run has ended with all that it requested."""
        for _ in range(5_000):
            if self.state.run is None:
                if self.end is not None and self.end.is_complete:
                    return
                self.begin_run()
            self.attach()
            self.train(is_kind=True)
        waiting = [self.state.trials[number] for number in self.state.waiting]
        raise AssertionError(f"the run never ends; open: {self.state.attempts}; waiting: {waiting}")
