"""Attacks the driver's server, and checks that it serves honest workers as if nothing were.

The real driver with a journal on local disk serves honest workers through the real client, while other processes send

- a million hostile messages with a worker's certificate and token: forged leases, numbers out of range, log lines with
  escape sequences, damaged frames, repeated numbers, false acknowledgements, messages above the limit;
- frames to the port without a token, from random bytes to HTTP/2 inside TLS;
- 5,000 connections that say nothing and are made again whenever the driver closes them;
- rivals of the honest workers, and streams with a wrong token;

and a known agent, which breaks its stream each second, is timed until it is attached again. Exits with 1 if a value of
an honest trial is wrong or missing, anything forged is in a trial's reports or log, the driver failed, or descriptors,
memory or its log grew beyond their bounds. It prints the memory after each tenth of the messages; the last line is
JSON. The same seed says the same things in the same order.

    python scripts/fuzz_server.py [--messages 1000000] [--connections 5000] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
from _hostile import FORGED
from _peers import EPOCHS, loss_of

from asyncsearch import FIFO, RandomSearch, Space, uniform
from asyncsearch.actions import Assign, CreateTrial, MoveTrial
from asyncsearch.driver.loop import Driver
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.events import DriverStarted, Reported, RunRequested, StopRequested
from asyncsearch.ids import TrialId, WorkerId, trial_name
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.writer import Journal
from asyncsearch.launch.machine import descriptors
from asyncsearch.rpc.auth import bound, make_identity
from asyncsearch.rpc.messages import Endpoint
from asyncsearch.rpc.reservation import connection_limits
from asyncsearch.rpc.server import SearchServer
from asyncsearch.store.base_store import Store
from asyncsearch.store.local.store import LocalStore
from asyncsearch.trial import TrialState

GROWTH_MB = 48.0
"""Most by which resident memory may grow from the first half of the attack to the second, and from before to after it:
malloc keeps what connections had, up to their limit, in an arena for each thread of gRPC. Also in it: half a kB for
each trial of the honest search, and its 10,000 newest lines of logs."""
HELD_MB = 8.0
"""Most by which what malloc has given out may grow from before the attack until after it."""
LOG_BYTES_PER_MINUTE = 20_000


class Peer:
    """A process that plays one role until it is told to end."""

    def __init__(self, role: str, endpoint: Endpoint, given: argparse.Namespace) -> None:
        names = ("seed", "workers", "messages", "connections", "pace")
        options = [part for name in names for part in (f"--{name}", str(getattr(given, name)))]
        command = [sys.executable, str(Path(__file__).with_name("_peers.py")), role, *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(endpoint) + b"\n")
        self._process.stdin.flush()

    def line(self) -> dict[str, Any]:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline() or b"{}")
        return found

    def end(self) -> dict[str, Any]:
        """Tell it to end, and return its last line."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        found = self.line()
        self._process.wait()
        return found


class Sample(NamedTuple):
    """The memory of this process at one time, in MB."""

    resident: float
    held: float
    """What was allocated and not freed, by C and C++ code and by Python for large objects; 0 where it is not known."""


class Watch:
    """Samples this process until it is stopped."""

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._stopped = threading.Event()
        self.descriptors_before = self._me.num_fds()
        self.descriptors_most = 0
        self._parts: list[list[Sample]] = [[]]
        """The samples of each part of the attack."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def next_part(self) -> Sample:
        """Begin the next part, and return the extremes of the one before."""
        self._parts.append([self._sample()])
        return _extremes(self._parts[-2])

    def _run(self) -> None:
        while not self._stopped.wait(0.25):
            self.descriptors_most = max(self.descriptors_most, self._me.num_fds())
            self._parts[-1].append(self._sample())

    def _sample(self) -> Sample:
        return Sample(self._me.memory_info().rss / 2**20, held_bytes() / 2**20)

    def stop(self) -> list[Sample]:
        """Stop, and return the extremes of each part."""
        self._stopped.set()
        self._thread.join()
        return [_extremes(part) for part in self._parts if part]


def _extremes(part: Sequence[Sample]) -> Sample:
    """Return the most that was resident and the least that was held, when the fewest connections were open."""
    part = part or [Sample(0.0, 0.0)]
    return Sample(round(max(one.resident for one in part), 1), round(min(one.held for one in part), 1))


def at_rest() -> Sample:
    """Return the memory once malloc has given back what is free."""
    gc.collect()
    if _mallinfo is not None:
        ctypes.CDLL(None).malloc_trim(0)
    return Sample(round(psutil.Process().memory_info().rss / 2**20, 1), round(held_bytes() / 2**20, 1))


_MALLINFO = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _MallInfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO)


def _find_mallinfo() -> Any:
    try:
        found = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    found.restype = _MallInfo
    return found


_mallinfo = _find_mallinfo()


def held_bytes() -> int:
    """Return the bytes that malloc has given out. 0 if no glibc says it."""
    if _mallinfo is None:
        return 0
    found = _mallinfo()
    return int(found.uordblks + found.hblkhd)


class CountingHandler(logging.Handler):
    """Counts what the driver would write into its log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.size_bytes = self.lines = 0
        self.has_escapes = False

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self.size_bytes += len(text) + 1
        self.lines += 1
        self.has_escapes |= not text.replace("\n", "").isprintable()


