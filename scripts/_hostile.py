"""What hostile peers say: a seeded stream of frames, from forged leases to random bytes. Pure."""

from __future__ import annotations

import math
import random

from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.rpc.convert import encode_worker, frame
from asyncsearch.rpc.messages import Heartbeat, Hello, LogLine, LogLines, WorkerMessage
from asyncsearch.rpc.pb import search_pb2 as pb

FORGED = "forged"
"""The text in each forged report, log line and error: it must be found nowhere."""
_VALUES = (1e308, -1e308, math.nan, math.inf, -math.inf, 0.0, 12345.678)
_TEXTS = (FORGED, f"\x1b[2J\x1b]52;c;{FORGED}\x07", f"{FORGED}\u202e\x9b31m", "<script>" + FORGED, "../../" + FORGED)


class HostileWorker:
    """A worker that has the certificate and the token, and means harm to the trials of others."""

    def __init__(self, seed: int, worker: int, victims: int) -> None:
        self._random = random.Random(seed)
        self._worker, self._victims = worker, victims

    def forged(self) -> bytes:
        """Return the body of a well-formed message that the driver must refuse or ignore."""
        return encode_worker(self._message())

    def malformed(self, number: int, ack: int) -> bytes:
        """Return a frame that breaks the contract, or happens to be a message after all."""
        draw = self._random
        body = self.forged()
        kind = draw.randrange(8)
        if kind == 0:
            return draw.randbytes(draw.randrange(1, 400))
        if kind == 1:
            return frame(number + draw.choice((1, 2, 1000, 2**40)), ack, body)
        if kind == 2:
            return frame(number, ack + draw.choice((1, 1000, 2**53, 2**64 - 1 - ack)), body)
        if kind == 3:
            return frame(0, ack, encode_worker(Hello(WorkerId(self._worker), 1, "again")))
        if kind == 4:
            return self._out_of_range(number, ack)
        if kind == 5:
            return frame(number, ack, body[: draw.randrange(len(body))])
        damaged = bytearray(frame(number, ack, body))
        for _ in range(draw.randrange(1, 6)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        return bytes(damaged)

    def oversize(self) -> bytes:
        """Return bytes above the limit of a message."""
        return bytes(self._random.choice((4 * 2**20 + 1, 17 * 2**20)))

    def _message(self) -> WorkerMessage:
        draw = self._random
        lease, lane, resource = self._lease(), draw.choice((0, 1, 65_535)), draw.choice((1, 2, 3, 1_000, 2**53 - 1))
        text, node = draw.choice(_TEXTS), NodeKey(f"{draw.getrandbits(128):032x}")
        checkpoint = CheckpointRef(node, resource)
        match draw.randrange(12):
            case 0:
                outcome = draw.choice(list(Outcome))
                return TrainingEnded(lease, outcome, resource, checkpoint_resource=resource, error=text, lane=lane)
            case 1:
                return CheckpointCommitted(lease, checkpoint, 2**53 - 1, lane)
            case 2:
                return CheckpointFailed(lease, checkpoint, text, lane)
            case 3 | 4 | 5:
                lines = tuple(LogLine(draw.random() * 2e9, text) for _ in range(draw.randrange(1, 4)))
                return LogLines(lease, lines, left_out=draw.choice((0, 2**53 - 1)), lane=lane)
            case 6:
                return Reported(lease, resource, {f"{FORGED} {number}": 1.0 for number in range(50)}, lane)
            case _:
                return Reported(lease, resource, {"loss": draw.choice(_VALUES)}, lane)

    def _lease(self) -> Lease:
        """Return a lease of another worker, of another launch, or of no work."""
        draw = self._random
        worker = draw.randrange(self._victims)
        if draw.random() < 0.8:
            return Lease(draw.randrange(2_000), WorkerId(worker), draw.choice((1, 1, 1, 2, 2**31 - 1)))
        return Lease(draw.choice((10**6, 2**53 - 1)), WorkerId(self._worker), 1)

    def _out_of_range(self, number: int, ack: int) -> bytes:
        draw = self._random
        lease = pb.Lease(number=draw.choice((0, 2**53, 2**64 - 1)), worker=draw.choice((0, 2**31, 2**32 - 1)), epoch=1)
        line = pb.LogLine(time_s=draw.choice((1e18, -1.0, math.nan, math.inf)), text=f"{FORGED}\n1.0 O {FORGED}")
        bodies = (
            {"reported": pb.Reported(lease=lease, resource=2**64 - 1, metrics=[pb.Metric(name="loss", value=0)])},
            {"log_lines": pb.LogLines(lease=pb.Lease(number=0, worker=0, epoch=1), lines=[line])},
            {"training_ended": pb.TrainingEnded(lease=lease, resource=2**64 - 1, error=FORGED)},
            {"checkpoint_committed": pb.CheckpointCommitted(lease=lease, size_bytes=2**64 - 1)},
        )
        return pb.WorkerMessage(number=number, ack=ack, **draw.choice(bodies)).SerializeToString()


def heartbeat(ack: int) -> bytes:
    """Return the frame of a heartbeat."""
    return frame(0, ack, encode_worker(Heartbeat()))


def raw_bytes(draw: random.Random) -> bytes:
    """Return bytes of a peer without a certificate: TLS that is cut or damaged, HTTP, escapes, noise."""
    hello = bytes.fromhex("16030100c4010000c00303") + draw.randbytes(185)
    kinds = (
        draw.randbytes(draw.randrange(1, 2_000)),
        hello[: draw.randrange(1, len(hello))],
        hello,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + draw.randbytes(200),
        b"GET /\x1b[31m HTTP/1.1\r\n\r\n" * draw.randrange(1, 20),
        b"\x16\x03\x01\xff\xff" + draw.randbytes(500),
    )
    return draw.choice(kinds)


def http2_frames(draw: random.Random, count: int) -> bytes:
    """Return frames of HTTP/2, most of them wrong, for inside TLS."""
    frames = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])]
    for _ in range(count):
        payload = draw.randbytes(draw.randrange(64))
        stream = draw.choice((0, 1, 3, 2**31 - 1))
        head = len(payload).to_bytes(3, "big") + bytes([draw.randrange(12), draw.randrange(256)])
        frames.append(head + stream.to_bytes(4, "big") + payload)
    return b"".join(frames)
