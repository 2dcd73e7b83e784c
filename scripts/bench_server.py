"""The driver under the load of 500 workers with 2,000 reports a second, each acknowledged only when it is durable.

A load generator (``load_streams.py``: its own process, TLS, token, the real contract) attaches to a real driver with a
``LocalStore`` journal. Figures: ``reports_per_s`` in the journal for each second of the load; ``reports_lost``,
acknowledged messages that are not in the journal, or are in it twice; ``server_growth_mb``, the growth of the driver's
memory from the end of the warm-up to the end of the load; ``ack_p50_ms`` and ``ack_p99_ms`` from a report to its
acknowledgement, which is delayed by up to a second to be sent with others, since no worker waits for it;
``server_cpu_percent`` of one core. The baseline is a bare gRPC server under the same load that acknowledges at once
and stores nothing.

    python scripts/bench_server.py [--seconds 60] [--streams 500] [--rate 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import msgspec
import psutil
from _bench import Figure, show
from grpc import aio

from asyncsearch import FIFO, RandomSearch, Space, uniform
from asyncsearch.actions import Assign
from asyncsearch.driver.loop import Driver
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.events import CheckpointCommitted, DriverStarted, Reported, RunRequested, StopRequested, TrainingEnded
from asyncsearch.ids import Lease, NodeKey, TrialId, WorkerId
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.writer import Journal
from asyncsearch.rpc.auth import Identity, make_identity, server_credentials
from asyncsearch.rpc.channel import MAX_MESSAGE_BYTES, METHOD, SERVICE, Keepalive, server_options
from asyncsearch.rpc.convert import decode_worker, encode_driver, frame
from asyncsearch.rpc.messages import Endpoint, Welcome
from asyncsearch.rpc.reservation import connection_limits
from asyncsearch.rpc.server import SearchServer
from asyncsearch.store.local.store import LocalStore
from asyncsearch.work import Lane, Stage, Work

WARM_S = 10.0
"""How long after the first report memory still settles."""


@dataclass(frozen=True)
class Load:
    """The offered load."""

    streams: int
    rate: float
    seconds: float

    def __call__(self, endpoint: Endpoint) -> Measured:
        """Let the load generator work on a server of this process."""
        options = {"--streams": self.streams, "--rate": self.rate, "--seconds": self.seconds, "--metric": "loss"}
        command = [sys.executable, str(Path(__file__).with_name("load_streams.py"))]
        command += [str(part) for option in options.items() for part in option]
        process, me = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE), psutil.Process()
        samples: list[tuple[float, float, int]] = []
        assert process.stdin is not None

        def sample() -> None:
            samples.append((time.monotonic(), time.process_time(), me.memory_info().rss))

        def sample_twice() -> None:
            warm_s = min(WARM_S, self.seconds / 2)
            time.sleep(2.0 + self.streams / 200 + warm_s)  # the load generator attaches for about so long
            sample()
            time.sleep(max(0.5, self.seconds - warm_s - 1.0))
            sample()

        sampler = threading.Thread(target=sample_twice)
        sampler.start()
        process.stdin.write(msgspec.json.encode(endpoint))
        process.stdin.close()
        # The last line comes when everything is acknowledged.
        assert process.stdout is not None
        said = json.loads(process.stdout.read())
        sampler.join()
        (began_s, began_cpu_s, began_bytes), (ended_s, ended_cpu_s, ended_bytes) = samples
        return Measured(
            **said,
            cpu_percent=100 * (ended_cpu_s - began_cpu_s) / (ended_s - began_s),
            growth_mb=(ended_bytes - began_bytes) / 2**20,
        )


@dataclass(frozen=True)
class Measured:
    """The counts of the load generator, and the costs in this process."""

    sent: int
    acknowledged: int
    ack_p50_ms: float
    ack_p99_ms: float
    cpu_percent: float
    growth_mb: float


def run_driver(folder: Path, load: Load) -> tuple[Measured, float, int]:
    """Measure the real driver; return the measurement, the reports per second in its journal, and the wrong ones."""
    store = LocalStore(folder)
    store.prepare()
    scheduler = FIFO(max_resource=100)
    config = EngineConfig(study="bench", metric="loss", mode="min")
    searcher = RandomSearch().begin(Space.of({"lr": uniform(0.0, 1.0)}), 0)
    state = StudyState(config, searcher, scheduler.begin(), scheduler.max_resource)
    driver = Driver(state, store, Journal(store, "bench", 0), launch=nobody, kill=nobody)
    identity = make_identity()
    server = SearchServer(driver, identity, limits=connection_limits(load.streams, None, 0))
    port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1"), driver.loop).result()
    driver.connect(server)
    driver.post(DriverStarted("bench"))
    driver.post(RunRequested(None, load.streams))
    measured = load(identity.endpoint(f"127.0.0.1:{port}"))
    driver.post(StopRequested("the load is over"))
    driver.give_up_after(0.0)
    driver.ended.wait()
    asyncio.run_coroutine_threadsafe(server.stop(), driver.loop).result()
    driver.close()
    if driver.failure is not None:
        raise driver.failure
    return measured, *audit(store, measured.acknowledged)


def nobody(worker: WorkerId, epoch: int) -> None:
    """Start or end no worker: the load generator plays them all."""
    del worker, epoch


def audit(store: LocalStore, acknowledged: int) -> tuple[float, int]:
    """Return the reports per second in the journal, and the number of messages that are missing or duplicated."""
    found: Counter[tuple[str, int, int]] = Counter()
    times = []
    for record in read_records(store):
        match record.event:
            case Reported(lease=lease, resource=resource):
                found["reported", lease.number, resource] += 1
                times.append(record.t)
            case TrainingEnded(lease=lease):
                found["ended", lease.number, 0] += 1
            case CheckpointCommitted(lease=lease):
                found["committed", lease.number, 0] += 1
            case _:
                pass
    gaps = sum(resource > 1 and (kind, lease, resource - 1) not in found for kind, lease, resource in found)
    doubled = found.total() - len(found)
    return len(times) / (times[-1] - times[0]), max(0, acknowledged - len(found)) + gaps + doubled


class BareServer:
    """The baseline: sends Welcome and endless work, and acknowledges each message at once."""

    def __init__(self, identity: Identity, streams: int) -> None:
        self._identity = identity
        self._streams = streams

    async def start(self) -> int:
        self._server = aio.server(
            options=server_options(Keepalive(), MAX_MESSAGE_BYTES, connection_limits(self._streams, None, 0))
        )
        method = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: method}),))
        port = self._server.add_secure_port("127.0.0.1:0", server_credentials(self._identity))
        await self._server.start()
        return port

    async def stop(self) -> None:
        await self._server.stop(None)

    async def _serve(self, _requests: object, context: aio.ServicerContext[bytes, bytes]) -> None:
        hello: Any = decode_worker(await context.read()).message
        lease = Lease(hello.worker, hello.worker, hello.epoch)
        stage = Stage(NodeKey("0" * 32), {}, (TrialId(hello.worker),), 0)
        await context.write(frame(0, 0, encode_driver(Welcome())))
        await context.write(frame(1, 0, encode_driver(Assign(Work(lease, (Lane((stage,)),))))))
        while isinstance(data := await context.read(), bytes):
            await context.write(frame(0, decode_worker(data).number))


def run_bare(load: Load) -> Measured:
    """Measure the baseline."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    identity = make_identity()
    server = BareServer(identity, load.streams)
    port = asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    measured = load(identity.endpoint(f"127.0.0.1:{port}"))
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description="Load the driver's server.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--rate", type=float, default=2000.0)
    given = parser.parse_args()
    load = Load(given.streams, given.rate, given.seconds)
    with tempfile.TemporaryDirectory() as folder:
        ours, per_s, lost = run_driver(Path(folder), load)
    bare_load = Load(given.streams, given.rate, min(given.seconds, 20.0))
    bare = run_bare(bare_load)
    show(
        f"{given.streams} streams offer {given.rate:g} reports a second for {given.seconds:g} s",
        [
            Figure("reports_per_s", per_s, "1/s", bare.acknowledged / bare_load.seconds),
            Figure("reports_lost", lost, "messages", bare.sent - bare.acknowledged),
            Figure("server_growth_mb", ours.growth_mb, "MB", bare.growth_mb),
            Figure("ack_p50_ms", ours.ack_p50_ms, "ms", bare.ack_p50_ms),
            Figure("ack_p99_ms", ours.ack_p99_ms, "ms", bare.ack_p99_ms),
            Figure("server_cpu_percent", ours.cpu_percent, "% of a core", bare.cpu_percent),
        ],
    )


if __name__ == "__main__":
    main()