def nobody(worker: WorkerId, epoch: int) -> None:
    """Start or end no worker: other processes play them all."""
    del worker, epoch


def attack(folder: Path, given: argparse.Namespace, log: CountingHandler) -> dict[str, Any]:
    """Run the search under attack, and return the figures."""
    store = LocalStore(folder)
    store.prepare()
    scheduler = FIFO(max_resource=EPOCHS)
    config = EngineConfig(study="fuzz", metric="loss", mode="min")
    searcher = RandomSearch().begin(Space.of({"x": uniform(0.0, 1.0)}), 0)
    state = StudyState(config, searcher, scheduler.begin(), scheduler.max_resource)
    driver = Driver(state, store, Journal(store, "fuzz", 0), launch=nobody, kill=nobody)
    identity = make_identity()
    workers = given.workers + 2  # with the one that breaks its streams, and the hostile one
    limits = connection_limits(workers, *descriptors())
    server = SearchServer(driver, identity, limits=limits)
    port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1"), driver.loop).result()
    driver.connect(server)
    driver.post(DriverStarted("fuzz"))
    driver.post(RunRequested(None, workers))
    endpoint = identity.endpoint(f"127.0.0.1:{port}", 0 if given.one_port else server.spare_port)
    before, watch, began_s = at_rest(), Watch(), time.monotonic()
    # Strangers do not know the spare port; the hostile one is a worker and does.
    stranger = bound(identity.endpoint(endpoint.address), WorkerId(given.workers + 1), 1)
    hostile = bound(endpoint, WorkerId(given.workers + 1), 1)
    known = {"honest": endpoint, "hostile": hostile}
    peers = {role: Peer(role, known.get(role, stranger), given) for role in ROLES}
    said = peers["hostile"].line()
    while "said" in said:
        part, passed_s = watch.next_part(), time.monotonic() - began_s
        print(
            f"{said['said']:>9,} messages in {passed_s:4.0f} s: at most {part.resident:.0f} MB resident, "
            f"at least {part.held:.0f} MB held, {len(state.trials):,} honest trials",
            flush=True,
        )
        said = peers["hostile"].line()
    seconds = time.monotonic() - began_s
    others = {role: peers.pop(role).end() for role in ("hostile", "strangers", "idle")}
    driver.post(StopRequested("the attack is over"))
    driver.give_up_after(2.0)
    honest = peers["honest"].end()
    driver.ended.wait()
    asyncio.run_coroutine_threadsafe(server.stop(), driver.loop).result()
    driver.close()
    memory, after = watch.stop(), at_rest()
    return {
        "seed": given.seed,
        "seconds": round(seconds, 1),
        "hostile_messages": said.get("messages", 0),
        "hostile": others["hostile"],
        "strangers": others["strangers"],
        "idle_connections": given.connections,
        "idle": others["idle"],
        "descriptors_before": watch.descriptors_before,
        "descriptors_most": watch.descriptors_most,
        "descriptors_bound": watch.descriptors_before + 2 * limits.connections + 64,
        "memory_before_mb": before.resident,
        "memory_after_mb": after.resident,
        "memory_mb": [part.resident for part in memory],
        "memory_growth_mb": round(growth([part.resident for part in memory]), 1),
        "held_before_mb": before.held,
        "held_after_mb": after.held,
        "held_mb": [part.held for part in memory],
        "log_bytes": log.size_bytes,
        "log_lines": log.lines,
        "log_has_escapes": log.has_escapes,
        "driver_failed": repr(driver.failure) if driver.failure else "",
        **honest,
        **audit(store, given.workers),
    }


