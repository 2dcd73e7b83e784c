from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format

from asyncsearch.rpc.pb import search_pb2 as pb
from tests.rpc.golden import EARLIER, EXAMPLES, FOLDER, decode, encode, read, wire_type

RECORDED = sorted(FOLDER.glob("*.textproto"))


@pytest.mark.parametrize("path", [path for path in RECORDED if path.stem not in EARLIER], ids=lambda path: path.stem)
def test_a_recorded_message_is_read_and_written_as_it_was(path: Path) -> None:
    data, text = read(path)
    number, ack, message = decode(path.stem, data)
    assert (number, ack, message) == EXAMPLES[path.stem]
    assert encode(path.stem, number, ack, message) == data
    assert text_format.Parse(text, wire_type(path.stem)()).SerializeToString(deterministic=True) == data


@pytest.mark.parametrize("name", EARLIER)
def test_a_message_with_obsolete_fields_is_read_without_them(name: str) -> None:
    data, _ = read(FOLDER / f"{name}.textproto")
    assert decode(name, data) == EARLIER[name]
    assert len(encode(name, *EARLIER[name])) < len(data)


def test_every_kind_of_message_is_recorded() -> None:
    recorded = {
        (path.stem.split("_")[0], wire_type(path.stem).FromString(read(path)[0]).WhichOneof("body"))
        for path in RECORDED
    }
    kinds = {
        (side, field.name)
        for side, message in (("worker", pb.WorkerMessage), ("driver", pb.DriverMessage))
        for field in message.DESCRIPTOR.oneofs_by_name["body"].fields
    }
    assert recorded == kinds | {("driver", None)}


def test_every_outcome_is_recorded() -> None:
    recorded = {
        pb.WorkerMessage.FromString(read(path)[0]).training_ended.outcome
        for path in RECORDED
        if "training" in path.stem and "worker" in path.stem
    }
    assert recorded == set(pb.Outcome.values()) - {pb.OUTCOME_UNSPECIFIED}
