"""Stores on a real HDFS: the laws of every store, and those of open files, leases and forks."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from asyncsearch.errors import BeingWrittenError, JournalDamagedError, SegmentOverError, StoreError, StoreLockedError
from asyncsearch.events import DriverStarted
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.writer import Journal
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.hdfs import files, open_file, segment
from asyncsearch.store.hdfs.files import HdfsFiles
from asyncsearch.store.hdfs.open_file import OpenFile
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.store.logs.reader import LogReader
from asyncsearch.testing.stores import StoreTests
from tests.store.hdfs_cluster import REPOSITORY, hdfs

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("staged_inside")]
ODD = 'a\'; echo "b" ?x=1#y%20 ü'


class TestHdfs(StoreTests):
    repeats = 15

    def make(self) -> Store:
        return open_store(f"{hdfs().new()}/{ODD}")


@pytest.fixture
def store() -> HdfsStore:
    made = HdfsStore(hdfs().new(), lock_lease_s=1.0)
    made.prepare()
    return made


@pytest.fixture
def left_open(store: HdfsStore) -> HdfsStore:
    """A store whose driver was killed behind its third append."""
    code = (
        "import os, sys\n"
        "from asyncsearch.store import open_store\n"
        "segment = open_store(sys.argv[1]).open_segment()\n"
        "[segment.append(b'%d\\n' % number) for number in range(3)]\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, store.url], cwd=REPOSITORY, check=False)
    return store


def test_what_a_killed_driver_has_synced_is_read_under_the_lock(left_open: HdfsStore) -> None:
    with left_open.lock():
        assert list(left_open.read_segment("000001.jsonl")) == [b"0\n", b"1\n", b"2\n"]


def test_without_the_lock_an_open_segment_is_never_taken_for_a_shorter_one(left_open: HdfsStore) -> None:
    with pytest.raises(BeingWrittenError, match=r"0 of 6 bytes can be read.*Study\.resume"):
        list(left_open.read_segment("000001.jsonl"))
    list(read_records(left_open))


def test_under_the_lock_a_segment_that_reads_shorter_than_it_is_is_refused(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.lock():
        written = store.open_segment()
        written.append(b"a\n" * 9)
        written.close()
        monkeypatch.setattr(store._remote, "blocks", lambda name: iter([b"a\na"]))
        with pytest.raises(JournalDamagedError, match="3 of 18 bytes can be read"):
            list(store.read_segment(written.name))


def test_a_driver_that_lost_its_lease_appends_nothing_and_names_the_other(store: HdfsStore) -> None:
    with store.lock():
        old = store.open_segment()
        old.append(b"a\n")
        assert store._lock is not None
        with TakenOver(store):
            store._lock._fresh_until = float("inf")  # as in an append that began before its lease ended
            with pytest.raises(StoreLockedError, match=f"to another driver, process {os.getpid()} on"):
                old.append(b"b\n")
            store._lock._fresh_until = float("inf")
            with pytest.raises(StoreLockedError):
                store.open_segment()
    with store.lock():
        assert store.journal_segments() == ["000001.jsonl"]
        assert list(store.read_segment("000001.jsonl")) == [b"a\n"]


class TakenOver:
    """Another driver has the study, since the lease of the first one has run out."""

    def __init__(self, store: HdfsStore) -> None:
        self._other = HdfsStore(store.url, lock_lease_s=0.0)
        self._other._lease_s = 60.0
        segment.open_segments._by_place.clear()  # the other driver is another process
        self._context = self._other.lock()
        first = store._lock
        assert first is not None
        first._stop.set()
        first._thread.join()
        record = store._remote.read(first._own.name)
        assert record is not None
        store._remote.write(first._own.name, record.replace(b'"released":false', b'"released":true'))

    def __enter__(self) -> None:
        self._context.__enter__()

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)


def test_a_segment_is_closed_by_and_by_so_that_others_can_read_it(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "SHORTEST_S", 0.2)
    with store.lock():
        written = store.open_segment()
        written.append(b"a\n")
        written._timer.join()
        with pytest.raises(SegmentOverError):
            written.append(b"b\n")
        assert list(HdfsStore(store.url).read_segment(written.name)) == [b"a\n"]


def test_a_file_that_is_being_written_is_not_closed_for_it(store: HdfsStore) -> None:
    file = store._remote.open_new("logs/x.log")
    assert file is not None
    file.append(b"a\n")
    assert not file._finish(2)
    file.append(b"b\n")
    file.close()
    assert store._remote.read("logs/x.log") == b"a\nb\n"


def test_a_file_may_be_renamed_while_its_writer_learns_that_it_is_closed(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    close = OpenFile._close_writer

    def watched(self: OpenFile) -> None:
        try:
            close(self)
            ended.put(None)
        except Exception as error:
            ended.put(error)

    monkeypatch.setattr(OpenFile, "_close_writer", watched)
    monkeypatch.setattr(files, "_options", lambda overwrite=False: one_replica(overwrite))  # it is reported last
    for number in range(2):
        store.write(f"snapshots/{number}.json", b"{}")
        assert store.read(f"snapshots/{number}.json") == b"{}"
        assert ended.get(timeout=60) is None


def one_replica(overwrite: bool) -> Any:
    import hdfs_native

    return hdfs_native.WriteOptions(permission=0o644, overwrite=overwrite, create_parent=True, replication=1)


def test_a_process_that_prepared_a_store_can_fork(store: HdfsStore) -> None:
    done = subprocess.run(["true"], preexec_fn=lambda: None, check=False)  # as pyspark does
    assert done.returncode == 0


def test_a_store_is_unusable_in_a_forked_child_which_is_told_so(store: HdfsStore) -> None:
    open_file = store.open_segment()
    open_file.append(b"a\n")
    store.write("study.json", b"{}")
    assert [_words_of_a_child(one) for one in (store, open_store(store.url))] == 2 * ["hdfs-native does not survive"]
    open_file.append(b"b\n")
    open_file.close()
    assert store.read("study.json") == b"{}"


def _words_of_a_child(store: Store) -> str:
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        found = pool.submit(store.read, "study.json").exception(timeout=60)
    return "hdfs-native does not survive" if "hdfs-native does not survive a fork" in str(found) else repr(found)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_forked_child_that_ends_as_an_interpreter_does_does_not_hang(store: HdfsStore, is_open: bool) -> None:
    code = (
        "import os, sys\n"
        "from asyncsearch.store import open_store\n"
        "store = open_store(sys.argv[1])\n"
        "store.prepare()\n"
        "segment = store.open_segment() if sys.argv[2] == 'True' else None\n"
        "segment is None or segment.append(b'a\\n')\n"
        "if os.fork() == 0:\n"
        "    del segment, store\n"
        "    sys.exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    command = [sys.executable, "-c", code, store.url, str(is_open)]
    done = subprocess.run(command, cwd=REPOSITORY, check=False)
    assert done.returncode == 7


def test_an_unanswered_append_fails_and_the_journal_uses_a_new_segment(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    journal = Journal(store, "study", 0)
    journal.append(journal.encode(DriverStarted("1"), (), 0.0))
    line = journal.encode(DriverStarted("2"), (), 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(OpenFile, "_write_and_sync", lambda self, data: answers.wait())
        patch.setattr(open_file, "SYNC_S", 0.2)
        with pytest.raises(StoreError, match="does not answer in time"):
            journal.append(line)
    journal.append(line)
    journal.close()
    answers.set()
    assert [record.n for record in read_records(store)] == [1, 2]
    assert len(store.journal_segments()) == 2


def test_a_pickled_store_knows_the_cluster_that_the_driver_found(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = hdfs().url.removeprefix("hdfs://")
    settings = {
        "fs.defaultFS": "hdfs://team",
        "dfs.ha.namenodes.team": "one",
        "dfs.namenode.rpc-address.team.one": authority,
    }
    monkeypatch.setattr("asyncsearch.store.hdfs.files.hadoop_settings", lambda: settings)
    place = hdfs().new().removeprefix(hdfs().url)
    for url in (f"hdfs://{place}", f"hdfs://team{place}"):
        data = pickle.dumps(open_store(url))
        open_store(url).write("study.json", url.encode())
        with monkeypatch.context() as patch:
            patch.setattr("asyncsearch.store.hdfs.files.hadoop_settings", dict)
            worker = pickle.loads(data)
            assert worker.read("study.json") == url.encode()
            assert worker.child("inside").read("study.json") is None


class Repeating:
    """A client that repeats each rename, as hdfs-native does when the answer to the first one was lost."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def rename(self, *arguments: Any) -> None:
        self._client.rename(*arguments)
        self._client.rename(*arguments)


