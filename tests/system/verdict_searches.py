"""Searches whose trials note what they do, and the order in which the paper's Algorithm 2 trains them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from asyncsearch import ASHA, Checkpoints, Study, TrialContext, uniform
from asyncsearch.actions import AnyAction, lanes_given
from asyncsearch.events import Reported
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers.base_scheduler import Scheduler

LEVELS, ETA = (1, 3, 9), 3


def curve(x: float, unit: int) -> float:
    return float((x - 0.3) ** 2 + random.Random(f"{x}/{unit}").random() / unit)


def make_trainable(folder: Path, dies_at: int = 0) -> Callable[[TrialContext], None]:
    """Return a function whose value depends on all of its units; it notes each entry and unit, and may die once."""
    entries, units, died = str(folder / "entries"), str(folder / "units"), str(folder / "died")

    def train(trial: TrialContext) -> None:
        state = {"sum": 0.0}
        with open(entries, "a") as file:
            file.write(f"{trial.name}\n")

        def save(path: Path) -> None:
            path.write_text(repr(state["sum"]))

        def load(path: Path) -> None:
            state["sum"] = float(path.read_text())

        for unit in trial.epochs(save=save, load=load):
            with open(units, "a") as file:
                file.write(f"{trial.name} {unit}\n")
            if unit == dies_at and not os.path.exists(died):
                open(died, "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
            state["sum"] += curve(trial.params["x"], unit)
            trial.report(loss=curve(trial.params["x"], unit), sum=state["sum"])

    return train


def search(
    folder: Path, scheduler: Scheduler, backend: str, trials: int, workers: int = 1, *, dies_at: int = 0, **options: Any
) -> Study:
    folder.mkdir(exist_ok=True)
    study = Study(
        make_trainable(folder, dies_at),
        space={"x": uniform(0.0, 1.0)},
        metric="loss",
        mode="min",
        scheduler=scheduler,
        store=folder / "study",
        backend=backend,
        **options,
    )
    return study.run(trials, parallelism=workers, display="none")


def decided(study: Study) -> list[AnyAction]:
    return [action for record in read_records(study.store) for action in record.actions]


def require_sums(study: Study) -> None:
    """Each trial has the value that its units give one after another."""
    for trial in study.trials:
        total = 0.0
        for unit in range(1, trial.resource + 1):
            total += curve(trial.params["x"], unit)
        assert trial.metrics["sum"] == total


def algorithm_2(values: list[float]) -> list[tuple[int, int]]:
    """Return the rungs that trials reach in the order in which one worker reaches them, by the paper's Algorithm 2."""
    reached: list[dict[int, float]] = [{} for _ in LEVELS]
    gone: list[set[int]] = [set() for _ in LEVELS]
    order: list[tuple[int, int]] = []
    begun = 0
    while True:
        due = [(below, trial) for below in (1, 0) for trial in promotable(reached[below]) if trial not in gone[below]]
        if not due and begun == len(values):
            return order
        below, trial = due[0] if due else (-1, begun)
        if due:
            gone[below].add(trial)
        else:
            begun += 1
        reached[below + 1][trial] = curve(values[trial], LEVELS[below + 1])
        order.append((trial, LEVELS[below + 1]))


def promotable(rung: dict[int, float]) -> list[int]:
    return sorted(rung, key=lambda trial: (rung[trial], trial))[: len(rung) // ETA]


def require_algorithm_2(folder: Path, backend: str, seeds: Iterable[int], *, at_rungs: bool = False) -> None:
    """Require that one worker trains the rungs of each search in the order of the paper."""
    for seed in seeds:
        options: dict[str, Any] = {"seed": seed, "checkpoints": Checkpoints(at_rungs=at_rungs)}
        study = search(folder / str(seed), ASHA(max_resource=9), backend, 27, **options)
        values = [trial.params["x"] for trial in study.trials]
        names = {trial.params["x"]: trial.id for trial in study.trials}
        seen = []
        by_lease: dict[int, float] = {}
        for record in read_records(study.store):
            for given in [given for action in record.actions for given in lanes_given(action)]:
                by_lease[given.attempt] = given.lane.stages[0].params["x"]
            if isinstance(record.event, Reported) and record.event.resource in LEVELS:
                seen.append((names[by_lease[record.event.lease.number]], record.event.resource))
        assert seen == algorithm_2(values)
        require_sums(study)
