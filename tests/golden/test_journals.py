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
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.journal.format import SegmentReader
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Delays, Faults, Loss
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
