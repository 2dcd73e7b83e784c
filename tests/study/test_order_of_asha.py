"""ASHA on one worker is the paper's Algorithm 2, start by start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch import ASHA, Study, uniform
from asyncsearch.actions import stages_given
from asyncsearch.journal.opening import read_records

LEVELS = (0, 1, 3, 9, 27)
TRIALS = 27


def train(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.touch(), load=lambda path: None):
        trial.report(loss=trial.params["x"])


def starts_of(study: Study) -> list[tuple[int, int, int | None]]:
    """Return (trial, from, to) in the order in which work began."""
    actions = (action for record in read_records(study.store) for action in record.actions)
    stages = (stage for action in actions for stage in stages_given(action))
    return [(stage.trials[0], stage.start, stage.stop) for stage in stages]


def algorithm_2(losses: list[float]) -> list[tuple[int, int, int | None]]:
    """Return the starts that the paper's pseudocode makes, with one worker."""
    rungs: list[list[int]] = [[] for _ in LEVELS]
    promoted: list[set[int]] = [set() for _ in LEVELS]
    starts: list[tuple[int, int, int | None]] = []

    def start(trial: int, rung: int) -> None:
        starts.append((trial, LEVELS[rung - 1], LEVELS[rung]))
        rungs[rung].append(trial)

    def promote() -> bool:
        for rung in range(len(LEVELS) - 2, 0, -1):
            best = sorted(rungs[rung], key=losses.__getitem__)[: len(rungs[rung]) // 3]
            found = next((trial for trial in best if trial not in promoted[rung]), None)
            if found is not None:
                promoted[rung].add(found)
                start(found, rung + 1)
                return True
        return False

    for trial in range(TRIALS):
        start(trial, 1)
        while promote():
            pass
    return starts


def test_a_lone_worker_starts_trials_as_the_paper_does(tmp_path: Path) -> None:
    study = Study(
        train,
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        store=tmp_path / "s",
        scheduler=ASHA(max_resource=27, reduction_factor=3),
        backend="inline",
    )
    study.run(TRIALS, display="none")
    losses = [trial.params["x"] for trial in study.trials]
    assert starts_of(study) == algorithm_2(losses)
