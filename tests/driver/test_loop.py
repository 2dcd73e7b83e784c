"""The driver's shell: nothing is carried out or acknowledged before it is durable, and silence has an end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from asyncsearch.actions import AnyAction, Assign, StopTraining
from asyncsearch.driver.incoming import EventInbox
from asyncsearch.driver.loop import Driver
from asyncsearch.driver.questions import Answerer, Response
from asyncsearch.driver.timeouts import DriverSettings
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import MessageTooLargeError, StaleLeaseError, StoreError
from asyncsearch.events import (
    KILLED,
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    Consulted,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    StopRequested,
    TrainingEnded,
)
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.journal.opening import read_records, replay
from asyncsearch.journal.writer import Journal
from asyncsearch.rpc.messages import Heartbeat, Hello, LogLine, LogLines, Refused, TrialQuestion, WorkerMessage
from asyncsearch.runner.seal import Seal, launch_key
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.local.store import LocalLog
from tests.engine.tools import make_state

W0, SECRET = WorkerId(0), b"s" * 32
T = TypeVar("T")
PATIENCE_S = 300.0


class Wire:
    """A transport that remembers; each ``next`` waits for the next thing of a kind."""

    def __init__(self) -> None:
        self.sent: queue.Queue[Any] = queue.Queue()
        self.acknowledged: queue.Queue[int] = queue.Queue()
        self.disconnected: queue.Queue[tuple[int, str]] = queue.Queue()

    def send(self, worker: WorkerId, epoch: int, message: Any) -> None:
        self.sent.put(message)

    def acknowledge(self, worker: WorkerId, epoch: int, number: int) -> None:
        self.acknowledged.put(number)

    def disconnect(self, worker: WorkerId, epoch: int, reason: str) -> None:
        self.disconnected.put((epoch, reason))

    def next(self, kind: type[Any]) -> Any:
        while True:
            message = self.sent.get(timeout=PATIENCE_S)
            if isinstance(message, kind):
                return message


def call(driver: Driver, function: Callable[[StudyState], T]) -> T:
    """Return ``function(state)``, called in the driver's thread."""

    async def run() -> T:
        return function(driver._state)

    return asyncio.run_coroutine_threadsafe(run(), driver.loop).result()


class Harness:
    """A driver with a wire instead of workers."""

    def __init__(
        self,
        store: Store,
        state: StudyState,
        shared: FolderMembership | None = None,
        clock: Any = time.time,
        is_connected: bool = True,
        launches_at_once: int | None = None,
        answerer: Answerer | None = None,
        **settings: Any,
    ) -> None:
        self.now = 1000.0
        self.store, self.state, self.wire = store, state, Wire()
        self.launched: queue.Queue[tuple[int, int]] = queue.Queue()
        self.killed: queue.Queue[tuple[int, int]] = queue.Queue()
        self.driver = Driver(
            state,
            store,
            Journal(store, "test", replay(store, make_state(FIFO(max_resource=3))).last),
            launch=lambda worker, epoch: self.launched.put((worker, epoch)),
            kill=lambda worker, epoch: self.killed.put((worker, epoch)),
            launches_at_once=launches_at_once,
            settings=DriverSettings(**settings),
            shared=shared,
            answerer=answerer,
            secret=SECRET,
            clock=clock,
        )
        if is_connected:
            self.driver.connect(self.wire)

    def attach(self, num_trials: int) -> None:
        self.driver.post(DriverStarted("test"))
        self.driver.post(RunRequested(num_trials, 1))
        assert self.launched.get(timeout=PATIENCE_S) == (0, 1)
        self.on_loop(lambda: self.driver.attached(Hello(W0, 1, "agent"), "peer"))

    def begin(self, num_trials: int) -> Assign:
        self.attach(num_trials)
        assign = self.wire.next(Assign)
        assert isinstance(assign, Assign)
        return assign

    def on_loop(self, function: Any) -> None:
        call(self.driver, lambda _: function())

    def say(self, number: int, message: WorkerMessage, epoch: int = 1) -> None:
        self.on_loop(lambda: self.driver.received(W0, epoch, number, message))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    home = open_store(tmp_path / "study")
    home.prepare()
    return home


@pytest.fixture
def harness(store: Store) -> Iterator[Harness]:
    made = Harness(store, make_state(FIFO(max_resource=3)))
    yield made
    made.driver.close()


