from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.actions import Assign
from asyncsearch.errors import ProtocolError
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.ids import Lease, NodeKey, TrialId, WorkerId
from asyncsearch.rpc.convert import decode_driver, decode_worker, encode_driver, encode_worker, frame
from asyncsearch.rpc.fields import LATEST_S, LINE_CHARS, TEXT_CHARS
from asyncsearch.rpc.messages import DriverMessage, Heartbeat, Hello, LogLine, LogLines, Welcome, WorkerMessage
from asyncsearch.rpc.pb import search_pb2 as pb
from asyncsearch.work import Lane, Stage, Work
from tests.rpc.strategies import DRIVER_MESSAGES, WORKER_MESSAGES
from tests.rpc.tools import LEASE

NUMBERS = st.integers(1, 2**53 - 1)
NODE = NodeKey("0123456789abcdef" * 2)


@given(WORKER_MESSAGES, NUMBERS, NUMBERS)
def test_a_workers_message_comes_back_as_it_was(message: WorkerMessage, number: int, ack: int) -> None:
    number = 0 if isinstance(message, Hello | Heartbeat) else number
    assert decode_worker(frame(number, ack, encode_worker(message))) == (number, ack, message)


@given(DRIVER_MESSAGES, NUMBERS, NUMBERS)
def test_a_drivers_message_comes_back_as_it_was(message: DriverMessage, number: int, ack: int) -> None:
    assert decode_driver(frame(number, ack, encode_driver(message))) == (number, ack, message)


def test_a_frame_and_a_body_are_what_protobuf_itself_would_write() -> None:
    message = pb.WorkerMessage(number=300, ack=5, heartbeat=pb.Heartbeat())
    assert frame(300, 5, encode_worker(Heartbeat())) == message.SerializeToString()


def test_a_bare_acknowledgement_has_no_message() -> None:
    assert decode_driver(frame(0, 9)) == (0, 9, None)


def test_a_welcome_comes_back() -> None:
    assert decode_driver(frame(0, 9, encode_driver(Welcome(protocol=1)))).message == Welcome(protocol=1)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    decoders: list[Callable[[bytes], Any]] = [decode_worker, decode_driver]
    for decode in decoders:
        try:
            decode(data)
        except ProtocolError:
            pass


