"""Laws that hold after every event, whatever comes in whatever order: losses, duplicates, stale leases, restarts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import (
    AnyAction,
    Assign,
    CutWork,
    DeleteCheckpoint,
    DismissWorker,
    EndRun,
    LaunchWorker,
    SaveAt,
    StopTraining,
)
from asyncsearch.engine import snapshot
from asyncsearch.engine.check import check
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.journal import FORMAT, Header, encode_header, encode_record
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
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base import Scheduler
from asyncsearch.searchers.base import Searcher
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.sequences import exponential, multistep, warmup
from asyncsearch.space import Space, choice
from asyncsearch.trial import Trial, TrialState
from asyncsearch.work import Stage, Work
from asyncsearch.worker.batch import Batch
from asyncsearch.worker.protocol import Cut, SavePoint
from tests.engine.tools import make_state, replayed
from tests.simulate.workloads import Histories

SCHEDULERS = [
    pytest.param(FIFO(max_resource=3), id="fifo"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(SHA(max_resource=9, bracket_size=4), id="sha in brackets"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, finish_best=True), id="asha that finishes its best"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="asha by stopping"),
]
VALUES: tuple[float | str, ...] = (0.0, 0.25, 0.5, 0.5, 1.0, "NaN", "Infinity")


class Training:
    """What an agent knows of one lease."""

    def __init__(self, work: Work) -> None:
        self.lease = work.lease
        self.stage: Stage = work.lanes[0].stages[0]
        self.is_loaded = work.lanes[0].load is not None
        self.resource = self.stage.start
        self.saved: int | None = None
        self.uploads: list[CheckpointRef] = []
        """Saved, and neither durable nor failed yet."""
        self.is_ended = self.is_told_to_stop = False

    @property
    def is_at_end(self) -> bool:
        return self.resource == self.stage.stop

    def save(self) -> None:
        self.saved = self.resource
        self.uploads.append(CheckpointRef(self.stage.node, self.resource))


class World:
    """Agents of one study, as the engine sees them: a commit may come before or after the end of its training."""

    def __init__(self, scheduler: Scheduler, chance: random.Random, **config: Any) -> None:
        self.make: Callable[[], StudyState] = lambda: make_state(scheduler, **config)
        self.state = self.make()
        self.chance = chance
        self.now = 0.0
        self.lines = [encode_header(Header(FORMAT, "test", 1))]
        self.said: list[AnyEvent] = []
        self.trainings: dict[int, Training] = {}
        self.launches: dict[WorkerId, int] = {}
        self.attached: set[WorkerId] = set()

    def tell(self, event: AnyEvent) -> None:
        self.now += 1.0
        is_stale, before = self.state.is_stale(event), snapshot.encode(self.state, 0)
        actions = self.state.handle(event, self.now)
        check(self.state)
        self.lines.append(encode_record(len(self.lines), self.now, event, actions))
        if is_stale:
            assert not actions
            assert snapshot.encode(self.state, 0) == before
        for action in actions:
            self.carry_out(action)

    def carry_out(self, action: AnyAction) -> None:
        match action:
            case LaunchWorker(worker=worker, epoch=epoch):
                assert epoch > self.launches.get(worker, 0)
                self.launches[worker] = epoch
            case Assign(work=work):
                assert work.lease.number not in self.trainings
                self.trainings[work.lease.number] = Training(work)
            case StopTraining(lease=lease):
                self.trainings[lease.number].is_told_to_stop = True
            case DismissWorker(worker=worker):
                self.attached.discard(worker)
            case EndRun():
                assert not self.state.attempts
                assert not self.state.pool.alive()
            case _:
                pass

    def say(self, event: AnyEvent) -> None:
        self.said.append(event)
        self.tell(event)

    def living(self) -> list[Training]:
        """Trainings whose worker is there, and has not said all of them yet."""
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
                self.say(WorkerAttached(slot.worker, slot.epoch))
                return

    def train(self, *, is_kind: bool = False) -> None:
        """Let one agent do one thing."""
        trainings = self.living()
        if not trainings:
            return
        training = self.chance.choice(trainings)
        if training.uploads and (training.is_ended or self.chance.random() < 0.5):
            self.settle(training, is_kind=is_kind)
        elif training.is_told_to_stop:
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
        self.say(Reported(training.lease, training.resource, metrics))
        every = training.stage.save_every
        if every is not None and training.resource % every == 0:
            training.save()

    def settle(self, training: Training, *, is_kind: bool) -> None:
        checkpoint = training.uploads.pop(0)
        if is_kind or self.chance.random() < 0.8:
            self.say(CheckpointCommitted(training.lease, checkpoint))
        else:
            self.say(CheckpointFailed(training.lease, checkpoint, "disk full"))

    def end(self, training: Training, outcome: Outcome, error_kind: str = "") -> None:
        training.is_ended = True
        self.say(TrainingEnded(training.lease, outcome, training.resource, training.saved, error_kind, error_kind))

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
            self.say(WorkerLost(slot.worker, slot.epoch, "killed"))

    def say_again(self) -> None:
        if self.said:
            self.tell(self.chance.choice(self.said[-20:]))

    def time_out(self) -> None:
        trainings = self.living()
        if trainings:
            self.tell(TrialTimedOut(self.chance.choice(trainings).lease))

    def say_what_is_stale(self) -> None:
        slots = list(self.state.pool.slots.values())
        if slots:
            slot = self.chance.choice(slots)
            number = self.chance.randint(0, self.state.next_lease)
            self.tell(Reported(Lease(number, slot.worker, slot.epoch - 1), 1, {"loss": -1.0}))

    def stop(self) -> None:
        self.tell(StopRequested("it was interrupted"))

    def restart(self) -> None:
        """The driver dies: a new one knows what the journal says, and no worker."""
        self.state = self.restored() if self.chance.random() < 0.5 else self.replayed()
        self.attached.clear()
        self.tell(DriverStarted("test"))
        assert not self.state.attempts

    def restored(self) -> StudyState:
        state = self.make()
        taken = snapshot.decode(snapshot.encode(self.state, 0))
        assert taken is not None
        snapshot.restore(state, taken)
        check(state)
        return state

    def replayed(self) -> StudyState:
        return replayed(self.make(), self.lines)

    def require_memory(self) -> None:
        """What is restored, and what is replayed, is what there is."""
        present = snapshot.encode(self.state, 0)
        assert snapshot.encode(self.restored(), 0) == present
        assert snapshot.encode(self.replayed(), 0) == present

    def step(self) -> None:
        rare = [self.lose, self.say_again, self.time_out, self.say_what_is_stale, self.stop, self.restart]
        common: list[Callable[[], None]] = [self.train] * 40 + [self.attach] * 8 + [self.begin_run] * 3
        self.chance.choice([*common, *rare])()

    def drain(self) -> None:
        """From now on all goes well."""
        self.begin_run()
        for _ in range(2_000):
            if self.state.run is None:
                return
            self.attach()
            self.train(is_kind=True)
        raise AssertionError(f"the run never ends; open: {self.state.attempts}")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200), save_every=st.sampled_from([None, 1, 2]))
def test_whatever_happens_in_whatever_order_the_state_is_whole_and_the_run_ends(
    scheduler: Scheduler, seed: int, steps: int, save_every: int | None
) -> None:
    world = World(scheduler, random.Random(seed), max_failures=seed % 3, save_every=save_every)
    world.tell(DriverStarted("test"))
    for number in range(steps):
        world.step()
        if number % 50 == 0:
            world.require_memory()
    world.require_memory()
    world.drain()
    world.require_memory()
    assert all(trial.state is not TrialState.RUNNING for trial in world.state.trials)


SHARED = Space(
    {
        "lr": choice(
            multistep(0.1, milestones=choice([4, 8], [4, 6], [6, 8])),
            warmup(2, multistep(0.1, milestones=choice([4, 8], [6, 8]))),
            exponential(0.1, gamma=0.9),
        )
    }
)
TWINS = Space({"lr": multistep(0.1, milestones=choice([4], [6]))})
"""Few configurations, each drawn many times: trials that come later ask for what others train or trained."""
SEARCHES = [pytest.param(SHARED, GridSearch(), id="grid"), pytest.param(TWINS, RandomSearch(), id="twins")]
SHARING_SCHEDULERS = [
    pytest.param(FIFO(max_resource=9), id="fifo"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="asha by stopping"),
]
HISTORIES = Histories()
OWN_ENDS = 0.06
"""Share of the units after which the user's function returns by itself."""


