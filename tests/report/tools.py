"""Studies to show: simulated, in memory or as a store on disk, with a lost worker and a trial that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch.engine.config import EngineConfig
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.journal.format import Record, SegmentReader
from asyncsearch.journal.opening import StudyFile, write_study_file
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.schedulers import ASHA
from asyncsearch.simulate import Faults, Loss
from asyncsearch.space import Space, choice, loguniform, randint, uniform
from asyncsearch.store import open_store
from asyncsearch.trial import TrialState
from tests.engine.tools import JournalLines, Recorded, make_state, record

SCHEDULER = ASHA(max_resource=9)
SPACE = Space.of(
    {
        "lr": loguniform(1e-4, 1e-1),
        "model": {"width": randint(16, 512), "kind": choice("small", "<b>large</b>")},
        "momentum": uniform(0.0, 1.0).when(**{"model.kind": "small"}),
    }
)
FAILING = TrialId(4)


def simulated(num_trials: int = 20, **options: Any) -> Recorded:
    options.setdefault("faults", Faults(losses=[Loss(WorkerId(1), 5.5, 2.0)], failures={FAILING: 1}))
    return record(make_state(SCHEDULER, space=SPACE), num_trials, workers=3, kind=JournalLines, **options)


def records_of(recorded: Recorded) -> list[Record]:
    return list(SegmentReader().read("000001.jsonl", recorded.lines))


def store_of(recorded: Recorded, folder: Path, lines: int | None = None) -> Path:
    """Write a simulated study where ``Study.open`` finds it; ``lines`` cuts its journal off."""
    store = open_store(folder)
    store.prepare()
    config: EngineConfig = recorded.state.config
    file = StudyFile(
        name=config.study,
        metric=config.metric,
        mode=config.mode,
        seed=config.seed,
        space=SPACE.describe(),
        searcher="RandomSearch()",
        scheduler=SCHEDULER.describe(),
        max_resource=SCHEDULER.max_resource,
    )
    write_study_file(store, file)
    segment = store.open_segment()
    segment.append(b"".join(recorded.lines[:lines]))
    segment.close()
    return folder


def make_status(**values: Any) -> StudyStatus:
    settings: dict[str, Any] = {"name": "digits", "metric": "accuracy", "mode": "max", "counts": {}} | values
    return StudyStatus(**settings)


def full_counts(**counts: int) -> dict[TrialState, int]:
    return {TrialState[name.upper()]: amount for name, amount in counts.items()}