def test_a_rename_that_is_repeated_after_a_failover_has_succeeded(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = HdfsFiles.client.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(HdfsFiles, "client", property(lambda files: Repeating(client(files))))
    store.write("study.json", b"old")
    store.write("study.json", b"new")
    assert store.read("study.json") == b"new"
    assert store.create("claims/a/1.json", b"first")
    monkeypatch.undo()
    assert not store.create("claims/a/1.json", b"second")
    assert store.read("claims/a/1.json") == b"first"
    assert not store._remote.list("tmp")


def test_what_hdfs_refuses_is_said_in_words_without_java(store: HdfsStore) -> None:
    store.write("study.json", b"{}")
    with pytest.raises(StoreError) as caught:
        open_store(f"{store.url}/study.json/x").write("a", b"")
    assert "a parent of that path is a file" in str(caught.value)
    assert "org.apache" not in str(caught.value)
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, StoreError)


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Iterator[None]:
    yield
    for left in list(segment.open_segments._by_place.values()):
        left.close()


def test_logs_of_200_trials_take_a_sync_an_append_and_are_read_once_closed(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    begin = open_file.begin

    def counted(function: Any, *arguments: Any) -> Any:
        calls.append(getattr(function, "__name__", ""))
        return begin(function, *arguments)

    monkeypatch.setattr(open_file, "begin", counted)
    writer, reader = store.open_log(), LogReader(store, "trial-7")
    for block in range(10):
        writer.write({f"trial-{number}": [f"{block}.000 O a line of many words"] for number in range(200)})
    assert len(calls) <= 20, calls
    assert list(reader.lines()) == []
    assert "is being written" in reader.unread
    writer.close()
    assert list(reader.lines()) == [f"{block}.000 O a line of many words" for block in range(10)]
    assert reader.unread == ""


def test_logs_synced_by_a_killed_driver_are_read_once_another_has_the_lock(store: HdfsStore) -> None:
    code = (
        "import os, sys\n"
        "from asyncsearch.store import open_store\n"
        "log = open_store(sys.argv[1]).open_log()\n"
        "[log.write({'trial-0': [f'{number}.000 O x'], 'trial-1': ['y']}) for number in range(3)]\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, store.url], cwd=REPOSITORY, check=False)
    reader = LogReader(store, "trial-0")
    assert (list(reader.lines()), bool(reader.unread)) == ([], True)
    with store.lock():
        assert list(reader.lines()) == ["0.000 O x", "1.000 O x", "2.000 O x"]
        store.append_log("trial-0", ["3.000 O of the next driver"])
    assert list(reader.lines()) == ["3.000 O of the next driver"]


def test_logs_of_earlier_versions_go_on(store: HdfsStore) -> None:
    store.write("logs/trial-0.log/000000000000-000000000004", b"1\n2\n")
    store.write("logs/trial-0.log/000000000002-000000000006", b"2\n3\n")
    store.append_log("trial-0", ["4.000 O new"])
    assert list(store.read_log("trial-0")) == ["1", "2", "3", "4.000 O new"]