def growth(parts: Sequence[float]) -> float:
    """Return by how much the second half of an attack is above the first, in which connections up to the limit came."""
    half = max(1, len(parts) // 2)
    return max(parts[half:] or parts) - max(parts[:half] or parts)


ROLES = ("honest", "hostile", "strangers", "idle")


def audit(store: Store, workers: int) -> dict[str, Any]:
    """Recompute what honest workers reported, and count what is wrong."""
    x: dict[TrialId, float] = {}
    leases: dict[int, TrialId] = {}
    honest: set[TrialId] = set()
    found: dict[TrialId, list[tuple[int, Any]]] = {}
    completed = []
    wrong = 0
    forged = []
    for record in read_records(store):
        if isinstance(record.event, Reported):
            trial = leases[record.event.lease.number]
            found.setdefault(trial, []).append((record.event.resource, record.event.metrics.get("loss")))
        lease = getattr(record.event, "lease", None)
        # A damaged frame may happen to name the hostile worker's own lease: of its own trial it may say anything.
        is_its_own = lease is not None and lease.worker == workers + 1
        if FORGED in repr(record.event) and not is_its_own:
            forged.append(repr(record.event)[:200])
        for action in record.actions:
            match action:
                case CreateTrial(trial=trial, params=params):
                    x[trial] = params["x"]
                case Assign(work=work):
                    leases[work.lease.number] = work.lanes[0].stages[0].trials[0]
                    if work.lease.worker < workers:
                        honest.add(work.lanes[0].stages[0].trials[0])
                case MoveTrial(trial=trial, to=TrialState.COMPLETED):
                    completed.append(trial)
                case _:
                    pass
    for trial in completed:
        expected = [(resource, loss_of(x[trial], resource)) for resource in range(1, EPOCHS + 1)]
        lines = [line.split(" ", 2)[2] for line in store.read_log(trial_name(trial))]
        wrong += found.get(trial) != expected or lines != [f"honest {resource}" for resource, _ in expected]
    return {
        "trials_completed": len(completed),
        "trials_wrong": wrong + len(set(completed) - honest),
        "forged_records": len(forged),
        "forged": forged[:3],
    }


def complaints(figures: dict[str, Any]) -> list[str]:
    """Return a sentence for each figure that is not as it should be."""
    minutes = max(1.0, figures["seconds"] / 60)
    rules = {
        "the driver failed": not figures["driver_failed"],
        "no honest trial was completed": figures["trials_completed"] > 0,
        "honest trials are wrong": figures["trials_wrong"] == 0,
        "forged records are in the journal": figures["forged_records"] == 0,
        "descriptors are not bounded": figures["descriptors_most"] <= figures["descriptors_bound"],
        "memory grew": figures["memory_growth_mb"] <= GROWTH_MB,
        "memory stays": figures["memory_after_mb"] - figures["memory_before_mb"] <= GROWTH_MB,
        "memory is held": figures["held_after_mb"] - figures["held_before_mb"] <= HELD_MB,
        "the log was flooded": figures["log_bytes"] <= LOG_BYTES_PER_MINUTE * (minutes + 1),
        "the log holds escape sequences": not figures["log_has_escapes"],
        "a known agent did not get back in": figures.get("return_most_s", 99) < 30,
    }
    return [words for words, holds in rules.items() if not holds]


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack the driver's server.")
    parser.add_argument("--messages", type=int, default=1_000_000, help="hostile ones, with the token")
    parser.add_argument("--connections", type=int, default=5_000, help="idle ones, without the token")
    parser.add_argument("--workers", type=int, default=4, help="honest ones")
    parser.add_argument("--pace", type=float, default=0.05, help="seconds of an honest worker's unit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one-port", action="store_true", help="tell workers no spare port, to see what it is for")
    given = parser.parse_args()
    log = CountingHandler()
    logging.basicConfig(level=logging.INFO, handlers=[log])
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        # What C code writes past Python's logging is counted, too.
        kept, stderr = os.dup(2), 2
        os.dup2(output.fileno(), stderr)
        try:
            figures = attack(Path(folder), given, log)
        finally:
            os.dup2(kept, stderr)
            os.close(kept)
        figures["stderr_bytes"] = output.seek(0, os.SEEK_END)
        output.seek(0)
        sys.stderr.write(output.read(2_000).decode(errors="backslashreplace"))
    figures["log_bytes"] += figures["stderr_bytes"]
    for name, value in figures.items():
        print(f"{name:<22}{value}")
    found = complaints(figures)
    print("\n".join(found) or "everything holds")
    print(json.dumps(figures | {"complaints": found}))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
