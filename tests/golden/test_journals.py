"""Journals of every released version are read for ever, and lead to what they led to then.

``python -m tests.golden.test_journals`` records those that the present version lacks; a file that was released is never
changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asyncsearch._version import __version__
from asyncsearch.actions import Assign
from asyncsearch.engine.state import StudyState
from asyncsearch.events import PackMeasured
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.journal.format import FORMAT, Header, SegmentReader, encode_header, encode_record
from asyncsearch.journal.head import seal, unseal
from asyncsearch.report.together_words import of_pack
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Delays, Faults, Loss
from asyncsearch.store.manifest import Manifest, PackedWith, packed_with_in
from asyncsearch.work import Lane, Stage, Work
from tests.engine.tools import make_state, record, replayed

FOLDER = Path(__file__).parent / "journals"
SCHEDULERS: dict[str, Scheduler] = {
    "asha": ASHA(max_resource=9),
    "stopping": ASHA(max_resource=9, variant="stopping"),
    "sha": SHA(max_resource=9),
    "fifo": FIFO(max_resource=3),
    "median": MedianStopping(max_resource=9, min_trials=2),
    "hyperband": Hyperband(max_resource=9, variant="synchronous"),
    "pbt": PBT(max_resource=9, perturbation_interval=2, population=6),
}


def summary(state: StudyState) -> list[dict[str, Any]]:
    return [
        {
            "id": t.id,
            "params": t.params,
            "state": t.state.value,
            "resource": t.resource,
            "value": t.value,
            "failures": t.failures,
            "losses": t.losses,
            "checkpoint": str(t.checkpoint) if t.checkpoint else None,
        }
        for t in state.trials
    ]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_released_journal_leads_to_what_it_led_to_then(path: Path) -> None:
    name = path.stem.rpartition("-")[2]
    state = replayed(make_state(SCHEDULERS[name], max_failures=1), path.read_bytes().splitlines(keepends=True))
    assert summary(state) == json.loads(path.with_suffix(".json").read_text())


def test_every_scheduler_has_a_golden_journal_of_this_version() -> None:
    assert {path.stem for path in FOLDER.glob(f"{__version__}-*.jsonl")} == {f"{__version__}-{n}" for n in SCHEDULERS}


def test_golden_journals_hold_every_kind_of_record_of_errorless_drivers() -> None:
    kinds = set()
    for path in FOLDER.glob("*.jsonl"):
        for entry in SegmentReader().read(path.name, path.read_bytes().splitlines(keepends=True)):
            kinds |= {type(entry.event).__name__, *(type(action).__name__ for action in entry.actions)}
    events = {"DriverStarted", "RunRequested", "WorkerAttached", "WorkerLost", "Reported", "TrainingEnded"}
    decisions = {
        "CreateTrial",
        "Branch",
        "Promote",
        "MoveTrial",
        "Assign",
        "StopTraining",
        "LaunchWorker",
        "DismissWorker",
    }
    assert kinds >= events | decisions | {"CheckpointCommitted", "DeleteCheckpoint", "EndRun"}


def write() -> None:
    for name, scheduler in SCHEDULERS.items():
        path = FOLDER / f"{__version__}-{name}.jsonl"
        if path.exists():
            continue
        losses = [Loss(WorkerId(1), 6.0, 3.0)]
        recorded = record(
            make_state(scheduler, max_failures=1), 12, 3,
            faults=Faults(losses=losses, failures={TrialId(2): 1}), delays=Delays(commit_s=0.2, message_s=0.05),
        )  # fmt: skip
        path.write_bytes(b"".join(recorded.lines))
        path.with_suffix(".json").write_text(json.dumps(summary(recorded.state), indent=1) + "\n")


if __name__ == "__main__":
    write()


LEASE = Lease(4, WorkerId(1), 2)
NODE = NodeKey("00112233445566778899aabbccddeeff")
ASSIGN = Assign(Work(LEASE, (Lane((Stage(NODE, {}, (TrialId(0),), seed=0),)),) * 2))
COMPILED = {"lanes": 32, "eager_s": 0.001, "compiled_s": 0.0005, "cost_s": 12.5}


def earlier_record(number: int, event: PackMeasured, action: Assign) -> bytes:
    """Return a record with what versions that compiled the steps of packs wrote beyond."""
    body = unseal(encode_record(number, 1.5, event, [action]))
    assert body is not None
    written: dict[str, Any] = json.loads(body)
    written["event"]["compiled"] = COMPILED
    written["actions"][0]["work"]["units_to_come"] = 48
    return seal(json.dumps(written, separators=(",", ":")).encode())


def test_a_record_of_compiled_packs_is_read_without_them() -> None:
    told = PackMeasured(LEASE, sequential="they differ")
    lines = [
        encode_header(Header(FORMAT, "test", 1)),
        earlier_record(1, told, ASSIGN),
        earlier_record(2, PackMeasured(LEASE), ASSIGN),
    ]
    found = list(SegmentReader().read("1", lines))
    assert [(one.event, one.actions) for one in found] == [(told, (ASSIGN,)), (PackMeasured(LEASE), (ASSIGN,))]


def test_explain_ignores_a_record_that_only_a_compiled_step_wrote() -> None:
    assert of_pack(PackMeasured(LEASE)) == ""
    assert of_pack(PackMeasured(LEASE, sequential="they differ")).startswith("some of its pack are sequential")


def test_a_manifest_of_a_compiled_pack_is_read_without_it() -> None:
    ref, packed = CheckpointRef(NODE, 3), PackedWith(2, "wide", 3)
    written = json.loads(Manifest([], []).encode(ref, packed))
    written["packed_with"]["is_compiled"] = True
    del written["checksum"]
    assert packed_with_in(json.dumps(written).encode()) == packed
