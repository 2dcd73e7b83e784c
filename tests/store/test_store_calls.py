"""How many calls of its file system a store needs: the table of docs/stores.md, and what it may not exceed."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import Store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.hdfs.addresses import Address
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.testing.store_checkpoints import load
from tests.store.counted_files import NameNode, Objects

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
