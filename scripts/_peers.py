"""The peers of ``fuzz_server.py``, each kind in its own process: honest workers, a hostile one, strangers.

Reads the driver's Endpoint as JSON from standard input, works until standard input ends, and prints one line of JSON.

    python scripts/_peers.py honest|hostile|strangers|idle --seed 1 --workers 4 < endpoint.json
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import Any

import msgspec
from _hostile import HostileWorker, heartbeat, http2_frames, raw_bytes

from asyncsearch.actions import Assign, DismissWorker, StopTraining
from asyncsearch.errors import AsyncSearchError
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.auth import TARGET_NAME, channel_credentials
from asyncsearch.rpc.channel import MAX_MESSAGE_BYTES, METHOD, SERVICE, Keepalive, client_options
from asyncsearch.rpc.client import Connection
from asyncsearch.rpc.convert import decode_driver, encode_worker, frame
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, LogLine, LogLines
from asyncsearch.rpc.quiet_grpc import aio, grpc

_AHEAD = 500
"""Messages that the hostile worker sends before it reads the answers."""
_PUBLISHED = 0.05
"""The share of the hostile worker's streams that come by the published port."""
_AGAIN_S = 10.0
"""After which an idle peer that was shown out comes again."""
EPOCHS = 10
"""Units of each trial."""


def loss_of(x: float, resource: int) -> float:
    """Return the loss that an honest worker reports."""
    return x / resource


class HonestWorker:
    """Trains what it is given through the real client, and lets each value be one that can be recomputed."""

    def __init__(self, endpoint: Endpoint, number: int, pace_s: float) -> None:
        self._pace_s = pace_s
        self._stopped: set[int] = set()
        self._over = threading.Event()
        hello = Hello(WorkerId(number), 1, agent=f"honest-{number}")
        self._connection = Connection(endpoint, hello, deliver=self._deliver, closed=lambda error: self._over.set())
        self._connection.open()
        self._begin_heartbeats()

    def _begin_heartbeats(self) -> None:
        def beat() -> None:
            while not self._over.wait(1.0):
                self._connection.heartbeat()

        threading.Thread(target=beat, daemon=True).start()

    def _deliver(self, message: DriverMessage) -> None:
        if isinstance(message, Assign):
            threading.Thread(target=self._train, args=(message,), daemon=True).start()
        elif isinstance(message, StopTraining):
            self._stopped.add(message.lease.number)
        elif isinstance(message, DismissWorker):
            self._over.set()

    def _train(self, assign: Assign) -> None:
        lease, stage = assign.work.lease, assign.work.lanes[0].stages[0]
        for resource in range(stage.start + 1, EPOCHS + 1):
            if self._over.wait(self._pace_s):
                return
            if lease.number in self._stopped:
                self._connection.send(TrainingEnded(lease, Outcome.STOPPED, resource - 1))
                return
            self._connection.send(Reported(lease, resource, {"loss": loss_of(stage.params["x"], resource)}))
            self._connection.send(LogLines(lease, (LogLine(time.time(), f"honest {resource}"),)))
        self._connection.send(TrainingEnded(lease, Outcome.RETURNED, EPOCHS))

    def wait(self) -> None:
        self._over.wait()
        self._connection.flush(10.0)
        self._connection.close()


