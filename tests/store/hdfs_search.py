"""A search on HDFS as a script, which dies or is stopped inside an append of its journal.

    python -m tests.store.hdfs_search '{"url": "hdfs://...", "witness": "/tmp/x", "kill_at": 12}'

It leaves in the file ``witness`` each line of the journal that was durable, as soon as it was, and in ``witness.units``
a line for each unit that was trained.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec

from asyncsearch import ASHA, Checkpoints, GridSearch, Study, choice
from asyncsearch.store import register_store
from asyncsearch.store.hdfs import segment
from asyncsearch.store.hdfs.open_file import OpenFile
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.trainable import TrialContext
from tests.system.trained import Checkpointed

CONFIGURATIONS = 9
AT_THE_GATE = 10
"""Appends that were done when the gate is written into."""
UNITS = 9


class Order(msgspec.Struct, kw_only=True):
    """What is to happen; the argument of the script."""

    url: str
    witness: str
    kill_at: int = 0
    """Number of the append in which it dies."""
    stop_at: int = 0
    """Number of the append in which it is stopped, until another process continues it."""
    lease_s: float = 60.0
    gate: str = ""
    """A FIFO that is written into once, after some appends."""
    gate_unit: int = 0
    """Instead of that: by the first trial that is about to train this unit."""
    stays_open: bool = False
    """Whether no segment is closed as long as the driver writes it."""
    gone_after_s: float = 120.0
    """Seconds after which a checkpoint whose content no DataNode has counts as gone."""
    hold: str = ""
    """A file that is made then; as long as it is there, no further unit is trained."""


def watch(order: Order) -> None:
    """Note what is durable, and end or stop in the append that the order names."""
    if order.kill_at or order.stays_open:
        segment.SHORTEST_S = math.inf  # on a slow machine its first segment would be closed before that append
    append, witness, count = OpenFile.append, os.open(order.witness, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 0

    def watched_append(self: OpenFile, data: bytes) -> None:
        nonlocal count
        count += 1
        if count in (order.kill_at, order.stop_at):
            threading.Thread(target=tried_append, args=(self, data), daemon=True).start()
            os.kill(os.getpid(), signal.SIGKILL if count == order.kill_at else signal.SIGSTOP)
            data = b""
        append(self, data)
        os.write(witness, data)
        if order.gate and not order.gate_unit and count == AT_THE_GATE:
            Path(order.hold).touch()
            Path(order.gate).write_text("here")

    def tried_append(self: OpenFile, data: bytes) -> None:
        with contextlib.suppress(Exception):  # what follows it fails in the same way
            append(self, data)

    OpenFile.append = watched_append  # type: ignore[method-assign]


def make_study(order: Order) -> Study:
    """Return the study of the script."""
    hold, gate, gate_unit, trained = order.hold, order.gate, order.gate_unit, f"{order.witness}.units"
    lease_s, gone_after_s = order.lease_s, order.gone_after_s
    register_store("hdfs", lambda url: HdfsStore(url, lock_lease_s=lease_s, gone_after_s=gone_after_s))

    def reach_gate() -> None:
        with contextlib.suppress(FileExistsError):
            Path(f"{gate}.passed").touch(exist_ok=False)
            Path(hold).touch()
            Path(gate).write_text("here")

    def train(trial: TrialContext) -> None:
        model = Checkpointed()
        for unit in trial.epochs(save=model.save, load=model.load):
            if unit == gate_unit:
                reach_gate()
            while hold and os.path.exists(hold):
                time.sleep(0.02)  # a file cannot be waited for
            model.train(unit)
            with open(trained, "a") as file:
                file.write(f"{trial.name} {unit}\n")
            trial.report(loss=trial.params["x"] / unit)

    return Study(
        train,
        space={"x": choice(*range(1, CONFIGURATIONS + 1))},
        metric="loss",
        mode="min",
        searcher=GridSearch(),
        scheduler=ASHA(max_resource=UNITS),
        store=order.url,
        backend="processes",
        resume=True,
        name="hdfs",
        checkpoints=Checkpoints(keep_checkpoints=2),
    )


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=Order)
    study = make_study(order)
    watch(order)
    study.run(parallelism=2)
    sys.stdout.write(f"best: {study.best_trial.params['x']}\n")


if __name__ == "__main__":
    main()
