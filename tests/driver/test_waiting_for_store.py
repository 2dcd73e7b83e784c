"""The driver while its store cannot be used: nothing is lost or acknowledged too early, and waiting has an end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import DismissWorker, StopTraining
from asyncsearch.driver.store_waits import JOURNAL, StoreWaits
from asyncsearch.errors import StoreError, StoreLostError
from asyncsearch.events import (
    CheckpointFailed,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    StopRequested,
    TrainingEnded,
)
from asyncsearch.ids import CheckpointRef, NodeKey, WorkerId
from asyncsearch.journal.opening import read_records, replay
from asyncsearch.rpc.messages import Hello, StoreOutage
from asyncsearch.schedulers import FIFO
from asyncsearch.store.base_store import Store
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.open_files import Segment
from asyncsearch.trial import TrialState
from tests.driver.test_loop import Harness, call
from tests.engine.tools import make_state

PATIENCE_S = 60.0


class FailingSegment:
    """A segment whose appends fail, after they have written a part, as long as its store is full."""

    def __init__(self, segment: Segment, store: FullStore) -> None:
        self._segment, self._store = segment, store

    @property
    def name(self) -> str:
        return self._segment.name

    def append(self, data: bytes) -> None:
        self._store.silence.wait()
        error = self._store.error
        if error is None:
            self._segment.append(data)
            return
        part = self._store.written(data)
        if part:
            with open(Path(self._store.url) / "journal" / self.name, "ab") as file:
                file.write(part)
        self._segment.close()
        self._store.tries.put(data)
        raise error

    def close(self) -> None:
        self._segment.close()


class FullStore(LocalStore):
    """A store whose journal can be made to fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.error: Exception | None = None
        self.silence = threading.Event()
        self.silence.set()
        self.tries: queue.Queue[bytes] = queue.Queue()
        self.written: Callable[[bytes], bytes] = lambda data: b""

    def open_segment(self) -> Any:
        return FailingSegment(super().open_segment(), self)


@pytest.fixture
def store(tmp_path: Path) -> FullStore:
    home = FullStore(tmp_path / "study")
    home.prepare()
    return home


def make_harness(store: Store, **settings: Any) -> Harness:
    return Harness(store, make_state(FIFO(max_resource=3)), **settings)


def fail_one_append(store: FullStore, harness: Harness, written: Callable[[bytes], bytes]) -> Any:
    """Let the append of a report fail, with a part of it written, and then the store work again."""
    lease = harness.begin(1).work.lease
    store.written, store.error = written, StoreError("no space left")
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    store.tries.get(timeout=PATIENCE_S)
    assert harness.wire.acknowledged.empty()
    store.error = None
    return lease


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda data: b"", id="nothing"),
        pytest.param(lambda data: data[:-1], id="all but the newline"),
        pytest.param(lambda data: data[: len(data) // 2], id="half"),
        pytest.param(lambda data: data, id="all"),
    ],
)
def test_a_failed_write_is_repeated_whole_in_a_new_segment(store: FullStore, written: Callable[[bytes], bytes]) -> None:
    harness = make_harness(store)
    lease = fail_one_append(store, harness, written)
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 1
    harness.say(2, Reported(lease, 2, {"loss": 0.25}))
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 2
    assert harness.driver.failure is None
    records = list(read_records(store))
    assert [record.n for record in records] == list(range(1, len(records) + 1))
    reports = [record.event for record in records if isinstance(record.event, Reported)]
    assert reports == [Reported(lease, 1, {"loss": 0.5}), Reported(lease, 2, {"loss": 0.25})]
    assert len(store.journal_segments()) == 2
    harness.driver.close()


def test_the_user_learns_once_that_the_journal_waits_and_once_of_its_end(store: FullStore) -> None:
    harness = make_harness(store)
    fail_one_append(store, harness, lambda data: b"")
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 1
    began, ended = call(harness.driver, lambda _: list(harness.driver.notices))
    assert "The journal cannot use the store: no space left" in began
    assert "store_timeout" in began
    assert "Nothing waits for the store any more" in ended
    harness.driver.close()


def test_waiting_for_a_journal_in_vain_stops_workers_and_ends_the_run(store: FullStore) -> None:
    harness = make_harness(store, store_timeout_s=0.05)
    lease = harness.begin(1).work.lease
    store.error = StoreError("no space left.")
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    assert harness.driver.ended.wait(PATIENCE_S)
    assert isinstance(harness.driver.failure, StoreError)
    words = str(harness.driver.failure)
    assert "could not be used for 0.05 s: no space left." in words
    assert "Study.resume" in words
    assert harness.wire.next(DismissWorker).is_unheard, "the workers wait for no acknowledgement"
    assert harness.wire.acknowledged.empty()
    harness.driver.close()


@pytest.fixture
def silence(store: FullStore) -> Iterator[threading.Event]:
    """Cleared: appends hang until it is set."""
    yield store.silence
    store.silence.set()


def test_a_write_that_hangs_is_waited_for_and_said(
    store: FullStore, silence: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(StoreWaits, "say", lambda _, sentence: said.put(sentence))
    harness = make_harness(store, store_silent_s=1.0)
    lease = harness.begin(1).work.lease
    silence.clear()
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    assert "The journal cannot use the store: It does not answer." in said.get(timeout=PATIENCE_S)
    assert harness.wire.acknowledged.empty()
    silence.set()
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) == 1
    assert "Nothing waits for the store any more" in said.get(timeout=PATIENCE_S)
    harness.driver.close()
    assert len(store.journal_segments()) == 1, "it is not written again"


