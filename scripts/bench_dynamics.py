"""What a search asks of its cluster from second to second: counts on a virtual clock, the same on every machine.

``log_calls_s``: calls a second of a store like HDFS, of 45 ms each, for the logs of 200 trials that print a line a
second; the baseline is a call a trial and second. ``log_rounds_queued``: rounds of writing that wait for others.
``log_end_s``: what the end of the run waits for its logs; the baseline is a call a trial. ``look_calls`` and
``look_leaving_calls``: calls of Spark's Java process for one look at 100 workers on 25 executors, none or all of which
leave; the baseline is one an executor and worker.

Of checkpoints: ``hash_s_per_gb``: what an entry waits for the comparison of a checkpoint that the same process has
committed; the baseline is one of another process. ``syncs_per_checkpoint``: on a local disk; the baseline syncs each
file and folder. ``hdfs_calls_per_checkpoint``: to commit and delete one of one file; the baseline does not know which
attempt wrote it.
``resume_calls_per_trial``: after an unclean end, each trial with a checkpoint; the baseline are listings of all files.
``held_over_needed``: checkpoints at the end of 27 trials for each that is to be kept, 1; the baseline is one for each
trial that waits, too. Of ASHA, those that wait keep theirs for a later run with more trials.

    python scripts/bench_dynamics.py [--only PART]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from _bench import Figure, show

sys.path.insert(0, str(Path(__file__).parents[1]))

from asyncsearch import ASHA, SHA, Study, uniform
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.launch.spark.job_ends import leaving
from asyncsearch.store import LocalStore, Store, disk
from asyncsearch.store.hdfs.addresses import Address
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.store.local import checkpoints as local_checkpoints
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.driver.virtual_logs import VirtualLogs
from tests.spark.jvm import Jvm
from tests.store.counted_files import NameNode
from tests.store.log_worlds import CALL_S

TRIALS, SECONDS = 200, 300
WORKERS, EXECUTORS = 100, 25
HASHED_BYTES, RESUMED = 256 << 20, 1000


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


def look(name: str, *, leave: bool) -> Figure:
    """Return the calls that a look at departing executors takes."""
    names = [str(number) for number in range(EXECUTORS)]
    jobs = [(f"run,worker-{number}", [(names[number % EXECUTORS], True)]) for number in range(WORKERS)]
    jvm = Jvm(jobs, names, set(names) if leave else set())
    leaving(jvm.context)
    return Figure(name, jvm.calls, "calls", EXECUTORS + WORKERS)


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
        for whole in (disk.is_synced_whole, lambda *_: False):
            with (
                mock.patch.object(disk, "is_synced_whole", whole),
                mock.patch.object(disk, "sync_disk", wraps=disk.sync_disk) as synced,
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
        needed = {committed(store, number) for number in range(RESUMED)}
        node.calls.clear()
        store.sweep_except(needed)
        by_node = node.calls.total()
        node.calls.clear()
        store.sweep()
        store.checkpoints()
        return [*found, Figure("resume_calls_per_trial", by_node / RESUMED, "calls", node.calls.total() / RESUMED)]


def held() -> list[Figure]:
    """Return the checkpoints at the end of a run, for each one that is to be kept."""
    found = []
    for name, scheduler in {"sha": SHA(max_resource=9), "asha": ASHA(max_resource=9)}.items():
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "study"
            study = Study(
                saving, space={"x": uniform(0, 1)}, metric="loss", mode="min", scheduler=scheduler, store=place,
                backend="inline",
            )  # fmt: skip
            study.run(27, display="none")
            waiting = sum(trial.state is TrialState.PAUSED for trial in study.trials)
            found.append(Figure(f"held_over_needed_{name}", len(LocalStore(str(place)).checkpoints()), "", 1 + waiting))
    return found


def saving(trial: TrialContext) -> None:
    """Train nothing, and save it."""
    for unit in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] + 1 / unit)


PARTS: dict[str, Callable[[], list[Figure]]] = {
    "logs": logs,
    "look": lambda: [look("look_calls", leave=False), look("look_leaving_calls", leave=True)],
    "hash": hashes,
    "syncs": syncs,
    "hdfs": hdfs_calls,
    "held": held,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; all without it")
    parts = parser.parse_args().only or list(PARTS)
    show("What a search asks of its cluster and its store", [figure for part in parts for figure in PARTS[part]()])
