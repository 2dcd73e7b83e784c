"""How many calls of its file system a store needs, and the table of docs/stores.md that says so."""

from __future__ import annotations

import functools
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from asyncsearch import FIFO, Study
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import LocalStore, Store, syncing
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.hdfs.addresses import Address
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.store.locks.lease_lock import LeaseLock
from asyncsearch.store.webhdfs import WebHdfsStore
from asyncsearch.study import trial_dirs
from asyncsearch.testing.store_checkpoints import load
from asyncsearch.trainable import TrialContext
from tests.store.counted_files import HttpNode, NameNode, Objects
from tests.store.resumed import SPACE, resumed, study_of

pytestmark = pytest.mark.usefixtures("staged_inside")


@pytest.fixture
def hdfs(monkeypatch: pytest.MonkeyPatch) -> tuple[Store, Counter[str]]:
    node = NameNode()
    monkeypatch.setattr("asyncsearch.store.hdfs.files.client_of", lambda address: node)
    return HdfsStore("hdfs://counted:8020/studies/a", Address("hdfs://counted:8020", ())), node.calls


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> tuple[Store, Counter[str]]:
    monkeypatch.setattr("fsspec.get_filesystem_class", lambda _: Objects)
    return FsspecStore(f"s3://studies/{uuid.uuid4().hex}"), Objects.calls


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> tuple[Store, Counter[str]]:
    node = HttpNode()
    monkeypatch.setattr("asyncsearch.store.webhdfs._Connections.to", lambda mine, gateways: node)
    return WebHdfsStore("webhdfs://counted:9870/studies/a", "http://counted:9870"), node.calls


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Store, Counter[str]]:
    calls: Counter[str] = Counter()
    for place, name in ((os, "fsync"), (os, "fdatasync"), (syncing, "sync_disk")):
        monkeypatch.setattr(place, name, lambda _: calls.update(["sync"]))
    monkeypatch.setattr(syncing, "is_synced_whole", lambda *_: True)
    store = LocalStore(tmp_path / "store")
    store.prepare()
    return store, calls


def checkpoint(store: Store, attempt: int, node: str = "a") -> CheckpointRef:
    """Commit a checkpoint of one file, as a worker does for its attempt."""
    reference = CheckpointRef(NodeKey(node), 1)
    staged = store.stage(reference)
    (staged / "checkpoint").write_bytes(b"weights")
    assert store.commit_of(attempt, reference, staged) == 7
    return reference


def of(calls: Counter[str], action: Callable[[], object]) -> Counter[str]:
    """Return the calls that an action takes."""
    calls.clear()
    action()
    return Counter(calls)


def test_checkpoint_on_hdfs_is_six_calls_and_two_files_and_one_to_delete(hdfs: tuple[HdfsStore, Counter[str]]) -> None:
    store, calls = hdfs
    committed = of(calls, lambda: checkpoint(store, 3))
    assert committed == {"create": 2, "addBlock": 2, "complete": 2}
    assert len(store._remote.find("checkpoints")) == 2
    reference = CheckpointRef(NodeKey("a"), 1)
    assert load(store, reference) == {"checkpoint": b"weights"}
    assert of(calls, lambda: store.delete_of(3, reference)) == {"delete": 1}
    assert store.checkpoints() == []


def test_checkpoint_of_objects_is_two_requests_and_three_to_delete(objects: tuple[Store, Counter[str]]) -> None:
    store, calls = objects
    assert of(calls, lambda: checkpoint(store, 3)) == {"PUT": 2}
    reference = CheckpointRef(NodeKey("a"), 1)
    assert load(store, reference) == {"checkpoint": b"weights"}
    assert of(calls, lambda: store.delete_of(3, reference)) == {"DELETE": 2, "LIST": 1}
    assert store.checkpoints() == []


def test_manifest_that_is_being_written_commits_nothing_on_hdfs(hdfs: tuple[HdfsStore, Counter[str]]) -> None:
    store, _ = hdfs
    reference = checkpoint(store, 3)
    store._remote.upload(_file(store), "checkpoints/a/1.8-a/files/checkpoint")
    store._remote.open_new("checkpoints/a/1.8-a/manifest.json")
    assert store.checkpoints() == [reference]
    assert load(store, reference) == {"checkpoint": b"weights"}, "a driver that died there hides no older version"
    store.sweep()
    assert {name.split("/")[1] for name in store._remote.find("checkpoints")} == {"1.4-a"}