def test_a_write_that_hangs_in_vain_ends_the_run(store: FullStore, silence: threading.Event) -> None:
    harness = make_harness(store, store_silent_s=1.0, store_timeout_s=2.0)
    lease = harness.begin(1).work.lease
    silence.clear()
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    assert harness.driver.ended.wait(PATIENCE_S)
    words = str(harness.driver.failure)
    assert isinstance(harness.driver.failure, StoreError)
    assert "could not be used for 2 s: It does not answer." in words
    harness.driver.close()  # does not wait for the write
    assert not silence.is_set()
    assert harness.wire.acknowledged.empty()


def test_what_waiting_cannot_mend_ends_the_run_at_once(store: FullStore) -> None:
    harness = make_harness(store)
    lease = harness.begin(1).work.lease
    store.error = StoreLostError("the journal was removed")
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    assert harness.driver.ended.wait(PATIENCE_S)
    assert harness.driver.failure is store.error
    assert store.tries.qsize() == 1
    harness.driver.close()


def test_a_worker_that_attaches_after_the_store_was_lost_is_dismissed(store: FullStore) -> None:
    harness = make_harness(store)
    harness.driver.post(DriverStarted("test"))
    harness.driver.post(RunRequested(2, 2))
    for worker in (0, 1):
        assert harness.launched.get(timeout=PATIENCE_S) == (worker, 1)
    store.error = StoreLostError("the journal was removed")
    for worker in (WorkerId(0), WorkerId(1)):
        harness.on_loop(lambda worker=worker: harness.driver.attached(Hello(worker, 1, "agent"), "peer"))
        assert harness.driver.ended.wait(PATIENCE_S)
        dismissed = harness.wire.next(DismissWorker)
        assert (dismissed.worker, dismissed.is_unheard) == (worker, True)
    harness.driver.close()


def test_a_requested_stop_ends_the_wait_for_the_journal(store: FullStore) -> None:
    harness = make_harness(store)
    lease = harness.begin(1).work.lease
    store.error = StoreError("no space left")
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    store.tries.get(timeout=PATIENCE_S)
    harness.driver.post(StopRequested("it was interrupted"))
    assert harness.driver.ended.wait(PATIENCE_S)
    assert "it was interrupted: no space left" in str(harness.driver.failure)
    harness.driver.close()


def test_a_run_broken_off_while_its_journal_waits_does_not_end_well(store: FullStore) -> None:
    harness = make_harness(store)
    lease = harness.begin(1).work.lease
    store.error = StoreError("no space left")
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    store.tries.get(timeout=PATIENCE_S)
    closing = threading.Thread(target=harness.driver.close)
    closing.start()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert isinstance(harness.driver.failure, StoreError)


def test_a_worker_that_waits_in_vain_ends_the_run_as_an_interrupt_does(store: FullStore) -> None:
    harness = make_harness(store, store_timeout_s=0.05)
    lease = harness.begin(1).work.lease
    harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    harness.say(2, StoreOutage("Cannot commit: no space left."))
    assert harness.wire.next(StopTraining).lease == lease
    harness.say(3, TrainingEnded(lease, Outcome.STOPPED, 1, checkpoint_resource=1))
    harness.say(4, CheckpointFailed(lease, CheckpointRef(NodeKey("0" * 32), 1), "no space left", error_kind="store"))
    assert harness.driver.ended.wait(PATIENCE_S)
    end = harness.driver.outcome
    assert end is not None
    assert (end.error_kind, end.is_complete) == ("StoreError", False)
    assert "could not be used for 0.05 s: Cannot commit: no space left." in end.reason
    harness.driver.close()
    state = make_state(FIFO(max_resource=3))
    replay(store, state)
    assert (state.trials[0].state, state.trials[0].failures, state.trials[0].losses) == (TrialState.WAITING, 0, 0)


def test_a_worker_that_waits_no_longer_does_not_end_the_run(store: FullStore) -> None:
    harness = make_harness(store, store_timeout_s=60.0)
    lease = harness.begin(1).work.lease
    harness.say(1, StoreOutage("no space left"))
    harness.say(2, StoreOutage())
    harness.say(3, Reported(lease, 3, {"loss": 0.5}))
    assert harness.wire.acknowledged.get(timeout=PATIENCE_S) in (1, 2, 3)
    assert call(harness.driver, lambda _: harness.driver._waits.next_deadline()) is None
    harness.driver.close()


def test_waiting_for_the_store_is_not_the_trials_own_time(store: FullStore) -> None:
    harness = make_harness(store, trial_timeout_s=3.0, store_timeout_s=4.0)
    lease = harness.begin(1).work.lease
    harness.say(1, StoreOutage("no space left"))
    stop = harness.wire.next(StopTraining)  # by the store's timeout, which is longer than the trial's
    assert stop.lease == lease
    assert "the store could not be used" in stop.reason
    harness.driver.close()


def test_why_a_silent_store_cannot_be_used_is_told_once_it_is_known() -> None:
    waits = StoreWaits("store", 600.0)
    for error in ("It does not answer.", "It does not answer.", "The NameNode is away", "It does not answer.", "Other"):
        waits.began(JOURNAL, error, 0.0)
    told = [sentence.partition(": ")[2].partition(" Nothing")[0] for sentence in waits.notices]
    assert told == ["It does not answer.", "The NameNode is away."]
    waits.ended(JOURNAL, 1.0)
    waits.began(JOURNAL, "Other", 2.0)
    assert "Other." in waits.notices[-1]