@contextlib.contextmanager
def two_launches(store: Store, monkeypatch: pytest.MonkeyPatch, held_s: float = 2 * PATIENCE_S) -> Iterator[Harness]:
    """A driver that holds the second of two launches back, for so long."""
    monkeypatch.setattr("asyncsearch.driver.dispatcher._HELD_S", held_s)
    made = Harness(store, make_state(FIFO(max_resource=3)), launches_at_once=1)
    try:
        made.driver.post(DriverStarted("test"))
        made.driver.post(RunRequested(4, 2))
        assert made.launched.get(timeout=PATIENCE_S) == (0, 1)
        yield made
    finally:
        made.driver.close()


def test_a_launch_that_was_held_back_begins_when_the_first_worker_attaches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_launches(store, monkeypatch) as made:
        assert call(made.driver, lambda _: made.launched.empty())
        made.on_loop(lambda: made.driver.attached(Hello(W0, 1, "agent"), "peer"))
        assert made.launched.get(timeout=PATIENCE_S) == (1, 1)


def test_a_launch_that_was_held_back_begins_when_the_one_before_it_is_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_launches(store, monkeypatch) as made:
        assert call(made.driver, lambda _: made.launched.empty())
        made.driver.lost(W0, 1, "it could not be launched")
        assert made.launched.get(timeout=PATIENCE_S) == (1, 1)


