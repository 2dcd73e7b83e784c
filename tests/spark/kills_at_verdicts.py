"""A search on a standalone cluster, as a script whose processes are killed around its verdicts: the seed says which.

    python -m tests.spark.kills_at_verdicts '{"folder": "/tmp/x", "url": "spark://...", "seed": 1, "faults": 8}'

A process dies while its trial waits for a verdict, or after a promotion in place and before the next checkpoint. It
leaves what ``tests.faults.storm`` leaves; the same command goes on where a killed driver stopped.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import psutil

from asyncsearch import Checkpoints, WorkerOptions, choice
from asyncsearch.actions import ExtendWork
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.events import CheckpointCommitted, Reported
from asyncsearch.journal.format import Record
from asyncsearch.journal.head import unseal
from asyncsearch.launch.base_launcher import run_agent
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.store.local.store import LocalSegment
from tests.faults import search
from tests.faults.search import Witness
from tests.spark.cluster import spark_session

WAITS, IN_PLACE = "waits", "in_place"
KINDS = ("executor", "agent", "driver", "runner")
LATER_S = (0.0, 0.0, 0.05, 0.5, 1.5)
"""How long a driver hesitates before a kill, and its answer after it: the last one is longer than a trial waits."""
_RECORD = msgspec.json.Decoder(Record)


class KillsOrder(search.Order, kw_only=True):
    """The argument of the script."""

    url: str
    seed: int = 0
    faults: int = 0
    trials: int = 24


class Kill(msgspec.Struct, frozen=True):
    """Who dies as soon as a report is durable."""

    moment: str
    number: int
    """The so-manieth report, from 1, at which a trial waits, or that comes between a promotion in place and a save."""
    kind: str
    later_s: float

    def __str__(self) -> str:
        return f"{self.moment} {self.number} {self.kind} {self.later_s}"


def schedule(seed: int, count: int, trials: int) -> list[Kill]:
    """Return the kills of a seed: half of them at each moment, and as many of each kind as can be."""
    chance = random.Random(f"kills at verdicts {seed}")
    kinds = chance.sample((KINDS * count)[:count], count)
    moments = [(WAITS, IN_PLACE)[number % 2] for number in range(count)]
    numbers = {
        # Each trial waits at least once, and that of x = 1 alone reports six times between a promotion and its end.
        WAITS: sorted(chance.sample(range(2, trials), moments.count(WAITS))),
        IN_PLACE: sorted(chance.sample(range(1, trials // 2 + 1), moments.count(IN_PLACE))),
    }
    return [
        Kill(moment, numbers[moment].pop(0), kind, chance.choice(LATER_S))
        for moment, kind in zip(moments, kinds, strict=True)
    ]


class Moments:
    """Counts the moments in the records of a journal."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._unsaved: set[int] = set()
        """Leases that went on in place and have saved nothing since."""

    def read(self, record: Record) -> str:
        """Return the moment that a record is, or an empty string."""
        event, moment = record.event, ""
        if isinstance(event, Reported) and (event.is_awaited or event.lease.number in self._unsaved):
            moment = WAITS if event.is_awaited else IN_PLACE
            self.counts[moment] += 1
        elif isinstance(event, CheckpointCommitted):
            self._unsaved.discard(event.lease.number)
        self._unsaved |= {one.lease.number for one in record.actions if isinstance(one, ExtendWork) and one.stages}
        return moment


class Killer:
    """Kills, in the driver's thread that writes the journal, whoever trains what a report is about."""

    def __init__(self, kills: list[Kill], witness: Witness, folder: Path) -> None:
        self._kills, self._witness, self._folder = kills, witness, folder
        self._moments = Moments()
        for line in (folder / "witness").read_bytes().splitlines(keepends=True):
            self._read(line)

    def watch(self) -> None:
        """Bring each kill as soon as its record is durable."""
        append = LocalSegment.append

        def watched(segment: LocalSegment, data: bytes) -> None:
            append(segment, data)
            for line in data.splitlines(keepends=True):
                record, moment = self._read(line)
                if record is not None and moment:
                    self._reach(record, moment)

        type.__setattr__(LocalSegment, "append", watched)

    def _read(self, line: bytes) -> tuple[Record | None, str]:
        data = unseal(line)
        if data is None or b'"event"' not in data:
            return None, ""
        record = _RECORD.decode(data)
        return record, self._moments.read(record)

    def _reach(self, record: Record, moment: str) -> None:
        due = [one for one in self._kills if one.moment == moment and one.number <= self._moments.counts[moment]]
        for kill in due[:1]:
            assert isinstance(record.event, Reported)
            lease = record.event.lease
            noted = self._folder / f"agent-{lease.worker}-{lease.epoch}"
            time.sleep(kill.later_s)
            with contextlib.suppress(psutil.NoSuchProcess):  # it has died of the kill before: this one comes later
                victim = victim_of(kill.kind, psutil.Process(int(noted.read_text())))
                self._witness.note("moments", f"{kill}\n".encode())
                self._kills.remove(kill)
                victim.kill()


def victim_of(kind: str, agent: psutil.Process) -> psutil.Process:
    """Return the process of a kind that belongs to an agent."""
    if kind == "executor":
        return next(one for one in agent.parents() if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline()))
    if kind == "runner":
        return agent.children()[0].children()[0]
    return agent if kind == "agent" else psutil.Process()


class Noted:
    """The agent's function: it notes its process, which Spark has forked."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, config: WorkerConfig) -> str:
        Path(self._folder, f"agent-{config.worker}-{config.epoch}").write_text(str(os.getpid()))
        return run_agent(config)


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    order = msgspec.json.decode(sys.argv[1], type=KillsOrder)
    folder = Path(order.folder)
    witness = Witness(folder)
    done = set((folder / "moments").read_text().splitlines())
    kills = [kill for kill in schedule(order.seed, order.faults, order.trials) if str(kill) not in done]
    with spark_session(order.url, spark__executor__instances="2"):
        study = search.make_study(
            order,
            # Each trial is better than those before it: most are promoted in place.
            space={"x": choice(*range(order.trials, 0, -1))},
            backend=SparkLauncher(agent=Noted(order.folder)),
            workers=WorkerOptions(stop_grace=1.0),
            checkpoints=Checkpoints(),
        )
        witness.watch()
        Killer(kills, witness, folder).watch()
        study.run(parallelism=2)
    sys.stdout.write(f"best: {study.best_trial.params['x']}\n")


if __name__ == "__main__":
    from tests.spark.kills_at_verdicts import main as kills  # so that workers find its classes in a module

    kills()
