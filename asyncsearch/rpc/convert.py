"""Conversion between bytes on the wire and Python values: the fields of each message of ``rpc/search.proto``.

A message is encoded once, as a *body*. ``frame`` puts its number and the newest acknowledgement before the body each
time it is written, because the acknowledgement changes between attempts; joined, they are a message of the contract.
The decoder trusts nothing, and every error names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from google.protobuf.message import DecodeError
from msgspec import UNSET

from asyncsearch.actions import AddLane, Assign, CutWork, DismissWorker, ExtendWork, SaveAt, StopTraining
from asyncsearch.errors import ProtocolError
from asyncsearch.events import (
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    PackMeasured,
    PackMemory,
    PackSeconds,
    Reported,
    Spent,
    TrainingEnded,
    VolumeMeasured,
)
from asyncsearch.ids import CheckpointRef, Lease
from asyncsearch.rpc.fields import (
    CONTENT,
    COUNT,
    LINE,
    METRICS,
    NAME,
    NODE,
    PARAMS,
    PLAIN,
    SECRET,
    SPAN,
    TEXT,
    TIME,
    WORD,
    Codec,
    choices,
    counts,
    fail,
    messages,
    named_counts,
    tuples,
)
from asyncsearch.rpc.messages import (
    DriverMessage,
    GangNote,
    Heartbeat,
    Hello,
    Judged,
    LogLine,
    LogLines,
    RankFailed,
    Refused,
    StoreOutage,
    StoreTokens,
    TrialAnswer,
    TrialQuestion,
    Welcome,
    WorkerMessage,
)
from asyncsearch.rpc.pb import search_pb2 as pb
from asyncsearch.work import GangMember, Lane, Stage, Work

M_co = TypeVar("M_co", covariant=True)


class Envelope(NamedTuple, Generic[M_co]):
    """A received message with its number and acknowledgement."""

    number: int
    """0: not numbered."""
    ack: int
    message: M_co


_LINES_MOST = 10_000
"""Most lines of a log in one message; agents send a tenth (``LogLimits``)."""
_WORKER = counts(high=2**31)
_EPOCH = counts(low=1, high=2**31)
_LANE = counts(high=2**31)
_PID = counts(high=2**32)
_LEASE = messages(Codec(Lease, pb.Lease, "lease.", number=counts(), worker=_WORKER, epoch=_EPOCH))
_CHECKPOINT = Codec(CheckpointRef, pb.Checkpoint, "checkpoint.", node=NODE, resource=counts())
_STAGE = Codec(
    Stage,
    pb.Stage,
    "lanes.stages.",
    node=NODE,
    params=PARAMS,
    trials=tuples(counts()),
    seed=counts(high=2**63),
    start=counts(),
    stop=counts(is_optional=True),
    max_resource=counts(is_optional=True),
    save=PLAIN,
    save_every=counts(is_optional=True),
)
_STAGES = tuples(messages(_STAGE))
_WORK_LANE = Codec(
    Lane,
    pb.Lane,
    "lanes.",
    stages=_STAGES,
    load=messages(_CHECKPOINT, is_optional=True),
    judged=counts(is_optional=True),
)
_LANES = tuples(messages(_WORK_LANE))
_OUTCOME = choices({outcome: pb.Outcome.Value(f"OUTCOME_{outcome.name}") for outcome in Outcome})
_PACK_SECONDS = tuples(
    messages(Codec(PackSeconds, pb.PackSeconds, "seconds.", lanes=counts(1, 2**16), seconds=SPAN)),
    may_be_empty=True,
    most=64,
)
_PACK_MEMORY = messages(
    Codec(PackMemory, pb.PackMemory, "memory.", one=counts(), each=counts(), limit=counts(), limited_by=WORD),
    is_optional=True,
)
_SPENT = named_counts(Spent, pb.Spent, absent=UNSET)
_GANG = tuples(messages(Codec(GangMember, pb.GangMember, "gang.", worker=_WORKER, epoch=_EPOCH)), may_be_empty=True)
_GANG_NOTE = Codec(GangNote, pb.GangNote, lease=_LEASE, rank=_LANE, key=NAME, value=TEXT)
_CONSULTATION: dict[str, Any] = {
    "lease": _LEASE,
    "lane": _LANE,
    "number": counts(low=1),
    "content": CONTENT,
    "has_more": PLAIN,
}
_LOG_LINE = Codec(LogLine, pb.LogLine, "lines.", time_s=TIME, text=LINE, is_stderr=PLAIN)

_FROM_WORKER = {
    "hello": Codec(
        Hello,
        pb.Hello,
        worker=_WORKER,
        epoch=_EPOCH,
        agent=NAME,
        host=WORD,
        pid=_PID,
        protocol=counts(),
        device=WORD,
    ),
    "heartbeat": Codec(Heartbeat, pb.Heartbeat),
    "reported": Codec(
        Reported,
        pb.Reported,
        lease=_LEASE,
        lane=_LANE,
        resource=counts(low=1),
        metrics=METRICS,
        is_awaited=PLAIN,
        spent=_SPENT,
    ),
    "training_ended": Codec(
        TrainingEnded,
        pb.TrainingEnded,
        lease=_LEASE,
        lane=_LANE,
        outcome=_OUTCOME,
        resource=counts(),
        checkpoint_resource=counts(is_optional=True),
        error=TEXT,
        error_kind=WORD,
        unreported=METRICS,
        spent=_SPENT,
    ),
    "pack_measured": Codec(
        PackMeasured,
        pb.PackMeasured,
        lease=_LEASE,
        seconds=_PACK_SECONDS,
        device=WORD,
        refusal=TEXT,
        memory=_PACK_MEMORY,
        sequential=TEXT._replace(wire="in_turn"),
    ),
    "volume_measured": Codec(
        VolumeMeasured, pb.VolumeMeasured, lease=_LEASE, steps=counts(), gradient_bytes=counts(), device=WORD
    ),
    "checkpoint_committed": Codec(
        CheckpointCommitted,
        pb.CheckpointCommitted,
        lease=_LEASE,
        lane=_LANE,
        checkpoint=messages(_CHECKPOINT),
        size_bytes=counts(),
    ),
    "checkpoint_failed": Codec(
        CheckpointFailed,
        pb.CheckpointFailed,
        lease=_LEASE,
        lane=_LANE,
        checkpoint=messages(_CHECKPOINT),
        error=TEXT,
        error_kind=TEXT,
    ),
    "store_outage": Codec(StoreOutage, pb.StoreOutage, error=TEXT),
    "log_lines": Codec(
        LogLines,
        pb.LogLines,
        lease=_LEASE,
        lane=_LANE,
        lines=tuples(messages(_LOG_LINE), may_be_empty=True, most=_LINES_MOST),
        left_out=counts(),
    ),
    "gang_note": _GANG_NOTE,
    "question": Codec(TrialQuestion, pb.TrialQuestion, is_awaited=PLAIN, **_CONSULTATION),
    "rank_failed": Codec(RankFailed, pb.RankFailed, lease=_LEASE, error=TEXT, error_kind=WORD, has_stopped=PLAIN),
}


class _AssignCodec(Codec):
    """An Assign on the wire holds the fields of its work directly, without a nested message."""

    def __init__(self) -> None:
        super().__init__(Assign, pb.Assign)
        self._work = Codec(Work, pb.Assign, lease=_LEASE, lanes=_LANES)

    def read(self, field: str, message: Any) -> Assign:
        work: Work = self._work.read(field, message)
        measured = tuple(_LANE.read("measured", count) for count in message.measured)
        gang = _GANG.read("gang", message.gang)
        more = {"measured": measured or UNSET, "is_open": message.is_open or UNSET, "gang": gang or UNSET}
        return Assign(msgspec.structs.replace(work, **more))

    def write(self, field: str, value: Any) -> pb.Assign:
        written: pb.Assign = self._work.write(field, value.work)
        if not isinstance(value.work.measured, msgspec.UnsetType):
            written.measured.extend(value.work.measured)
        written.is_open = value.work.is_open is True
        if not isinstance(value.work.gang, msgspec.UnsetType):
            written.gang.extend(_GANG.write("gang", value.work.gang))
        return written


_FROM_DRIVER = {
    "welcome": Codec(Welcome, pb.Welcome, protocol=counts()),
    "assign": _AssignCodec(),
    "add_lane": Codec(AddLane, pb.AddLane, lease=_LEASE, lane=_LANE, added=messages(_WORK_LANE)),
    "stop_training": Codec(StopTraining, pb.StopTraining, lease=_LEASE, lane=_LANE, reason=TEXT),
    "save_at": Codec(SaveAt, pb.SaveAt, lease=_LEASE, lane=_LANE, node=NODE, resource=counts()),
    "cut_work": Codec(CutWork, pb.CutWork, lease=_LEASE, lane=_LANE, stop=counts()),
    "extend_work": Codec(
        ExtendWork,
        pb.ExtendWork,
        lease=_LEASE,
        lane=_LANE,
        stages=tuples(messages(_STAGE), may_be_empty=True),
        save=PLAIN,
    ),
    "judged": Codec(Judged, pb.Judged, lease=_LEASE, lane=_LANE, resource=counts(), next=counts(is_optional=True)),
    "dismiss": Codec(DismissWorker, pb.Dismiss, worker=_WORKER, epoch=_EPOCH, reason=TEXT, is_unheard=PLAIN),
    "refused": Codec(Refused, pb.Refused, lease=_LEASE, reason=TEXT),
    "store_tokens": Codec(StoreTokens, pb.StoreTokens, tokens=SECRET),
    "gang_note": _GANG_NOTE,
    "answer": Codec(TrialAnswer, pb.TrialAnswer, **_CONSULTATION),
}
_UNNUMBERED = frozenset({"hello", "heartbeat", "welcome"})
_NO_BODY = "is missing, or of a kind that this version does not know"
_NAMES = {codec.kind: name for table in (_FROM_WORKER, _FROM_DRIVER) for name, codec in table.items()}


def frame(number: int, ack: int, body: bytes = b"") -> bytes:
    """Return the bytes of a message of either direction on the wire; no body: a bare acknowledgement."""
    return pb.DriverMessage(number=number, ack=ack).SerializeToString() + body


def encode_worker(message: WorkerMessage) -> bytes:
    """Return the body of a worker's message.

    Raises:
        ProtocolError: a value of it does not match the contract.
    """
    return _encode(pb.WorkerMessage, _FROM_WORKER, message)


def encode_driver(message: DriverMessage | Welcome) -> bytes:
    """Return the body of a driver's message.

    Raises:
        ProtocolError: a value of it does not match the contract.
    """
    return _encode(pb.DriverMessage, _FROM_DRIVER, message)


def decode_worker(data: bytes) -> Envelope[WorkerMessage]:
    """Decode a worker's message.

    Raises:
        ProtocolError: it is malformed.
    """
    envelope: Envelope[Any] = _decode(pb.WorkerMessage, _FROM_WORKER, data)
    if envelope.message is None:
        fail("body", _NO_BODY)
    return envelope


def decode_driver(data: bytes) -> Envelope[DriverMessage | Welcome | None]:
    """Decode a driver's message; None as its message: a bare acknowledgement.

    Raises:
        ProtocolError: it is malformed.
    """
    return _decode(pb.DriverMessage, _FROM_DRIVER, data)


def _encode(wire: Any, table: Mapping[str, Codec], message: Any) -> bytes:
    name = _NAMES[type(message)]
    try:
        body: bytes = wire(**{name: table[name].write(name, message)}).SerializeToString()
    except (ValueError, TypeError, LookupError) as error:
        raise ProtocolError(f"{name} cannot be written ({error}): {str(message)[:200]}") from None
    return body


def _decode(wire: Any, table: Mapping[str, Codec], data: bytes) -> Envelope[Any]:
    try:
        message = wire.FromString(data)
    except DecodeError:
        raise ProtocolError(f"{len(data)} bytes came that are no {wire.DESCRIPTOR.name}.") from None
    number, name = message.number, message.WhichOneof("body")
    if number >= COUNT or message.ack >= COUNT:
        fail("number, ack", f"{number}, {message.ack}: one is not below {COUNT}")
    if name is None:
        if number:
            fail("body", _NO_BODY)
        return Envelope(0, message.ack, None)
    if bool(number) is (name in _UNNUMBERED):
        fail("number", f"{name} came with number {number}")
    return Envelope(number, message.ack, table[name].read(name, getattr(message, name)))