def test_a_launch_is_not_held_back_for_ever(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_launches(store, monkeypatch, 0.001) as made:
        assert made.launched.get(timeout=PATIENCE_S) == (1, 1)


def test_a_launch_held_back_until_the_run_ends_never_begins(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_launches(store, monkeypatch) as made:
        made.driver.post(StopRequested("enough"))
        assert made.driver.ended.wait(PATIENCE_S)
    assert made.launched.empty()
    assert [made.killed.get_nowait() for _ in range(made.killed.qsize())] == [(0, 1)]


def test_what_is_acknowledged_is_in_the_journal(harness: Harness) -> None:
    lease = harness.begin(1).work.lease
    harness.say(7, Reported(lease, 1, {"loss": 0.5}))
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 7
    events = [record.event for record in read_records(harness.store)]
    assert events[-1] == Reported(lease, 1, {"loss": 0.5})


def test_parameters_that_fit_into_no_message_cost_their_trial_only(harness: Harness) -> None:
    send, refused = harness.wire.send, []

    def refuse_the_second_trial(worker: WorkerId, epoch: int, message: Any) -> None:
        if isinstance(message, Assign) and message.work.lanes[0].stages[0].trials == (1,):
            refused.append(message)
            raise MessageTooLargeError("Assign: too many bytes")
        send(worker, epoch, message)

    harness.wire.send = refuse_the_second_trial  # type: ignore[method-assign]
    first = harness.begin(3).work.lease
    harness.say(1, Reported(first, 3, {"loss": 0.5}))
    harness.say(2, TrainingEnded(first, Outcome.RETURNED, 3))
    third = harness.wire.next(Assign)
    assert third.work.lanes[0].stages[0].trials == (2,)
    assert refused, "the second trial was tried"
    assert harness.driver.failure is None
    ended = [record.event for record in read_records(harness.store) if isinstance(record.event, TrainingEnded)]
    assert ended[-1].error_kind == "MessageTooLargeError"


def test_a_killed_process_is_announced_with_costs_and_its_trial_reassigned(harness: Harness) -> None:
    lease = harness.begin(1).work.lease
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    harness.say(2, TrainingEnded(lease, Outcome.FAILED, 1, None, "its process was killed by SIGKILL", KILLED))
    again = harness.wire.next(Assign)
    assert again.work.lanes[0].stages[0].trials == (0,)
    assert call(harness.driver, lambda state: (state.trials[0].failures, state.trials[0].losses)) == (0, 1)
    [notice] = harness.driver.notices
    assert notice.startswith(
        "trial-0 lost a process on worker-0: its process was killed by SIGKILL. trial-0 begins again"
    )


class SlowAnswerer:
    """Answers once it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    def answer(self, _trial: TrialId, _lease: Lease, content: bytes) -> Response:
        assert self.may_answer.wait(PATIENCE_S)
        return Response(facts={"said": content.decode()})

    def followed(self, _event: AnyEvent, _actions: Sequence[AnyAction]) -> Response:
        return Response()


def test_a_worker_is_lost_after_all_that_it_had_said(store: Store) -> None:
    answerer = SlowAnswerer()
    harness = Harness(store, make_state(FIFO(max_resource=3)), answerer=answerer)
    try:
        lease = harness.begin(1).work.lease
        word = Seal(launch_key(SECRET, W0, 1)).closed(1, b"its last word")
        harness.say(1, Reported(lease, 3, {"loss": 0.5}))
        harness.say(2, TrialQuestion(lease, 1, word, is_awaited=False))
        harness.say(3, TrainingEnded(lease, Outcome.RETURNED, 3))
        harness.driver.lost(W0, 1, "its process has ended")
        answerer.may_answer.set()
        assert harness.driver.ended.wait(PATIENCE_S)
        assert call(harness.driver, lambda state: state.trials[0].losses) == 0
    finally:
        harness.driver.close()
    told = [type(record.event) for record in read_records(store)]
    assert told.index(Consulted) < told.index(TrainingEnded)


def test_messages_that_wait_together_share_one_sync(harness: Harness) -> None:
    lease = harness.begin(1).work.lease
    appended: list[bytes] = []
    append = harness.driver._journal.append
    harness.driver._journal.append = lambda lines: (appended.append(lines), append(lines))[1]  # type: ignore[method-assign,func-returns-value]

    def say_three() -> None:
        for number in (1, 2, 3):
            harness.driver.received(W0, 1, number, Reported(lease, number, {"loss": 0.5}))

    harness.on_loop(say_three)
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 3, "one acknowledgement for all"
    assert [lines.count(b"\n") for lines in appended] == [3]


def test_an_unwritable_journal_stops_the_run_and_acknowledges_nothing(store: Store) -> None:
    harness = Harness(store, make_state(FIFO(max_resource=3)), store_timeout_s=0.0)
    lease = harness.begin(1).work.lease

    def fail(lines: bytes) -> None:
        raise StoreError("no space left")

    harness.driver._journal.append = fail  # type: ignore[method-assign]
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    assert harness.driver.ended.wait(PATIENCE_S)
    assert isinstance(harness.driver.failure, StoreError)
    assert harness.wire.acknowledged.empty()
    harness.driver.close()


def test_a_message_under_a_stale_lease_is_refused_and_changes_nothing(harness: Harness) -> None:
    harness.begin(1)
    before = call(harness.driver, lambda state: snapshot.encode(state, 0))
    stale = Lease(99, W0, 1)
    harness.say(1, Reported(stale, 1, {"loss": 0.0}))
    refused = harness.wire.next(Refused)
    assert refused.lease == stale
    assert call(harness.driver, lambda state: snapshot.encode(state, 0)) == before


def test_a_lease_of_another_worker_is_refused(harness: Harness) -> None:
    lease = harness.begin(1).work.lease
    harness.on_loop(lambda: harness.driver.received(WorkerId(5), 1, 1, Reported(lease, 1, {"loss": 0.0})))
    assert harness.wire.next(Refused).lease == lease


@pytest.mark.parametrize("lane", [1, 65_535])
def test_what_comes_of_a_lane_that_the_work_does_not_have_is_refused(harness: Harness, lane: int) -> None:
    lease = harness.begin(1).work.lease
    node = NodeKey("0" * 32)
    before = call(harness.driver, lambda state: snapshot.encode(state, 0))
    messages: list[WorkerMessage] = [
        Reported(lease, 1, {"loss": 0.0}, lane),
        TrainingEnded(lease, Outcome.RETURNED, 3, lane=lane),
        CheckpointCommitted(lease, CheckpointRef(node, 1), 1, lane),
        CheckpointFailed(lease, CheckpointRef(node, 1), "no space left", lane),
        LogLines(lease, (LogLine(1.0, "hello"),), lane=lane),
    ]
    for number, message in enumerate(messages, 1):
        harness.say(number, message)
        assert harness.wire.next(Refused).lease == lease
    assert call(harness.driver, lambda state: snapshot.encode(state, 0)) == before
    assert not harness.driver.logs.shown


def test_a_lane_that_has_ended_may_commit_and_log_and_nothing_else(harness: Harness) -> None:
    assign = harness.begin(2)
    lease, node = assign.work.lease, assign.work.lanes[0].stages[0].node
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    harness.say(2, TrainingEnded(lease, Outcome.STOPPED, 1, checkpoint_resource=1))
    too_late: list[WorkerMessage] = [Reported(lease, 2, {"loss": 0.0}), TrainingEnded(lease, Outcome.RETURNED, 3)]
    for number, message in enumerate(too_late, 3):
        harness.say(number, message)
        assert harness.wire.next(Refused).lease == lease
    harness.say(5, LogLines(lease, (LogLine(1.0, "saved"),)))
    harness.say(6, CheckpointCommitted(lease, CheckpointRef(node, 1), 1))
    while harness.wire.acknowledged.get(timeout=PATIENCE_S) != 6:
        pass
    assert [line.text for _, line in harness.driver.logs.shown] == ["saved"]
    trial = call(harness.driver, lambda state: state.trials[0])
    assert (trial.resource, trial.value, trial.checkpoint) == (1, 0.5, CheckpointRef(node, 1))


def test_a_launch_that_is_over_may_not_attach(harness: Harness) -> None:
    harness.begin(1)
    with pytest.raises(StaleLeaseError, match="worker-0"):
        harness.on_loop(lambda: harness.driver.attached(Hello(W0, 2, "other"), "peer"))


def test_a_worker_silent_too_long_is_lost_killed_and_relaunched(store: Store) -> None:
    harness = Harness(store, make_state(FIFO(max_resource=3)), lease_timeout_s=0.05)
    harness.begin(1)
    assert harness.killed.get(timeout=PATIENCE_S) == (0, 1)
    assert harness.launched.get(timeout=PATIENCE_S) == (0, 2)
    assert "silent" in harness.wire.disconnected.get(timeout=PATIENCE_S)[1]
    harness.driver.close()


def test_a_trial_that_takes_too_long_is_stopped(store: Store) -> None:
    harness = Harness(store, make_state(FIFO(max_resource=3)), trial_timeout_s=0.05)
    lease = harness.begin(1).work.lease
    stop = harness.wire.next(StopTraining)
    assert stop.lease == lease
    assert "trial_timeout" in stop.reason
    harness.driver.close()


def test_log_lines_go_to_the_trials_log_and_to_whoever_watches(store: Store) -> None:
    harness = Harness(store, make_state(FIFO(max_resource=3)))
    lease = harness.begin(1).work.lease
    harness.say(1, LogLines(lease, (LogLine(1.0, "hello"), LogLine(2.0, "oh", is_stderr=True)), left_out=3))
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 1
    assert [line.text for _, line in harness.driver.logs.shown] == ["hello", "oh"]
    harness.driver.close()
    lines = list(harness.store.read_log("trial-0"))
    assert "3 lines were left out" in lines[0]
    assert lines[1:] == ["1.000 O hello", "2.000 E oh"]


def test_a_worker_cannot_write_into_the_log_of_another_workers_trial(store: Store) -> None:
    harness = Harness(store, make_state(FIFO(max_resource=3)))
    lease = harness.begin(1).work.lease
    forged = LogLines(lease, (LogLine(1.0, "forged"),))
    for worker, epoch in ((WorkerId(1), 1), (W0, 2)):
        harness.on_loop(lambda worker=worker, epoch=epoch: harness.driver.received(worker, epoch, 1, forged))
        assert harness.wire.next(Refused).lease == lease
    over = Lease(lease.number + 1, W0, 1)
    harness.say(1, LogLines(over, (LogLine(1.0, "of no work"),)))
    assert harness.wire.next(Refused).lease == over
    harness.say(2, LogLines(lease, (LogLine(1.0, "its own"),)))
    while harness.wire.acknowledged.get(timeout=PATIENCE_S) != 2:
        pass
    harness.driver.close()
    assert list(harness.store.read_log("trial-0")) == ["1.000 O its own"]
    assert [line.text for _, line in harness.driver.logs.shown] == ["its own"]


def test_a_heartbeat_is_no_record(harness: Harness) -> None:
    harness.begin(1)
    before = call(harness.driver, lambda _: harness.driver._journal.last)
    harness.say(0, Heartbeat())
    assert call(harness.driver, lambda _: harness.driver._journal.last) == before


def test_the_end_of_a_launch_that_is_over_is_no_record(harness: Harness) -> None:
    harness.begin(1)
    before = call(harness.driver, lambda _: harness.driver._journal.last)
    harness.driver.lost(W0, 99, "it was replaced")
    assert call(harness.driver, lambda _: harness.driver._journal.last) == before


def test_a_closed_driver_leaves_a_snapshot_from_which_the_next_one_goes_on(store: Store) -> None:
    harness = Harness(store, make_state(FIFO(max_resource=3)))
    lease = harness.begin(2).work.lease
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    harness.say(2, TrainingEnded(lease, Outcome.RETURNED, 3))
    harness.driver.post(StopRequested("enough"))
    assert harness.wire.next(StopTraining)
    harness.driver.close()
    fresh = make_state(FIFO(max_resource=3))
    found = replay(store, fresh)
    assert store.list("snapshots") == [f"{found.last:012d}.json"]
    assert snapshot.encode(fresh, found.last) == snapshot.encode(harness.state, found.last)
    for name in store.list("snapshots"):
        store.remove(f"snapshots/{name}")
    whole = make_state(FIFO(max_resource=3))
    replay(store, whole)
    assert snapshot.encode(whole, 0) == snapshot.encode(fresh, 0)


def test_a_worker_that_cannot_be_launched_is_lost_with_the_reason(store: Store) -> None:
    state = make_state(FIFO(max_resource=3), max_relaunches=0)
    harness = Harness(store, state)

    def fail(worker: WorkerId, epoch: int) -> None:
        raise RuntimeError("no such cluster")

    harness.driver._dispatcher._launch = fail
    harness.driver.post(DriverStarted("test"))
    harness.driver.post(RunRequested(1, 1))
    assert harness.driver.ended.wait(PATIENCE_S)
    assert harness.driver.outcome is not None
    assert "no such cluster" in harness.driver.outcome.reason
    harness.driver.close()


def test_work_that_waits_for_a_deletion_is_not_overtaken_by_its_own_stop(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, gate = store.delete, threading.Event()

    def wait_and_delete(checkpoint: CheckpointRef) -> None:
        gate.wait(PATIENCE_S)
        delete(checkpoint)

    monkeypatch.setattr(store, "delete", wait_and_delete)
    harness = Harness(store, make_state(ASHA(max_resource=9), save_at_rungs=True))
    numbers = itertools.count(1)
    assign = harness.begin(9)
    while True:
        lease, stage = assign.work.lease, assign.work.lanes[0].stages[-1]
        assert stage.stop is not None
        for resource in range(stage.start + 1, stage.stop + 1):
            harness.say(next(numbers), Reported(lease, resource, {"loss": float(stage.trials[0])}))
        harness.say(next(numbers), CheckpointCommitted(lease, CheckpointRef(stage.node, stage.stop)))
        harness.say(next(numbers), TrainingEnded(lease, Outcome.REACHED, stage.stop, stage.stop))
        if (stage.trials[0], stage.stop) == (2, 3):
            break
        assign = harness.wire.next(Assign)
    harness.driver.post(StopRequested("it is enough"))
    while not call(harness.driver, lambda state: state.stopping):
        pass
    harness.say(next(numbers), Reported(lease, 9, {"loss": 0.5}))
    answer = harness.wire.sent.get(timeout=PATIENCE_S)
    assert isinstance(answer, Refused), "a checkpoint of trial-0 is still being deleted, so its work and its stop wait"
    gate.set()
    assign, stop = (harness.wire.sent.get(timeout=PATIENCE_S) for _ in range(2))
    assert isinstance(assign, Assign)
    assert assign.work.lanes[0].stages[-1].trials == (0,)
    assert stop == StopTraining(assign.work.lease, "it is enough")
    harness.driver.close()


def test_a_clock_change_makes_no_worker_lost_and_no_trial_late(store: Store) -> None:
    seconds = itertools.count(1.0e9, 3_600.0)
    harness = Harness(store, make_state(FIFO(max_resource=3)), clock=lambda: next(seconds), trial_timeout_s=1_800.0)
    lease = harness.begin(1).work.lease
    for resource in (1, 2, 3):
        harness.say(resource, Reported(lease, resource, {"loss": 0.5}))
        assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == resource
    assert harness.killed.empty()
    assert call(harness.driver, lambda state: state.trials[0].failures) == 0
    harness.driver.close()


def test_a_snapshot_that_cannot_be_saved_costs_nothing_but_time(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("asyncsearch.driver.commits.save_snapshot", refuse)
    harness = Harness(store, make_state(FIFO(max_resource=3)), snapshot_every=1)
    lease = harness.begin(1).work.lease
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 1
    harness.driver.close()
    assert harness.driver.failure is None
    assert "the disk is full" in caplog.text
    assert [record.event for record in read_records(store)][-1] == Reported(lease, 1, {"loss": 0.5})


def test_a_launch_that_ends_before_there_is_a_transport_is_refused_later(store: Store) -> None:
    harness = Harness(store, make_state(FIFO(max_resource=3)), is_connected=False)
    harness.driver.post(DriverStarted("test"))
    harness.driver.post(RunRequested(1, 1))
    assert harness.launched.get(timeout=PATIENCE_S) == (0, 1)
    harness.driver.lost(W0, 1, "its job failed")
    assert harness.launched.get(timeout=PATIENCE_S) == (0, 2)
    harness.driver.connect(harness.wire)
    assert harness.wire.disconnected.get(timeout=PATIENCE_S) == (1, "its job failed")
    harness.driver.close()


def test_no_decision_waits_for_a_snapshot_and_the_end_says_that_it_does(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.driver.commits._NOTE_AFTER_S", 0.0)
    begun, may_end, saved = threading.Event(), threading.Event(), list[int]()

    def slowly(_store: Store, _data: bytes, record: int, _crc: str) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        saved.append(record)

    monkeypatch.setattr("asyncsearch.driver.commits.save_snapshot", slowly)
    harness = Harness(store, make_state(FIFO(max_resource=3)), snapshot_every=1)
    lease = harness.begin(2).work.lease
    assert begun.wait(PATIENCE_S)
    for resource in (1, 2, 3):
        harness.say(resource, Reported(lease, resource, {"loss": 1.0}))
        while harness.wire.acknowledged.get(timeout=PATIENCE_S) != resource:
            pass
    assert saved == [], "the first one is still being saved"
    assert call(harness.driver, lambda _: harness.driver._files._work_queue.empty()), "and no other waits behind it"
    closing = threading.Thread(target=harness.driver.close)
    closing.start()
    said: list[str] = []
    while not any("a snapshot of it is being saved" in sentence for sentence in said):
        with contextlib.suppress(IndexError):
            said.append(harness.driver.notices.popleft())
    may_end.set()
    closing.join(PATIENCE_S)
    assert saved[-1] == harness.driver._journal.last


def test_the_end_says_that_it_waits_for_logs_and_waits_a_bounded_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.driver.logs._NOTE_AFTER_S", 0.0)
    monkeypatch.setattr("asyncsearch.driver.logs._END_S", 0.01)
    may_end = threading.Event()

    def never(self: LocalLog, data: bytes) -> None:
        assert may_end.wait(PATIENCE_S)

    monkeypatch.setattr(LocalLog, "append", never)
    harness = Harness(store, make_state(FIFO(max_resource=3)))
    lease = harness.begin(1).work.lease
    harness.say(1, LogLines(lease, (LogLine(1.0, "the last words"),)))
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 1
    harness.driver.close()
    may_end.set()
    first, last = harness.driver.notices
    assert first == f"The run is over; the last lines of its logs are being written to {store.shown} ..."
    assert last.startswith("The last lines of the logs were not written within 0 s, so they are lost")


def test_a_commit_whose_size_is_looked_at_is_handled_at_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    is_looking, may_look = threading.Event(), threading.Event()

    def look(store: Store, checkpoint: CheckpointRef) -> int:
        is_looking.set()
        may_look.wait(PATIENCE_S)
        return 7

    put_back = EventInbox.put_back

    def put_back_and_look(inbox: EventInbox, rest: Any) -> None:
        put_back(inbox, rest)
        may_look.set()

    monkeypatch.setattr("asyncsearch.driver.incoming.stored_bytes", look)
    monkeypatch.setattr(EventInbox, "put_back", put_back_and_look)
    harness = Harness(store, make_state(FIFO(max_resource=3), quota_bytes=5))
    assign = harness.begin(1)
    commit = CheckpointCommitted(assign.work.lease, CheckpointRef(assign.work.lanes[0].stages[0].node, 3), 7)
    harness.say(1, Reported(assign.work.lease, 3, {"loss": 0.5}))
    harness.say(2, commit)
    assert is_looking.wait(PATIENCE_S)
    harness.driver.close()
    assert [record.event for record in read_records(store)][-1] == commit