def honest(endpoint: Endpoint, given: argparse.Namespace, over: threading.Event) -> dict[str, Any]:
    """Train; meanwhile, a known agent breaks its stream again and again, and is timed until it is back."""
    workers = [HonestWorker(endpoint, number, given.pace) for number in range(given.workers)]
    returns_s = []
    while not over.wait(1.0):
        began_s = time.monotonic()
        again = Connection(
            endpoint,
            Hello(WorkerId(given.workers), 1, agent="returning"),
            deliver=lambda message: None,
            closed=lambda error: None,
        )
        try:
            again.open()
            returns_s.append(time.monotonic() - began_s)
        except AsyncSearchError as error:
            print(f"a known agent did not get back in: {error}", file=sys.stderr)
            returns_s.append(float("inf"))
        again.close()
    for worker in workers:
        worker.wait()
    returns_s.sort()
    return {
        "returns": len(returns_s),
        "return_p50_s": round(returns_s[len(returns_s) // 2], 3),
        "return_most_s": round(returns_s[-1], 3),
    }


class _HostileStream:
    """The session of a hostile worker, over as many streams as the driver closes."""

    def __init__(self, endpoint: Endpoint, given: argparse.Namespace, worker: int) -> None:
        self._says = HostileWorker(given.seed, worker, given.workers)
        self._draw = random.Random(given.seed)
        self._hello = Hello(WorkerId(worker), 1, agent="hostile")
        self._endpoint = endpoint
        self._number = self._received = self._answers = 0
        self.counts: Counter[str] = Counter()
        self.sent_bytes = 0
        self._tenths = 0

    async def run(self, messages: int, over: threading.Event) -> None:
        while self.counts.total() < messages and not over.is_set():
            with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
                # On one connection, streams that ended before a write did would count until it can open no more.
                async with aio.secure_channel(
                    self._address(),
                    channel_credentials(self._endpoint),
                    options=client_options(Keepalive(), 8 * MAX_MESSAGE_BYTES),
                ) as channel:
                    await self._stream(channel, messages, over)

    def _address(self) -> str:
        """Return the spare port, mostly: strangers fill the published one, where a connection takes a second."""
        *others, spare = self._endpoint.addresses
        return others[0] if others and self._draw.random() < _PUBLISHED else spare

    async def _stream(self, channel: aio.Channel, messages: int, over: threading.Event) -> None:
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}", request_serializer=None, response_deserializer=None)()
        await call.write(frame(0, self._received, encode_worker(self._hello)))
        if not self._note(await call.read()):
            status = await call.code()
            self.counts[f"attaching: {status.name}"] += 1
            await asyncio.sleep(0.1)
            return
        reader = asyncio.create_task(self._read(call))
        try:
            while self.counts.total() < messages and not over.is_set() and not reader.done():
                await self._keep_up()
                self._tell_tenths(messages)
                if not await self._say(call):
                    await asyncio.wait_for(reader, 10.0)
        finally:
            reader.cancel()
            call.cancel()

    def _tell_tenths(self, messages: int) -> None:
        """Print a line after each tenth of the messages, but the last."""
        if self._tenths < 9 and self.counts.total() * 10 >= messages * (self._tenths + 1):
            self._tenths += 1
            print(json.dumps({"said": self.counts.total()}), flush=True)

    async def _keep_up(self) -> None:
        """Wait for the answers: a worker that leaves 10,000 of them unacknowledged is locked out for good."""
        for _ in range(100):
            if self._number - self._answers < _AHEAD:
                return
            await asyncio.sleep(0.01)
        self._answers = self._number  # some were repetitions, which get no answer

    async def _say(self, call: Any) -> bool:
        """Say one thing, and return whether the driver should keep the stream."""
        kind = self._draw.random()
        if kind < 0.00005:
            # The driver ends the stream in the middle of it, which a write that waits for room does not notice.
            await asyncio.wait_for(self._write(call, self._says.oversize(), "oversize"), 2.0)
            return False
        if kind < 0.01:
            await self._write(call, self._says.malformed(self._number + 1, self._received), "malformed")
            # Some damages hit a place that does not matter: a second wrong number ends the stream in any case.
            await self._write(call, frame(self._number + 1_000, self._received, self._says.forged()), "malformed")
            return False
        if kind < 0.05 and self._number:
            again = frame(self._draw.randrange(1, self._number + 1), self._received, self._says.forged())
            await self._write(call, again, "repeated")
        elif kind < 0.07:
            await self._write(call, heartbeat(self._received), "heartbeats")
        else:
            self._number += 1
            await self._write(call, frame(self._number, self._received, self._says.forged()), "forged")
        return True

    async def _write(self, call: Any, data: bytes, kind: str) -> None:
        self.counts[kind] += 1
        self.sent_bytes += len(data)
        await call.write(data)

    async def _read(self, call: Any) -> None:
        with contextlib.suppress(aio.AioRpcError):
            while isinstance(data := await call.read(), bytes):
                self._note(data)

    def _note(self, data: Any) -> bool:
        if not isinstance(data, bytes):
            return False
        number = decode_driver(data).number
        if number > self._received:
            self._received = number
            self._answers += 1
        return True


async def _rivals(endpoint: Endpoint, given: argparse.Namespace, over: threading.Event) -> Counter[str]:
    """Attach in the place of honest workers, and with a wrong token."""
    counts: Counter[str] = Counter()
    wrong = msgspec.structs.replace(endpoint, token="wrong")
    while not over.is_set():
        for one, kind in ((endpoint, "rivals"), (wrong, "wrong tokens")):
            options = client_options(Keepalive(), MAX_MESSAGE_BYTES)
            async with aio.secure_channel(one.address, channel_credentials(one), options=options) as channel:
                call = channel.stream_stream(
                    f"/{SERVICE}/{METHOD}", request_serializer=None, response_deserializer=None
                )()
                with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):
                    hello = Hello(WorkerId(counts.total() % given.workers), 1, agent="rival")
                    await call.write(frame(0, 0, encode_worker(hello)))
                    while isinstance(await call.read(), bytes):
                        pass
                status = await call.code()
                counts[kind if status is grpc.StatusCode.UNAUTHENTICATED else f"{kind} with another answer"] += 1
        await asyncio.sleep(0.05)
    return counts


