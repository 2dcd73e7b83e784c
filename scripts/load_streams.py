"""Load generator: many reporting workers, as streams of one process, without training anything.

Reads the driver's Endpoint as JSON from standard input, attaches ``--streams`` workers, and lets them make ``--rate``
reports a second on their assigned work, for ``--seconds``. Waits until the driver has acknowledged all of them, and
prints one line of JSON: the sent and the acknowledged messages, and the times of acknowledgements.

    python scripts/load_streams.py --streams 500 --rate 2000 --seconds 60 < endpoint.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Any

import msgspec
from grpc import aio

from asyncsearch.actions import Assign, DismissWorker, StopTraining
from asyncsearch.events import CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, WorkerId
from asyncsearch.rpc.auth import channel_credentials
from asyncsearch.rpc.channel import MAX_MESSAGE_BYTES, METHOD, SERVICE, Keepalive, client_options
from asyncsearch.rpc.convert import decode_driver, encode_worker, frame
from asyncsearch.rpc.messages import Endpoint, Hello, WorkerMessage
from asyncsearch.work import Stage, Work


class Worker:
    """One stream with simulated work."""

    def __init__(self, number: int, metric: str) -> None:
        self.hello = Hello(WorkerId(number), 1, agent=f"load-{number}")
        self.metric = metric
        self.sent = 0
        self.acknowledged = 0
        self.ack_delays_s: list[float] = []
        self._sent_s: list[float] = []
        self._received = 0
        self._work: Work | None = None
        self._resource = 0
        self._changed = asyncio.Event()
        self._call: Any = None

    async def run(self, channel: aio.Channel, period_s: float, first_s: float, until_s: float) -> None:
        """Attach, report until ``until_s``, and wait for the last acknowledgement."""
        attach = channel.stream_stream(f"/{SERVICE}/{METHOD}", request_serializer=None, response_deserializer=None)
        self._call = attach()
        await self._call.write(frame(0, 0, encode_worker(self.hello)))
        reader = asyncio.create_task(self._read())
        due_s = first_s
        while due_s < until_s:
            await asyncio.sleep(due_s - time.monotonic())
            due_s += period_s
            await self._step()
        while self.acknowledged < self.sent and not reader.done():
            self._changed.clear()
            await self._changed.wait()
        await self._call.done_writing()
        await reader

    async def _step(self) -> None:
        if self._work is None:
            return
        stage, lease = self._work.lanes[0].stages[0], self._work.lease
        self._resource += 1
        await self._send(Reported(lease, self._resource, {self.metric: 1 / self._resource}))
        if self._work is not None and self._resource == stage.stop:
            await self._end(stage)

    async def _end(self, stage: Stage) -> None:
        assert self._work is not None
        lease, self._work = self._work.lease, None
        saved = self._resource if stage.save else None
        await self._send(TrainingEnded(lease, Outcome.REACHED, self._resource, checkpoint_resource=saved))
        if saved is not None:
            await self._send(CheckpointCommitted(lease, CheckpointRef(stage.node, saved)))

    async def _send(self, message: WorkerMessage) -> None:
        self.sent += 1
        self._sent_s.append(time.monotonic())
        await self._call.write(frame(self.sent, self._received, encode_worker(message)))

    async def _read(self) -> None:
        while isinstance(data := await self._call.read(), bytes):
            number, ack, message = decode_driver(data)
            self._received = max(self._received, number)
            now_s = time.monotonic()
            self.ack_delays_s += [now_s - self._sent_s[sent] for sent in range(self.acknowledged, ack)]
            self.acknowledged = max(self.acknowledged, ack)
            if isinstance(message, Assign):
                self._work, self._resource = message.work, message.work.lanes[0].stages[0].start
            elif isinstance(message, StopTraining) and self._work is not None and message.lease == self._work.lease:
                self._work = None
                await self._send(TrainingEnded(message.lease, Outcome.STOPPED, self._resource))
            elif isinstance(message, DismissWorker):
                break
            self._changed.set()
        self._changed.set()


async def generate(endpoint: Endpoint, streams: int, rate: float, seconds: float, metric: str) -> dict[str, float]:
    """Run all workers and return their results."""
    workers = [Worker(number, metric) for number in range(streams)]
    period_s = streams / rate
    first_s = time.monotonic() + 1 + streams / 200
    channels = [
        aio.secure_channel(
            endpoint.address, channel_credentials(endpoint), options=client_options(Keepalive(), MAX_MESSAGE_BYTES)
        )
        for _ in workers
    ]
    await asyncio.gather(
        *(
            worker.run(channel, period_s, first_s + period_s * worker.hello.worker / streams, first_s + seconds)
            for worker, channel in zip(workers, channels, strict=True)
        )
    )
    for channel in channels:
        await channel.close()
    delays_ms = sorted(1000 * delay_s for worker in workers for delay_s in worker.ack_delays_s)
    return {
        "sent": sum(worker.sent for worker in workers),
        "acknowledged": sum(worker.acknowledged for worker in workers),
        "ack_p50_ms": round(delays_ms[len(delays_ms) // 2], 2) if delays_ms else 0.0,
        "ack_p99_ms": round(delays_ms[len(delays_ms) * 99 // 100], 2) if delays_ms else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Attach many workers that only report.")
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--rate", type=float, default=2000.0, help="reports a second, over all streams")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--metric", default="loss")
    given = parser.parse_args()
    endpoint = msgspec.json.decode(sys.stdin.buffer.read(), type=Endpoint)
    print(json.dumps(asyncio.run(generate(endpoint, given.streams, given.rate, given.seconds, given.metric))))


if __name__ == "__main__":
    main()
