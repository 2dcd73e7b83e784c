"""A start waits for a store that answers and cannot be used for the moment, and for no other."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator

import pytest

from asyncsearch.errors import ContentAwayError, StoreAwayError, StoreError
from asyncsearch.store.hdfs import hadoop_files
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.store.patience import CONTENT_S, Patient, waiting

TIMEOUT_S = 600.0
PATIENCE_S = 60.0


class Files:
    """Files of a cluster; time passes while one waits for it."""

    shown = "hdfs://test"

    def __init__(self, error: StoreError, until_s: float, *, names_too: bool = False) -> None:
        """Begin; the error is raised until a time, and ``names_too``: also by a listing."""
        self.error, self.until_s, self.names_too = error, until_s, names_too
        self.now_s = 0.0
        self.calls = 0

    def _answer(self) -> None:
        self.calls += 1
        if self.now_s < self.until_s:
            raise self.error

    def list(self, folder: str) -> list[str]:
        if self.names_too:
            self._answer()
        return []

    def read(self, name: str) -> bytes | None:
        self._answer()
        return name.encode()

    def blocks(self, name: str) -> Iterator[bytes]:
        self._answer()
        yield name.encode()
        yield b"more"

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def patient(files: Files, said: list[str]) -> Patient:
    return Patient(files, TIMEOUT_S, said.append, clock=lambda: files.now_s, sleep=files.sleep)


@pytest.mark.parametrize(
    ("call", "expected"),
    [(lambda files: files.read("a"), b"a"), (lambda files: b"".join(files.blocks("a")), b"amore")],
)
def test_a_call_waits_for_servers_that_are_away_and_says_so_once(
    call: Callable[[Patient], bytes], expected: bytes
) -> None:
    files, said = Files(StoreAwayError("A DataNode does not answer."), 300.0), list[str]()
    assert call(patient(files, said)) == expected
    assert 300.0 <= files.now_s < 310.0
    assert files.calls < 100
    first, last = said
    assert first == (
        "The store cannot be used yet: A DataNode does not answer. It is tried again for 600 s"
        " (checkpoints=Checkpoints(store_timeout=...)), then the run is given up."
    )
    assert last == f"The store can be used again, after {files.now_s:.0f} s."


@pytest.mark.parametrize(
    ("error", "limit_s"), [(StoreAwayError("Away."), TIMEOUT_S), (ContentAwayError("Lost?"), CONTENT_S)]
)
def test_waiting_ends(error: StoreError, limit_s: float) -> None:
    files, said = Files(error, 1e9), list[str]()
    with pytest.raises(type(error)):
        patient(files, said).read("a")
    assert limit_s < files.now_s <= limit_s + 5.0
    assert len(said) == 1


def test_the_time_that_a_client_waits_by_itself_counts_as_waiting() -> None:
    said: list[str] = []
    files = Files(StoreAwayError("No DataNode."), 20.0)

    def slowly(name: str) -> bytes | None:
        files.now_s += 15.0
        return Files.read(files, name)

    files.read = slowly  # type: ignore[method-assign]
    assert patient(files, said).read("a") == b"a"
    assert said[-1] == "The store can be used again, after 30 s."


def test_a_call_without_an_answer_is_told_of_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.store.patience.SLOW_S", 0.0)
    files, told = Files(StoreAwayError("No DataNode."), 0.0), threading.Event()
    files.read = lambda name: name.encode() if told.wait(PATIENCE_S) else None  # type: ignore[method-assign]
    said: list[str] = []

    def say(sentence: str) -> None:
        said.append(sentence)
        told.set()

    assert Patient(files, TIMEOUT_S, say).read("a") == b"a"
    assert said == ["The store has not answered for 0 s: waiting for it.", "The store can be used again, after 0 s."]


def test_a_store_that_never_answered_is_refused_as_perhaps_mistyped() -> None:
    files, said = Files(StoreAwayError("Nobody answers."), 1e9, names_too=True), list[str]()
    with pytest.raises(StoreAwayError):
        patient(files, said).read("a")
    assert (files.now_s, said) == (0.0, [])


def test_a_store_that_has_answered_once_is_waited_for_when_nobody_answers() -> None:
    files, said = Files(StoreAwayError("Nobody answers."), -1.0, names_too=True), list[str]()
    one = patient(files, said)
    one.read("a")
    files.until_s = 20.0
    assert one.read("b") == b"b"


@pytest.mark.parametrize("error", [StoreError("No right."), ValueError("a bug")])
def test_other_errors_are_told_at_once(error: Exception) -> None:
    files, said = Files(error, 1e9), list[str]()  # type: ignore[arg-type]
    with pytest.raises(type(error)):
        patient(files, said).read("a")
    assert files.now_s == 0.0


def test_who_still_holds_the_files_when_the_run_has_begun_waits_no_longer() -> None:
    files, said = Files(StoreAwayError("Away."), 1e9), list[str]()
    one = patient(files, said)
    one.end()
    with pytest.raises(StoreAwayError):
        one.read("a")
    assert (files.now_s, one.shown) == (0.0, "hdfs://test")


def test_a_store_that_waits_is_sent_to_workers_as_one_that_does_not() -> None:
    store = HdfsStore("hdfs://nowhere:8020/x")
    files = store._remote
    with waiting(1.0, print, store, None):
        assert isinstance(store._remote, Patient)
        assert type(pickle.loads(pickle.dumps(store))._remote) is type(files)
        assert store.url == "hdfs://nowhere:8020/x"
        with waiting(1.0, print, store):
            pass
    assert store._remote is files


def test_each_answer_of_hdfs_either_passes_by_itself_or_does_not() -> None:
    passing = {meaning for _, meaning, _ in hadoop_files._KNOWN if hadoop_files.passes(meaning)}
    assert passing == {
        "the NameNode is in safe mode, in which nothing can be written",
        "no NameNode of the cluster is active",
        "no DataNode can take a new file now",
        "the NameNode does not answer",
        "a DataNode has broken off the transfer",
        "the NameNode or a DataNode does not answer",
        "the NameNode or a DataNode does not answer in time",
        "the NameNode or a DataNode has closed the connection",
    }
