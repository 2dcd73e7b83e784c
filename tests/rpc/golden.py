"""Recorded messages in ``rpc/golden/``, kept for ever: one file a kind, its bytes as hexadecimal digits above its text.

``python -m tests.rpc.golden`` records the examples below that have no file yet, and changes none that has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format

from asyncsearch.actions import AddLane, Assign, CutWork, DismissWorker, ExtendWork, SaveAt, StopTraining
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
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.rpc.convert import decode_driver, decode_worker, encode_driver, encode_worker, frame
from asyncsearch.rpc.messages import (
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
)
from asyncsearch.rpc.pb import search_pb2 as pb
from asyncsearch.work import GangMember, Lane, Stage, Work

FOLDER = Path(__file__).parents[2] / "rpc" / "golden"

_LEASE = Lease(number=42, worker=WorkerId(3), epoch=2)
_NODE = NodeKey("00112233445566778899aabbccddeeff")
_CHECKPOINT = CheckpointRef(_NODE, 9)
_STAGE = Stage(
    node=_NODE,
    params={"width": 64, "lr": 0.001, "act": "relu", "layers": [32, 16], "net": {"bias": True, "init": None}},
    trials=(TrialId(7), TrialId(12)),
    seed=2**63 - 1,
    start=9,
    stop=27,
    max_resource=81,
    save=True,
    save_every=3,
)

EXAMPLES: dict[str, tuple[int, int, Any]] = {
    "worker_hello": (0, 5, Hello(WorkerId(3), 2, agent="5f1c", host="node-17", pid=4711, protocol=1)),
    "worker_heartbeat": (0, 5, Heartbeat()),
    "worker_reported": (
        300,
        5,
        Reported(_LEASE, 9, {"accuracy": 0.97, "loss": "NaN", "best": "Infinity", "worst": "-Infinity"}, lane=1),
    ),
    "worker_training_ended": (
        301,
        5,
        TrainingEnded(_LEASE, Outcome.FAILED, 9, 8, error="Traceback: naïve", error_kind="ValueError", lane=1),
    ),
    "worker_training_killed": (
        310,
        5,
        TrainingEnded(_LEASE, Outcome.FAILED, 9, 8, error="its process was killed by SIGKILL", error_kind="killed"),
    ),
    "worker_training_reached": (302, 5, TrainingEnded(_LEASE, Outcome.REACHED, 27, checkpoint_resource=27)),
    "worker_training_returned": (303, 5, TrainingEnded(_LEASE, Outcome.RETURNED, 81)),
    "worker_training_returned_beside": (
        316,
        5,
        TrainingEnded(_LEASE, Outcome.RETURNED, 3, unreported={"loss": 0.25, "accuracy": "NaN"}),
    ),
    "worker_training_stopped": (304, 5, TrainingEnded(_LEASE, Outcome.STOPPED, 0)),
    "worker_pack_measured": (
        311,
        5,
        PackMeasured(_LEASE, (PackSeconds(1, 0.5), PackSeconds(2, 0.625)), "x86_64 processor", "model.py, line 3"),
    ),
    "worker_volume_measured": (313, 5, VolumeMeasured(_LEASE, 938, 407_080, "x86_64 processor")),
    "worker_pack_memory": (
        312,
        5,
        PackMeasured(
            _LEASE,
            (PackSeconds(1, 0.5),),
            "x86_64 processor",
            memory=PackMemory(3 << 20, 1 << 20, 1 << 30, "its cgroup"),
        ),
    ),
    "worker_pack_in_turn": (315, 5, PackMeasured(_LEASE, sequential="Net.train_step (model.py, line 7) is its own")),
    "driver_assign_measured": (14, 307, Assign(Work(_LEASE, (Lane((_STAGE,)), Lane((_STAGE,))), measured=(1,)))),
    "worker_checkpoint_committed": (305, 5, CheckpointCommitted(_LEASE, _CHECKPOINT, size_bytes=123_456_789, lane=1)),
    "worker_checkpoint_failed": (306, 5, CheckpointFailed(_LEASE, _CHECKPOINT, error="disk full")),
    "worker_checkpoint_refused": (
        308,
        5,
        CheckpointFailed(_LEASE, _CHECKPOINT, error="disk full", lane=1, error_kind="store"),
    ),
    "worker_store_outage": (309, 5, StoreOutage("disk full")),
    "worker_log_lines": (
        307,
        5,
        LogLines(
            _LEASE,
            (LogLine(1_767_225_600.5, "epoch 9: 0.97"), LogLine(1_767_225_601.0, "warn: café", is_stderr=True)),
            left_out=1000,
            lane=1,
        ),
    ),
    "driver_welcome": (0, 299, Welcome(protocol=1)),
    "driver_acknowledgement": (0, 307, None),
    "driver_assign": (6, 307, Assign(Work(_LEASE, (Lane((_STAGE,), load=_CHECKPOINT),)))),
    "driver_assign_plain": (7, 307, Assign(Work(_LEASE, (Lane((Stage(_NODE, {}, (TrialId(0),), seed=0),)),)))),
    "driver_assign_open": (15, 307, Assign(Work(_LEASE, (Lane((_STAGE,)),), is_open=True))),
    "driver_add_lane": (16, 307, AddLane(_LEASE, 70_000, Lane((_STAGE,), load=_CHECKPOINT))),
    "driver_stop_training": (8, 307, StopTraining(_LEASE, reason="stopped at 9: rank 7 of 20, 5 go on", lane=1)),
    "driver_save_at": (11, 307, SaveAt(_LEASE, _NODE, 15, lane=1)),
    "driver_cut_work": (12, 307, CutWork(_LEASE, 18, lane=1)),
    "driver_extend_work": (19, 307, ExtendWork(_LEASE, (_STAGE,), save=True, lane=1)),
    "driver_judged": (20, 307, Judged(_LEASE, 9, lane=1, next=27)),
    "driver_assign_judged": (21, 307, Assign(Work(_LEASE, (Lane((_STAGE,), judged=9),)))),
    "worker_reported_awaited": (316, 5, Reported(_LEASE, 9, {"loss": 0.5}, lane=1, is_awaited=True)),
    "worker_reported_spent": (
        317,
        5,
        Reported(_LEASE, 9, {"loss": 0.5}, lane=1, spent=Spent(300, 1500, 0, 8_100_000, 40, 12, 900)),
    ),
    "worker_training_ended_spent": (
        318,
        5,
        TrainingEnded(_LEASE, Outcome.RETURNED, 81, spent=Spent(training=81_000, verdict=7)),
    ),
    "driver_dismiss": (9, 307, DismissWorker(WorkerId(3), 2, reason="the study is complete")),
    "driver_dismiss_unheard": (13, 307, DismissWorker(WorkerId(3), 2, reason="no space left", is_unheard=True)),
    "driver_store_tokens": (14, 307, StoreTokens(b"HDTS\0\0\0")),
    "worker_gang_note": (312, 5, GangNote(_LEASE, 1, "torch store", "10.0.0.7 40123")),
    "worker_question": (319, 5, TrialQuestion(_LEASE, 12, b'["suggest","lr"]', lane=1, has_more=True)),
    "worker_question_told": (320, 5, TrialQuestion(_LEASE, 13, b'["report",3,0.5]', is_awaited=False)),
    "driver_answer": (22, 307, TrialAnswer(_LEASE, 12, b'["ok",0.003]', lane=1)),
    "worker_rank_failed": (313, 5, RankFailed(_LEASE, "Traceback: naïve", "ValueError")),
    "worker_rank_stopped": (321, 5, RankFailed(_LEASE, "the loss is not finite", "", has_stopped=True)),
    "driver_gang_note": (17, 307, GangNote(_LEASE, 0, "decision 3", '{"stop":null,"amendments":[]}')),
    "driver_assign_gang": (
        18,
        307,
        Assign(Work(_LEASE, (Lane((_STAGE,)),), gang=(GangMember(WorkerId(3), 2), GangMember(WorkerId(7), 1)))),
    ),
    "driver_refused": (10, 307, Refused(_LEASE, reason="work-42 is held by worker-4")),
}

EARLIER: dict[str, tuple[int, int, Any]] = {
    "worker_pack_compiled": (314, 5, PackMeasured(_LEASE)),
    "driver_assign_compiled": (15, 307, Assign(Work(_LEASE, (Lane((_STAGE,)), Lane((_STAGE,)))))),
}
"""Messages with fields that no version writes any more, as they are read without them."""


def wire_type(name: str) -> Any:
    return pb.WorkerMessage if name.startswith("worker_") else pb.DriverMessage


def decode(name: str, data: bytes) -> Any:
    return decode_worker(data) if name.startswith("worker_") else decode_driver(data)


def encode(name: str, number: int, ack: int, message: Any) -> bytes:
    if message is None:
        return frame(number, ack)
    return frame(number, ack, encode_worker(message) if name.startswith("worker_") else encode_driver(message))


def read(path: Path) -> tuple[bytes, str]:
    """Return the bytes and the text of a recorded message."""
    first, text = path.read_text(encoding="utf-8").split("\n", 1)
    return bytes.fromhex(first.removeprefix("# wire: ")), text


def record() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (number, ack, message) in EXAMPLES.items():
        path = FOLDER / f"{name}.textproto"
        if not path.exists():
            data = encode(name, number, ack, message)
            text = text_format.MessageToString(wire_type(name).FromString(data), as_utf8=True)
            path.write_text(f"# wire: {data.hex()}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    record()
