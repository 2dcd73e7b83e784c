"""Checkpoints that nobody needs are deleted: one whose commit comes late, and each by the attempt that committed it."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncsearch.driver.deletions import CheckpointDeletions
from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.engine.state import StudyState
from asyncsearch.events import CheckpointCommitted
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.sizing.gangs import Gang
from asyncsearch.store.base_store import Store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.manifest import Sharded, Shards

HERE = CheckpointRef(NodeKey("a"), 3)


class Deleted(list[tuple[str, int | None]]):
    """A store that notes what is deleted."""

    def delete(self, checkpoint: CheckpointRef) -> None:
        self.append((str(checkpoint), None))

    def delete_of(self, attempt: int, checkpoint: CheckpointRef) -> None:
        self.append((str(checkpoint), attempt))


def committed(attempt: int, checkpoint: CheckpointRef = HERE) -> CheckpointCommitted:
    """Return the event of a commit."""
    return CheckpointCommitted(Lease(attempt, WorkerId(0), 1), checkpoint, 7)


def deletions(
    store: Deleted | Store, *, needed: bool = False, trained: str = "", has_gangs: bool = False
) -> CheckpointDeletions:
    """Return deletions of a study that needs a checkpoint, or trains in a node."""
    stage = SimpleNamespace(node=trained)
    attempts = {5: SimpleNamespace(batch=SimpleNamespace(stages=[stage]))} if trained else {}
    state = SimpleNamespace(
        references={HERE: 1} if needed else {}, attempts=attempts, gang=Gang(2) if has_gangs else None
    )
    loop = cast("Any", SimpleNamespace(call_soon_threadsafe=lambda *_: None))
    return CheckpointDeletions(
        cast(StudyState, state), cast(Store, store), cast(asyncio.AbstractEventLoop, loop), print, NodeWriters()
    )


@pytest.mark.parametrize(("needed", "trained", "is_gone"), [(False, "", True), (True, "", False), (False, "a", False)])
def test_late_commit_is_deleted_where_nobody_needs_it_or_trains(needed: bool, trained: str, is_gone: bool) -> None:
    store = Deleted()
    one = deletions(store, needed=needed, trained=trained)
    one.drop_late(committed(4))
    one.close()
    assert store == ([(str(HERE), 4)] if is_gone else [])


def test_store_is_asked_for_versions_only_where_several_may_be() -> None:
    store = Deleted()
    one = deletions(store, needed=True)
    other, again = CheckpointRef(NodeKey("b"), 3), CheckpointRef(NodeKey("c"), 3)
    for event in (committed(4), committed(5, other), committed(6, again), committed(7, again)):
        one.note(event)
    for checkpoint in (HERE, other, again):
        one.delete(checkpoint)
    one.close()
    assert store == [(str(HERE), None), (str(other), 5), (str(again), None)], "the first is of an earlier driver"


@pytest.mark.parametrize("is_late", [False, True])
def test_checkpoint_that_consists_of_shards_is_deleted_whole(is_late: bool) -> None:
    store = FsspecStore(f"memory://{uuid.uuid4().hex}")
    staged = store.stage(HERE)
    (staged / "rank-0").write_bytes(b"0")
    place = store.shard_place(HERE, staged)
    shard = store.stage(HERE)
    (shard / "rank-1").write_bytes(b"1")
    shards = Shards(place, tuple(store.add_shard(HERE, place, shard)), Sharded(2, "fsdp2"))
    store.commit_of(4, HERE, staged, shards=shards)
    one = deletions(store, has_gangs=True)
    if is_late:
        one.drop_late(committed(4))
    else:
        one.note(committed(4))
        one.delete(HERE)
    one.close()
    assert store.checkpoints() == []


def test_late_commit_is_deleted_beside_an_earlier_one_of_its_checkpoint() -> None:
    store = Deleted()
    one = deletions(store)
    one.note(committed(4))
    one.drop_late(committed(5))
    one.close()
    assert store == [(str(HERE), None)], "the number of the first finds one of them alone"