def hostile(endpoint: Endpoint, given: argparse.Namespace, over: threading.Event) -> dict[str, Any]:
    """Say so many hostile things with the token."""

    async def run() -> dict[str, Any]:
        stream = _HostileStream(endpoint, given, worker=given.workers + 1)
        rivals = asyncio.create_task(_rivals(endpoint, given, over))
        await stream.run(given.messages, over)
        said = {"messages": stream.counts.total(), "megabytes": round(stream.sent_bytes / 2**20), **stream.counts}
        print(json.dumps(said), flush=True)  # the driver goes on until it reads this
        over.wait()
        return said | dict(await rivals)

    return asyncio.run(run())


def strangers(endpoint: Endpoint, given: argparse.Namespace, over: threading.Event) -> dict[str, Any]:
    """Send frames without a token: noise to the port, and noise inside TLS with a worker's certificate."""
    draw = random.Random(given.seed)
    host, _, port = endpoint.address.rpartition(":")
    context = ssl.create_default_context(cadata=endpoint.certificate_pem.decode())
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(endpoint.worker_key_pem + endpoint.worker_certificate_pem)
        file.flush()
        context.load_cert_chain(file.name)
    counts: Counter[str] = Counter()
    while not over.is_set():
        counts["connections"] += 1
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as plain:
            if counts["connections"] % 4:
                for _ in range(draw.randrange(1, 8)):
                    plain.sendall(raw_bytes(draw))
                    counts["raw_frames"] += 1
            else:
                with context.wrap_socket(plain, server_hostname=TARGET_NAME) as secure:
                    secure.sendall(http2_frames(draw, 50))
                    counts["raw_frames"] += 50
        over.wait(0.005)
    return dict(counts)


def idle(endpoint: Endpoint, given: argparse.Namespace, over: threading.Event) -> dict[str, Any]:
    """Hold so many connections to the published port that say nothing; each that is closed is made again."""
    host, _, port = endpoint.address.rpartition(":")
    counts: Counter[str] = Counter()

    async def hold(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        while not over.is_set():
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                counts["refused"] += 1
            else:
                counts["made"] += 1
                with contextlib.suppress(OSError):
                    await reader.read(1)
                writer.close()
            await asyncio.sleep(_AGAIN_S)

    async def run() -> None:
        tasks = [asyncio.create_task(hold(number / 2_000)) for number in range(given.connections)]
        await asyncio.to_thread(over.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    return dict(counts)


ROLES = {"honest": honest, "hostile": hostile, "strangers": strangers, "idle": idle}


def main() -> None:
    parser = argparse.ArgumentParser(description="Play the peers of a driver.")
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4, help="honest ones")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--pace", type=float, default=0.05, help="seconds of an honest worker's unit")
    given = parser.parse_args()
    # Unbuffered: a thread that waits in a buffer of sys.stdin would keep the interpreter from ending.
    data = b""
    while not data.endswith(b"\n"):
        data += os.read(0, 65_536)
    endpoint = msgspec.json.decode(data, type=Endpoint)
    over = threading.Event()

    def watch() -> None:
        while os.read(0, 65_536):
            pass
        over.set()

    threading.Thread(target=watch, daemon=True).start()
    print(json.dumps(ROLES[given.role](endpoint, given, over)), flush=True)


if __name__ == "__main__":
    main()