def test_metrics_travel_as_doubles_and_arrive_spelled() -> None:
    sent = Reported(LEASE, 1, {"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 0.1})
    body = encode_worker(sent)
    values = {metric.name: metric.value for metric in pb.WorkerMessage.FromString(body).reported.metrics}
    assert math.isnan(values["a"])
    assert (values["b"], values["c"], values["d"]) == (math.inf, -math.inf, 0.1)
    assert decode_worker(frame(1, 0, body)).message == sent


def test_text_that_has_no_encoding_arrives_escaped() -> None:
    lines = LogLines(LEASE, (LogLine(1.0, b"caf\xe9".decode("utf-8", "surrogateescape")),))
    received = decode_worker(frame(1, 0, encode_worker(lines))).message
    assert isinstance(received, LogLines)
    assert received.lines[0].text == "caf\\udce9"


def test_what_a_worker_cannot_help_is_made_to_fit() -> None:
    line = LogLine(1e18, "one\ntwo", is_stderr=True)
    received = decode_worker(frame(1, 0, encode_worker(LogLines(LEASE, (line, LogLine(-1.0, "x" * 20_000)))))).message
    assert isinstance(received, LogLines)
    assert received.lines[0].text == "one two"
    assert received.lines[0].time_s < LATEST_S
    assert received.lines[1] == LogLine(0.0, "x" * LINE_CHARS)
    ended = TrainingEnded(LEASE, Outcome.FAILED, 1, error="x" * TEXT_CHARS + "last", error_kind="\x1b[31m")
    heard = decode_worker(frame(1, 0, encode_worker(ended))).message
    assert isinstance(heard, TrainingEnded)
    assert heard.error.endswith("xlast")
    assert heard.error_kind == "\\x1b[31m"


def proto_lease(**changes: int) -> pb.Lease:
    return pb.Lease(**{"number": 7, "worker": 3, "epoch": 1, **changes})


def proto_stage(**changes: Any) -> pb.Stage:
    return pb.Stage(**{"node": NODE, "params_json": "{}", "trials": [1], **changes})


def assign(*stages: pb.Stage) -> pb.Assign:
    return pb.Assign(lease=proto_lease(), lanes=[pb.Lane(stages=stages)])


def log_line(**fields: Any) -> pb.WorkerMessage:
    return pb.WorkerMessage(number=1, log_lines=pb.LogLines(lease=proto_lease(), lines=[pb.LogLine(**fields)]))


CHECKPOINT = pb.Checkpoint(node=NODE, resource=1)
METRIC = pb.Metric(name="loss", value=1)

MALFORMED_FROM_WORKERS = {
    "body: is missing": pb.WorkerMessage(number=1),
    "number: hello": pb.WorkerMessage(number=1, hello=pb.Hello(epoch=1, agent="a")),
    "number: heartbeat": pb.WorkerMessage(number=1, heartbeat=pb.Heartbeat()),
    "number: reported": pb.WorkerMessage(reported=pb.Reported(lease=proto_lease(), resource=1)),
    "lease: is missing": pb.WorkerMessage(number=1, reported=pb.Reported(resource=1)),
    "lease.epoch": pb.WorkerMessage(number=1, reported=pb.Reported(lease=proto_lease(epoch=0), resource=1)),
    "lease.number": pb.WorkerMessage(number=1, reported=pb.Reported(lease=proto_lease(number=2**60), resource=1)),
    "lease.worker": pb.WorkerMessage(number=1, reported=pb.Reported(lease=proto_lease(worker=2**31), resource=1)),
    "resource: 0": pb.WorkerMessage(number=1, reported=pb.Reported(lease=proto_lease())),
    "resource: 18446744073709551615": pb.WorkerMessage(
        number=1, reported=pb.Reported(lease=proto_lease(), resource=2**64 - 1)
    ),
    "lane: 2147483648": pb.WorkerMessage(number=1, reported=pb.Reported(lease=proto_lease(), resource=1, lane=2**31)),
    "metrics: the name ''": pb.WorkerMessage(
        number=1, reported=pb.Reported(lease=proto_lease(), resource=1, metrics=[pb.Metric(value=1)])
    ),
    "metrics: the name 'loss'": pb.WorkerMessage(
        number=1, reported=pb.Reported(lease=proto_lease(), resource=1, metrics=[METRIC, METRIC])
    ),
    "outcome: 0": pb.WorkerMessage(number=1, training_ended=pb.TrainingEnded(lease=proto_lease())),
    "checkpoint: is missing": pb.WorkerMessage(
        number=1, checkpoint_committed=pb.CheckpointCommitted(lease=proto_lease())
    ),
    "checkpoint.node: '../../etc/passwd'": pb.WorkerMessage(
        number=1,
        checkpoint_failed=pb.CheckpointFailed(lease=proto_lease(), checkpoint=pb.Checkpoint(node="../../etc/passwd")),
    ),
    "size_bytes": pb.WorkerMessage(
        number=1,
        checkpoint_committed=pb.CheckpointCommitted(lease=proto_lease(), checkpoint=CHECKPOINT, size_bytes=2**53),
    ),
    "lines.time_s: nan": log_line(time_s=math.nan),
    "lines.time_s: inf": log_line(time_s=math.inf),
    "lines.time_s: 1e+18": log_line(time_s=1e18),
    "lines.time_s: -1.0": log_line(time_s=-1.0),
    "lines.text: is more than one line": log_line(text="one\n1795244400.250 O two"),
    "lines.text: is more than one": log_line(text="one\rtwo"),
    "lines.text: 10001 characters": log_line(text="x" * 10_001),
    "lines: 10001 are more": pb.WorkerMessage(
        number=1, log_lines=pb.LogLines(lease=proto_lease(), lines=[pb.LogLine()] * 10_001)
    ),
    "left_out": pb.WorkerMessage(number=1, log_lines=pb.LogLines(lease=proto_lease(), left_out=2**53)),
    "number, ack: 9007199254740992": pb.WorkerMessage(
        number=2**53, reported=pb.Reported(lease=proto_lease(), resource=1)
    ),
    "number, ack: 1, 9007199254740992": pb.WorkerMessage(
        number=1, ack=2**53, reported=pb.Reported(lease=proto_lease(), resource=1)
    ),
    "checkpoint_resource": pb.WorkerMessage(
        number=1,
        training_ended=pb.TrainingEnded(lease=proto_lease(), outcome=1, checkpoint_resource=2**53),  # type: ignore[arg-type]
    ),
    "error: 262145 characters": pb.WorkerMessage(
        number=1,
        training_ended=pb.TrainingEnded(lease=proto_lease(), outcome=1, error="x" * (2**18 + 1)),  # type: ignore[arg-type]
    ),
    "error_kind: '\\x1b": pb.WorkerMessage(
        number=1,
        training_ended=pb.TrainingEnded(lease=proto_lease(), outcome=1, error_kind="\x1b[31m"),  # type: ignore[arg-type]
    ),
    "agent: 'a\\nb'": pb.WorkerMessage(hello=pb.Hello(epoch=1, agent="a\nb")),
    "host: 'x": pb.WorkerMessage(hello=pb.Hello(epoch=1, agent="a", host="x" * 1_001)),
    "agent: is empty": pb.WorkerMessage(hello=pb.Hello(epoch=1)),
    "epoch: 0": pb.WorkerMessage(hello=pb.Hello(agent="a")),
}


@pytest.mark.parametrize("words", MALFORMED_FROM_WORKERS)
def test_a_workers_malformed_message_is_refused_by_its_fields_name(words: str) -> None:
    with pytest.raises(ProtocolError) as error:
        decode_worker(MALFORMED_FROM_WORKERS[words].SerializeToString())
    assert str(error.value).startswith(words)


MALFORMED_FROM_DRIVER = {
    "body: is missing": pb.DriverMessage(number=4),
    "number: welcome": pb.DriverMessage(number=4, welcome=pb.Welcome()),
    "number: assign": pb.DriverMessage(assign=assign(proto_stage())),
    "lanes: is empty": pb.DriverMessage(number=1, assign=pb.Assign(lease=proto_lease())),
    "lanes.stages: is empty": pb.DriverMessage(number=1, assign=assign()),
    "lanes.stages.trials: is empty": pb.DriverMessage(number=1, assign=assign(proto_stage(trials=[]))),
    "lanes.stages.node": pb.DriverMessage(number=1, assign=assign(proto_stage(node="ABC"))),
    "lanes.stages.seed": pb.DriverMessage(number=1, assign=assign(proto_stage(seed=2**63))),
    "lanes.stages.stop": pb.DriverMessage(number=1, assign=assign(proto_stage(stop=2**53))),
    "lanes.stages.params_json: is not JSON (E": pb.DriverMessage(number=1, assign=assign(proto_stage(params_json="{"))),
    "lanes.stages.params_json: is not JSON (N": pb.DriverMessage(
        number=1, assign=assign(proto_stage(params_json='{"a": NaN}'))
    ),
    "lanes.stages.params_json: is not a JSON object": pb.DriverMessage(
        number=1, assign=assign(proto_stage(params_json="[]"))
    ),
    "lanes.stages.params_json: is not JSON (m": pb.DriverMessage(
        number=1, assign=assign(proto_stage(params_json="[" * 10**5))
    ),
    "lease: is missing": pb.DriverMessage(number=1, stop_training=pb.StopTraining()),
    "epoch: 0": pb.DriverMessage(number=1, dismiss=pb.Dismiss()),
}


@pytest.mark.parametrize("words", MALFORMED_FROM_DRIVER)
def test_a_drivers_malformed_message_is_refused_by_its_fields_name(words: str) -> None:
    with pytest.raises(ProtocolError) as error:
        decode_driver(MALFORMED_FROM_DRIVER[words].SerializeToString())
    assert str(error.value).startswith(words)


def stage(params: dict[str, Any]) -> Assign:
    return Assign(Work(LEASE, (Lane((Stage(NODE, params, (TrialId(1),), seed=0),)),)))


UNWRITABLE: dict[str, WorkerMessage | DriverMessage] = {
    "lane: -1": Reported(LEASE, 1, {}, lane=-1),
    "lease.worker: -3": Reported(Lease(1, WorkerId(-3), 1), 1, {}),
    "metrics: the name '' is empty": Reported(LEASE, 1, {"": 1.0}),
    "metrics: the name 'xxxx": Reported(LEASE, 1, {"x" * 1_001: 1.0}),
    "metrics: 10001 are more than 10000": Reported(LEASE, 1, {str(number): 1.0 for number in range(10_001)}),
    "reported cannot be written": Reported(LEASE, 1, {"loss": None}),  # type: ignore[dict-item]
    "training_ended cannot be written": TrainingEnded(LEASE, "REACHED", 1),  # type: ignore[arg-type]
    "lanes.stages.params_json: {'a': nan}": stage({"a": math.nan}),
    "lanes.stages.params_json: {'a': {1": stage({"a": {1, 2}}),
}


@pytest.mark.parametrize("words", UNWRITABLE)
def test_what_could_not_be_read_is_not_written(words: str) -> None:
    message = UNWRITABLE[words]
    with pytest.raises(ProtocolError) as error:
        encode_driver(message) if isinstance(message, Assign) else encode_worker(message)  # type: ignore[arg-type]
    assert str(error.value).startswith(words)
