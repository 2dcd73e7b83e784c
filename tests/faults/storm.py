"""A search as a script that many random faults befall, each at a record of its journal: the seed alone says which.

    python -m tests.faults.storm '{"folder": "/tmp/x", "seed": 1, "faults": 20, "trials": 40}'

It leaves what ``tests.faults.search`` leaves, and ``moments`` with each fault that has happened. The same command goes
on where a killed driver stopped, with the faults that are left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import psutil

from asyncsearch import Checkpoints, WorkerOptions, choice
from asyncsearch.events import Reported
from asyncsearch.journal.format import Record
from asyncsearch.journal.head import unseal
from asyncsearch.store.disk import write_all
from asyncsearch.store.local import store as local_store
from asyncsearch.store.local.store import LocalSegment
from tests.faults import search
from tests.faults.network import Network
from tests.faults.search import Witness

WORKERS = 2
FIRST, PER_TRIAL = 12, 5
"""The first record with a fault, and about how many records a trial has."""
KINDS = ("runner", "runner", "agent", "agent", "driver", "cut", "cut", "down", "store")
AT_VERDICTS = ("runner", "agent", "driver", "cut", "down", "still")
STILL_S, LEASE_S = 6, 9.0
"""For how long a driver stands still, and how long a worker may be silent."""
_RECORD = msgspec.json.Decoder(Record)


class StormOrder(search.Order, kw_only=True):
    """The argument of the script."""

    seed: int = 0
    faults: int = 0
    trials: int = 40
    at_verdicts: bool = False
    """Whether the faults come while a trial waits for a verdict: once its report is durable, before the answer."""
    pack: int = 0
    """How many trials train together; 0 for each alone."""
    gang: int = 1
    """How many workers train a trial."""


class Fault(msgspec.Struct, frozen=True):
    """What befalls whom as soon as a record is durable."""

    record: int
    """Its number, or how many records of reports whose trials wait it is."""
    kind: str
    worker: int
    times: int
    """How often a network refuses connections, or a store is not written."""

    def __str__(self) -> str:
        return f"{self.record} {self.kind} {self.worker} {self.times}"


def schedule(seed: int, count: int, trials: int) -> list[Fault]:
    """Return the faults of a seed, in the order of their records."""
    chance = random.Random(f"storm {seed}")
    records = sorted(chance.sample(range(FIRST, PER_TRIAL * trials), count))
    return [Fault(at, chance.choice(KINDS), chance.randrange(WORKERS), chance.randint(1, 3)) for at in records]


def schedule_at_verdicts(seed: int, count: int, trials: int) -> list[Fault]:
    """Return the faults of a seed that come while trials wait, in their order; each trial waits at least once."""
    chance = random.Random(f"verdicts {seed}")
    kinds = (AT_VERDICTS * (count // len(AT_VERDICTS) + 1))[:count]
    reports = sorted(chance.sample(range(2, trials), count))
    shuffled = chance.sample(kinds, count)
    return [
        Fault(at, kind, chance.randrange(WORKERS), chance.randint(1, 3))
        for at, kind in zip(reports, shuffled, strict=True)
    ]


class Storm:
    """Brings the faults, in the driver's thread that writes the journal."""

    def __init__(self, faults: Sequence[Fault], witness: Witness, network: Network, awaited: int | None) -> None:
        """Begin; ``awaited``: how many reports trials have waited at so far, if that is what counts."""
        self._faults, self._witness, self._network = list(faults), witness, network
        self._awaited = awaited
        self._refusals = 0
        """How often the journal is still not written."""
        self._acts: dict[str, Callable[[Fault], bool]] = {
            "runner": self._kill_runner,
            "agent": self._kill_agent,
            "driver": self._kill_driver,
            "cut": self._cut,
            "down": self._cut,
            "store": self._refuse,
            "still": self._stand_still,
        }

    def watch(self) -> None:
        """Bring each fault as soon as its record is durable."""
        append = LocalSegment.append

        def watched(segment: LocalSegment, data: bytes) -> None:
            append(segment, data)
            last = unseal(data.splitlines(keepends=True)[-1])
            if self._awaited is not None:
                self._awaited += count_awaited(data.splitlines(keepends=True))
                self._reach(self._awaited)
            elif last is not None and b'"event"' in last:
                self._reach(_RECORD.decode(last).n)

        def written(descriptor: int, data: bytes) -> None:
            if self._refusals and b'"event"' in data:
                self._refusals -= 1
                write_all(descriptor, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            write_all(descriptor, data)

        type.__setattr__(LocalSegment, "append", watched)
        local_store.write_all = written  # type: ignore[attr-defined]

    def _reach(self, record: int) -> None:
        while self._faults and self._faults[0].record <= record:
            if not self._acts[self._faults[0].kind](self._faults[0]):
                return  # there is nobody yet whom it could befall: it comes after the next record
            self._faults.pop(0)

    def _note(self, fault: Fault) -> bool:
        self._witness.note("moments", f"{fault}\n".encode())
        return True

    def _kill_runner(self, fault: Fault) -> bool:
        for agent in self._agents(fault.worker):
            with contextlib.suppress(psutil.Error):
                template = agent.children()
                runners = [runner for parent in template for runner in parent.children()]
                if runners:
                    runners[0].kill()
                    return self._note(fault)
        return False

    def _kill_agent(self, fault: Fault) -> bool:
        for agent in self._agents(fault.worker):
            with contextlib.suppress(psutil.Error):
                agent.kill()
                return self._note(fault)
        return False

    def _agents(self, first: int) -> list[psutil.Process]:
        """Return the agents that there are, that of a worker first."""
        pids = self._network.agents()
        found = []
        for worker in sorted(pids, key=lambda worker: worker != first):
            with contextlib.suppress(psutil.Error):
                found.append(psutil.Process(pids[worker]))
        return found

    def _kill_driver(self, fault: Fault) -> bool:
        self._note(fault)
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    def _stand_still(self, fault: Fault) -> bool:
        self._note(fault)
        subprocess.Popen(["sh", "-c", f"sleep {STILL_S}; kill -CONT {os.getpid()}"], start_new_session=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        return True

    def _cut(self, fault: Fault) -> bool:
        links = self._network.links(fault.worker)
        if not links:
            return False
        links[-1].refuse(0 if fault.kind == "cut" else fault.times)
        return self._note(fault)

    def _refuse(self, fault: Fault) -> bool:
        self._refusals = fault.times
        return self._note(fault)


def count_awaited(lines: Iterable[bytes]) -> int:
    """Return how many records are of reports whose trials wait for what is decided."""
    records = [data for line in lines if (data := unseal(line)) is not None and b'"event"' in data]
    events = [_RECORD.decode(data).event for data in records]
    return sum(isinstance(event, Reported) and event.is_awaited for event in events)


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=StormOrder)
    folder = Path(order.folder)
    witness, network = Witness(folder), Network()
    done = set((folder / "moments").read_text().splitlines())
    planned = (schedule_at_verdicts if order.at_verdicts else schedule)(order.seed, order.faults, order.trials)
    left = [fault for fault in planned if str(fault) not in done]
    study = search.make_study(
        order,
        # Where each trial is better than those before it, most are promoted in place.
        space={"x": choice(*(range(order.trials, 0, -1) if order.at_verdicts else range(1, order.trials + 1)))},
        backend=network,
        workers=WorkerOptions(stop_grace=1.0, lease_timeout=LEASE_S if order.at_verdicts else order.lease_timeout),
        **({"checkpoints": Checkpoints()} if order.at_verdicts else {"save_every": 1}),
        **({"pack": order.pack} if order.pack else {}),
        **({"workers_per_trial": order.gang} if order.gang > 1 else {}),
    )
    awaited = count_awaited((folder / "witness").read_bytes().splitlines(keepends=True)) if order.at_verdicts else None
    witness.watch()
    Storm(left, witness, network, awaited).watch()
    study.run(parallelism=order.gang * WORKERS)
    sys.stdout.write(f"best: {study.best_trial.params['x']}\n")


if __name__ == "__main__":
    from tests.faults.storm import main as storm  # so that workers find its classes in a module

    storm()