class BatchTraining:
    """An agent with one lease on a batch of stages: where it saves and ends is decided as in a real runner."""

    def __init__(self, work: Work) -> None:
        self.lease, lane = work.lease, work.lanes[0]
        self.load = lane.load
        self.is_loaded = lane.load is None
        self.batch = Batch(lane.stages)
        self.resource = self.batch.start
        self.saved: int | None = None
        """The newest checkpoint that was saved, and of which it was not said that it failed."""
        self.uploads: list[CheckpointRef] = []
        self.wishes: list[SaveAt | CutWork] = []
        """Sent to it, and not read yet."""
        self.is_ended = self.is_told_to_stop = False

    @property
    def is_at_own_end(self) -> bool:
        """Whether the user's function returns here: that too follows from the hyper-parameters alone."""
        return self.resource > 0 and self.value_at(self.resource) < OWN_ENDS

    def value_at(self, resource: int) -> float:
        """The loss of what it trains."""
        return HISTORIES.value(TrialId(0), self.batch.stages[self.batch.index_at(resource)].params, resource)

    def place(self) -> CheckpointRef:
        return CheckpointRef(self.batch.stages[self.batch.index_at(self.resource)].node, self.resource)

    def read(self) -> None:
        for wish in self.wishes:
            self.batch.amend(SavePoint(wish.node, wish.resource) if isinstance(wish, SaveAt) else Cut(wish.stop))
        self.wishes.clear()


