"""Parts of ``bench_dynamics``: calls that are counted, and waits for a disk."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import _dynamics_checkpoints
import _dynamics_clusters
import _dynamics_disk
from _bench import Figure

from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import LocalStore, Store, syncing
from asyncsearch.store.hdfs.addresses import Address
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.store.local import checkpoints as local_checkpoints
from tests.driver.virtual_logs import VirtualLogs
from tests.store.counted_files import NameNode
from tests.store.log_worlds import CALL_S
from tests.store.resumed import resumed

TRIALS, SECONDS = 200, 300
HASHED_BYTES, RESUMED = 256 << 20, 250


def logs() -> list[Figure]:
    """Return the calls that the logs of printing trials take."""
    bench = VirtualLogs("hidden")
    for second in range(SECONDS):
        for trial in range(TRIALS):
            bench.prints(trial, f"epoch {second} loss 0.1234")
        bench.loop.run_until(second + 1.0)
    end_s = bench.end()
    return [
        Figure("log_calls_s", bench.world.calls / SECONDS, "calls/s", TRIALS),
        Figure("log_rounds_queued", bench.thread.most_queued, "rounds", 0.0),
        Figure("log_end_s", end_s, "s", TRIALS * CALL_S),
    ]


def committed(store: Store, attempt: int, size_bytes: int = 7) -> CheckpointRef:
    """Commit a checkpoint of one file, of a trial of its own."""
    checkpoint = CheckpointRef(NodeKey(f"n{attempt}"), 1)
    staged = store.stage(checkpoint)
    (staged / "checkpoint").write_bytes(os.urandom(1 << 20) * (size_bytes >> 20) or b"weights")
    store.commit_of(attempt, checkpoint, staged)
    return checkpoint


def entered_s(store: Store, checkpoint: CheckpointRef) -> float:
    """Return the seconds until a training can load a checkpoint."""
    began = time.perf_counter()
    with store.fetch(checkpoint):
        return time.perf_counter() - began


def hashes() -> list[Figure]:
    """Return what an entry waits for the comparison of its checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(folder)
        store.prepare()
        checkpoint = committed(store, 1, HASHED_BYTES)
        own_s = entered_s(store, checkpoint)
        local_checkpoints._known = type(local_checkpoints._known)()
        return [
            Figure("hash_s_per_gb", own_s * 1e9 / HASHED_BYTES, "s", entered_s(store, checkpoint) * 1e9 / HASHED_BYTES)
        ]


def syncs() -> list[Figure]:
    """Return the syncs that a checkpoint takes on this disk, and without a sync of a whole disk."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        store = LocalStore(folder)
        store.prepare()
        counts: list[int] = []
        for whole in (syncing.is_synced_whole, lambda *_: False):
            with (
                mock.patch.object(syncing, "is_synced_whole", whole),
                mock.patch.object(syncing, "sync_disk", wraps=syncing.sync_disk) as synced,
                mock.patch.object(os, "fsync", wraps=os.fsync) as fsync,
            ):
                committed(store, len(counts))
                counts.append(synced.call_count + fsync.call_count)
        return [Figure("syncs_per_checkpoint", counts[0], "syncs", counts[1])]


def hdfs_calls() -> list[Figure]:
    """Return the calls of a NameNode that learns of each block in time."""
    node = NameNode()
    with mock.patch("asyncsearch.store.hdfs.files.client_of", return_value=node):
        store = HdfsStore("hdfs://counted:8020/studies/a", Address("hdfs://counted:8020", ()))
        store.delete_of(1, committed(store, 1))
        by_attempt = node.calls.total()
        node.calls.clear()
        staged = store.stage(checkpoint := CheckpointRef(NodeKey("b"), 1))
        (staged / "checkpoint").write_bytes(b"weights")
        store.commit(checkpoint, staged)
        store.delete(checkpoint)
        found = [Figure("hdfs_calls_per_checkpoint", by_attempt, "calls", node.calls.total())]
        by_resume, by_listing = [], []
        for trials in (RESUMED, 2 * RESUMED):  # what each further trial takes
            one = store.child(f"resumed-{trials}")
            asked = resumed(one, node.calls, trials)
            by_resume.append(asked.crashed.total() - asked.clean.total())
            node.calls.clear()
            one.sweep()
            one.checkpoints()
            by_listing.append(node.calls.total())
        a_trial = [(counts[1] - counts[0]) / RESUMED for counts in (by_resume, by_listing)]
        return [*found, Figure("resume_calls_per_trial", a_trial[0], "calls", a_trial[1])]


PARTS: dict[str, Callable[[], list[Figure]]] = {
    "logs": logs,
    "hash": hashes,
    "syncs": syncs,
    "hdfs": hdfs_calls,
    "held": _dynamics_checkpoints.held,
    "disk": _dynamics_disk.held_on_disk,
    "closure": _dynamics_clusters.closure,
    "checks": _dynamics_clusters.checks,
    "looks": _dynamics_clusters.looks,
}