def test_objects_of_a_journal_are_read_at_the_same_time_and_in_order(
    objects: tuple[Store, Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = objects
    segment = store.open_segment()
    for number in range(100):
        segment.append(b"%d\n" % number)
    read, is_second_read = store._remote.read, threading.Event()  # type: ignore[attr-defined]

    def first_after_second(name: str) -> bytes | None:
        if name.endswith("/000000002"):
            is_second_read.set()
        assert not name.endswith("/000000001") or is_second_read.wait(10), "one after the other"
        found: bytes | None = read(name)
        return found

    monkeypatch.setattr(store._remote, "read", first_after_second)  # type: ignore[attr-defined]
    assert list(store.read_segment(segment.name)) == [b"%d\n" % number for number in range(100)]


def _file(store: Store) -> Path:
    path = store.stage(CheckpointRef(NodeKey("b"), 1)) / "checkpoint"
    path.write_bytes(b"other")
    return path


@pytest.mark.parametrize("kind", ["hdfs", "objects"])
def test_sweep_deletes_what_is_not_needed_and_looks_once_at_each_node(
    kind: str, request: pytest.FixtureRequest
) -> None:
    store, calls = request.getfixturevalue(kind)
    for attempt in range(20):
        checkpoint(store, attempt, f"n{attempt}")
    needed = {CheckpointRef(NodeKey(f"n{number}"), 1) for number in range(0, 20, 2)}
    checkpoint(store, 20, "n2")
    store.sweep_except(needed)
    assert set(store.checkpoints()) == needed
    assert len(store._remote.find("checkpoints")) == 2 * len(needed), "of two versions the older one is removed"
    if kind == "hdfs":
        assert of(calls, lambda: store.sweep_except(needed)) == {"getListing": 2 + len(needed)}


class Noting(FsspecStore):
    """A subclass of a user's, written for a version that had these methods alone."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.noted: list[str] = []

    def commit(self, checkpoint: CheckpointRef, staged: Path) -> int:  # type: ignore[override]
        self.noted.append("commit")
        return super().commit(checkpoint, staged)

    def delete(self, checkpoint: CheckpointRef) -> None:
        self.noted.append("delete")
        super().delete(checkpoint)


def test_methods_that_a_subclass_has_changed_are_not_passed_by() -> None:
    store = Noting(f"memory://{uuid.uuid4().hex}")
    store.delete_of(3, checkpoint(store, 3))
    checkpoint(store, 4, "b")
    store.sweep_except(())
    assert store.noted == ["commit", "delete"] * 2
    assert store.checkpoints() == []


@pytest.mark.parametrize(
    ("kind", "load_calls", "append_calls"),
    [
        ("hdfs", {"getListing": 1, "getBlockLocations": 2}, {"fsync": 1}),
        ("objects", {"LIST": 1, "GET": 2}, {"PUT": 1}),
    ],
)
def test_load_is_three_calls_and_a_report_and_a_flush_of_logs_one(
    kind: str, load_calls: dict[str, int], append_calls: dict[str, int], request: pytest.FixtureRequest
) -> None:
    store, calls = request.getfixturevalue(kind)
    reference = checkpoint(store, 3)
    assert of(calls, lambda: load(store, reference)) == load_calls
    with store.lock():
        segment = store.open_segment()
        segment.append(b"first\n")
        assert of(calls, lambda: segment.append(b"report\n")) == append_calls
        segment.close()
    logs = store.open_log()
    logs.write({"trial-1": ["first"]})
    assert of(calls, lambda: logs.write({f"trial-{number}": ["line"] for number in range(200)})) == append_calls
    logs.close()


IDLE_S = 15
"""Between two looks at the lock, a quarter of its lease: all that an idle driver asks for."""


def a_report(store: Store, calls: Counter[str]) -> Counter[str]:
    with store.lock():
        segment = store.open_segment()
        segment.append(b"first\n")
        found = of(calls, lambda: segment.append(b"report\n"))
        segment.close()
    return found


def a_flush_of_logs(store: Store, calls: Counter[str]) -> Counter[str]:
    logs = store.open_log()
    logs.write({"trial-1": ["first"]})
    found = of(calls, lambda: logs.write({f"trial-{number}": ["line"] for number in range(200)}))
    logs.close()
    return found


def a_trial(store: Store, calls: Counter[str]) -> Counter[str]:
    counts = []
    for trials in (4, 14):
        study = Study(
            short, space=SPACE, metric="loss", mode="min", scheduler=FIFO(), backend="inline",
            store=store.child(f"study-{trials}"),
        )  # fmt: skip
        counts.append(of(calls, functools.partial(study.run, trials, display="none")))
    return Counter({name: round((counts[1][name] - counts[0][name]) / 10) for name in counts[1]})


def short(trial: TrialContext) -> float:
    return float(trial.params["x"])


def a_commit(store: Store, calls: Counter[str]) -> Counter[str]:
    return of(calls, lambda: checkpoint(store, 3))


def a_load(store: Store, calls: Counter[str]) -> Counter[str]:
    reference = checkpoint(store, 3)
    return of(calls, lambda: load(store, reference))


def a_deletion(store: Store, calls: Counter[str]) -> Counter[str]:
    reference = checkpoint(store, 3)
    return of(calls, lambda: store.delete_of(3, reference))


def a_trial_after_a_crash(store: Store, calls: Counter[str]) -> Counter[str]:
    """What a driver's death adds to the next row: a sweep, before the first launch."""
    few, more = (resumed(store.child(f"crashed-{trials}"), calls, trials) for trials in (4, 14))
    names = few.crashed.keys() | more.crashed.keys()
    added = {name: [one.crashed[name] - one.clean[name] for one in (few, more)] for name in names}
    return Counter({name: round((most - least) / 10) for name, (least, most) in added.items()})


def a_trial_at_the_end(store: Store, calls: Counter[str]) -> Counter[str]:
    counts: list[Counter[str]] = []
    sweep = trial_dirs.sweep
    with mock.patch.object(
        trial_dirs, "sweep", lambda *about: counts.append(of(calls, functools.partial(sweep, *about)))
    ):
        for trials in (4, 14):
            one = store.child(f"end-{trials}")
            study_of(one, trials).run(trials, display="none")
            assert len(one.checkpoints()) == trials
    return Counter({name: round((counts[-1][name] - counts[1][name]) / 10) for name in counts[-1]})


def an_append_after_a_clean_end(store: Store, calls: Counter[str]) -> Counter[str]:
    few, more = (resumed(store.child(f"clean-{trials}"), calls, trials) for trials in (4, 14))
    appends = more.appends - few.appends
    return Counter({name: round((more.clean[name] - few.clean[name]) / appends) for name in more.clean})


def a_look_at_the_lock(store: Store, calls: Counter[str]) -> Counter[str]:
    with store.lock():
        lock = getattr(store, "_lock", None)
        return of(calls, lock.refresh if isinstance(lock, LeaseLock) else lambda: None)


ROWS: dict[str, Callable[[Store, Counter[str]], Counter[str]]] = {
    "a report, or several at once": a_report,
    "a trial without checkpoints, from its start to its end": a_trial,
    "a commit of a checkpoint": a_commit,
    "a checkpoint that is loaded": a_load,
    "a checkpoint that is deleted": a_deletion,
    "a flush of the logs of all trials": a_flush_of_logs,
    "15 s in which nothing happens": a_look_at_the_lock,
    "a trial with a checkpoint, at the end of a run": a_trial_at_the_end,
    "a trial with a checkpoint, after a crash": a_trial_after_a_crash,
    "an earlier append, by `resume` after a clean end until the first launch": an_append_after_a_clean_end,
}
COLUMNS = {"local": 1, "hdfs": 2, "http": 3, "objects": 4}


def in_words(calls: Counter[str]) -> str:
    """Return a cell of the table."""
    counts = {name: round(count) for name, count in calls.items() if round(count)}
    if "sync" in counts:
        return f"{counts['sync']} sync{'s' * (counts['sync'] > 1)}"
    return ", ".join(f"{count} `{name}`" for name, count in counts.items()) or "none"


def table(page: str) -> dict[str, list[str]]:
    """Return the cells of the page's table of calls, by those of its first column."""
    lines = page.partition("## Calls that a store takes")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row for row in rows[1:]}


@pytest.mark.parametrize("kind", COLUMNS)
def test_page_of_stores_says_how_many_calls_each_takes(kind: str, request: pytest.FixtureRequest) -> None:
    store, calls = request.getfixturevalue(kind)
    said = table((Path(__file__).parents[2] / "docs" / "stores.md").read_text())
    assert {*said} == {*ROWS, "a second in which nothing happens"}
    counted = {row: in_words(count(store, calls)) for row, count in ROWS.items()}
    idle = sum(a_look_at_the_lock(store, calls).values()) / IDLE_S
    counted["a second in which nothing happens"] = f"{idle:.1f}" if idle else "none"
    assert {row: cells[COLUMNS[kind]] for row, cells in said.items()} == counted


def test_driver_without_events_asks_its_store_for_its_lock_alone(hdfs: tuple[Store, Counter[str]]) -> None:
    store, calls = hdfs
    with store.lock():
        assert isinstance(store._lock, LeaseLock)  # type: ignore[attr-defined]
        assert store._lock._lease_s / 4 == IDLE_S  # type: ignore[attr-defined]
        assert store._lock._thread.is_alive()  # type: ignore[attr-defined]
        assert of(calls, store._lock.check) == {}, "its lease is fresh"  # type: ignore[attr-defined]