class SharingWorld(World):
    """Agents that train batches of stages, read their wishes late, and keep what they save in one store."""

    batches: dict[int, BatchTraining]

    def __init__(self, make: Callable[[], StudyState], chance: random.Random) -> None:
        super().__init__(FIFO(max_resource=9), chance)
        self.make = make
        self.state = make()
        self.batches = {}
        self.stored: dict[CheckpointRef, float] = {}
        """What is in the store: the history that led there, as a value."""
        self.corrupt: set[CheckpointRef] = set()
        self.end_of_run: EndRun | None = None
        self.reads = chance.choice([0.05, 0.5])
        """How often an agent reads its wishes rather than that it trains on."""
        self.uploads = chance.choice([0.05, 0.5])
        self.fails = chance.choice([0.0, 0.02])

    def carry_out(self, action: AnyAction) -> None:
        match action:
            case Assign(work=work):
                self.require_that_nobody_else_trains(work)
                load = work.lanes[0].load
                assert load is None or load in self.stored, f"{load} was deleted"
                self.batches[work.lease.number] = BatchTraining(work)
            case StopTraining(lease=lease):
                self.batches[lease.number].is_told_to_stop = True
            case SaveAt(lease=lease) | CutWork(lease=lease):
                self.batches[lease.number].wishes.append(action)
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
                rest = [(n, r) for n, r in self.units(stages, attempt.resource) if r <= attempt.stop]
                assert not taken.intersection(rest), f"{attempt.lease} and {work.lease}"

    @staticmethod
    def units(stages: tuple[Stage, ...], after: int) -> Iterator[tuple[NodeKey, int]]:
        for stage in stages:
            assert stage.stop is not None
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
        elif training.wishes and self.chance.random() < self.reads:
            training.read()
        elif training.is_told_to_stop and self.chance.random() < 2 * self.reads:
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
            assert self.stored[training.load] == training.value_at(training.resource)

    def go_on(self, training: BatchTraining, *, is_kind: bool) -> None:
        batch, done = training.batch, training.resource
        if training.is_at_own_end and not batch.is_over(done):
            self.finish(training, Outcome.RETURNED)
        elif batch.is_save_due(done):
            batch.saved(done)
            if is_kind or batch.is_save_needed(done) or self.chance.random() < 0.9:
                training.saved = done
                training.uploads.append(training.place())
            else:
                self.say(CheckpointFailed(training.lease, training.place(), "disk full"))
        elif batch.is_over(done):
            self.finish(training, Outcome.REACHED if batch.is_pause(done) else Outcome.RETURNED)
        else:
            training.resource += 1
            self.say(Reported(training.lease, training.resource, {"loss": training.value_at(training.resource)}))

    def commit(self, training: BatchTraining, *, is_kind: bool) -> None:
        checkpoint = training.uploads.pop(0)
        if is_kind or self.chance.random() < 0.8:
            self.say(CheckpointCommitted(training.lease, checkpoint))
        else:
            if training.saved == checkpoint.resource:
                training.saved = None
            self.say(CheckpointFailed(training.lease, checkpoint, "disk full"))

    def finish(self, training: BatchTraining, outcome: Outcome, error_kind: str = "") -> None:
        training.is_ended = True
        self.say(TrainingEnded(training.lease, outcome, training.resource, training.saved, error_kind, error_kind))

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


