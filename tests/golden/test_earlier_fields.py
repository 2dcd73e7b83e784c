"""Fields that no version writes any more are read over: in the records of a journal, and in manifests."""

from __future__ import annotations

import json
from typing import Any

from asyncsearch.actions import Assign
from asyncsearch.events import PackMeasured
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.journal.format import FORMAT, Header, SegmentReader, encode_header, encode_record
from asyncsearch.journal.sealing import seal, unseal
from asyncsearch.report.together_words import of_pack
from asyncsearch.store.manifest import Manifest, PackedWith, packed_with_in
from asyncsearch.work import Lane, Stage, Work

LEASE = Lease(4, WorkerId(1), 2)
NODE = NodeKey("00112233445566778899aabbccddeeff")
ASSIGN = Assign(Work(LEASE, (Lane((Stage(NODE, {}, (TrialId(0),), seed=0),)),) * 2))
COMPILED = {"lanes": 32, "eager_s": 0.001, "compiled_s": 0.0005, "cost_s": 12.5}


def record(number: int, event: PackMeasured, action: Assign) -> bytes:
    """Return a record with what versions that compiled the steps of packs wrote beyond."""
    body = unseal(encode_record(number, 1.5, event, [action]))
    assert body is not None
    written: dict[str, Any] = json.loads(body)
    written["event"]["compiled"] = COMPILED
    written["actions"][0]["work"]["units_to_come"] = 48
    return seal(json.dumps(written, separators=(",", ":")).encode())


def test_a_record_of_compiled_packs_is_read_without_them() -> None:
    told = PackMeasured(LEASE, in_turn="they differ")
    lines = [encode_header(Header(FORMAT, "test", 1)), record(1, told, ASSIGN), record(2, PackMeasured(LEASE), ASSIGN)]
    found = list(SegmentReader().read("1", lines))
    assert [(one.event, one.actions) for one in found] == [(told, (ASSIGN,)), (PackMeasured(LEASE), (ASSIGN,))]


def test_explain_ignores_a_record_that_only_a_compiled_step_wrote() -> None:
    assert of_pack(PackMeasured(LEASE)) == ""
    assert of_pack(PackMeasured(LEASE, in_turn="they differ")).startswith("some of its pack step in turn")


def test_a_manifest_of_a_compiled_pack_is_read_without_it() -> None:
    ref, packed = CheckpointRef(NODE, 3), PackedWith(2, "wide", 3)
    written = json.loads(Manifest([], []).encode(ref, packed))
    written["packed_with"]["is_compiled"] = True
    del written["checksum"]
    assert packed_with_in(json.dumps(written).encode()) == packed