def own_end(trial: Trial) -> int | None:
    return next((r for r in range(1, 9) if HISTORIES.value(trial.id, trial.params, r) < OWN_ENDS), None)


def require_the_truth(trial: Trial, config: EngineConfig) -> None:
    """A trial has the value that it would have had alone, and stands where its state says."""
    if trial.value_resource:
        assert trial.value == HISTORIES.value(trial.id, trial.params, trial.value_resource), trial
    assert trial.value_resource == trial.resource, trial
    end = own_end(trial)
    if trial.state is TrialState.COMPLETED:
        assert trial.resource == (end or trial.target), trial
    if trial.state is TrialState.PAUSED:
        assert trial.resource == trial.target, trial
    if trial.state is TrialState.FAILED:
        assert trial.failures > config.max_failures or trial.losses > config.max_losses, trial


@pytest.mark.parametrize("look_ahead", [0, 1_000])
@pytest.mark.parametrize("scheduler", SHARING_SCHEDULERS)
@pytest.mark.parametrize(("space", "searcher"), SEARCHES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250), save_every=st.sampled_from([None, 2]))
def test_whatever_happens_trials_that_share_have_the_values_that_each_would_have_alone(
    space: Space,
    searcher: Searcher,
    scheduler: Scheduler,
    look_ahead: int,
    seed: int,
    steps: int,
    save_every: int | None,
) -> None:
    def make() -> StudyState:
        failures = seed % 3
        return make_state(
            scheduler, searcher, space, max_failures=failures, save_every=save_every, look_ahead=look_ahead
        )

    world = SharingWorld(make, random.Random(seed))
    world.tell(DriverStarted("test"))
    for number in range(steps):
        world.step()
        if number % 50 == 0:
            world.require_memory()
    world.require_memory()
    world.drain()
    world.require_memory()
    for trial in world.state.trials:
        require_the_truth(trial, world.state.config)
        if scheduler.describe() == FIFO(max_resource=9).describe():
            assert trial.state in (TrialState.COMPLETED, TrialState.FAILED), trial
        assert trial.state not in (TrialState.RUNNING, TrialState.WAITING), trial
