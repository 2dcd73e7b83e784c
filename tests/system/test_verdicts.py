"""A trial waits for what is decided of it: no unit is trained beyond a stop, and a promoted trial goes on in place."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, PBT, Checkpoints, MedianStopping, Study, TrialContext, uniform
from asyncsearch.actions import AnyAction, Branch, ExtendWork, Promote, lanes_given
from asyncsearch.events import Reported
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.trial import TrialState

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


@pytest.mark.parametrize("backend", ["inline", "processes"])
@pytest.mark.parametrize(
    "scheduler",
    [ASHA(max_resource=9, variant="stopping"), MedianStopping(max_resource=9, min_trials=2)],
    ids=["asha", "median"],
)
def test_no_unit_is_begun_after_a_stop(tmp_path: Path, scheduler: Scheduler, backend: str) -> None:
    study = search(tmp_path, scheduler, backend, 16, workers=1 if backend == "inline" else 2)
    assert any(trial.state is TrialState.STOPPED for trial in study.trials)
    begun = Counter(line.split()[0] for line in (tmp_path / "units").read_text().splitlines())
    assert begun == {trial.name: trial.resource for trial in study.trials}
    require_sums(study)


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


@pytest.mark.parametrize("at_rungs", [False, True])
@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_one_worker_promotes_as_algorithm_2_step_by_step(tmp_path: Path, backend: str, at_rungs: bool) -> None:
    for seed in range(3):
        options: dict[str, Any] = {"seed": seed, "checkpoints": Checkpoints(at_rungs=at_rungs)}
        study = search(tmp_path / str(seed), ASHA(max_resource=9), backend, 27, **options)
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


def test_a_promotion_in_place_enters_no_function_and_saves_nothing(tmp_path: Path) -> None:
    study = search(tmp_path, ASHA(max_resource=9), "processes", 27, workers=2)
    actions = decided(study)
    in_place = [action for action in actions if isinstance(action, ExtendWork) and action.stages]
    promotions = [action for action in actions if isinstance(action, Promote)]
    entries = (tmp_path / "entries").read_text().splitlines()
    assert 0 < len(in_place) <= len(promotions)
    assert len(entries) <= 27 + len(promotions) - len(in_place) + 2, "one that heard of it late enters again"
    assert sum(trial.resource for trial in study.trials) == len((tmp_path / "units").read_text().splitlines())


@pytest.mark.parametrize("at_rungs", [False, True])
def test_a_process_killed_after_a_promotion_in_place_costs_no_result(tmp_path: Path, at_rungs: bool) -> None:
    options: dict[str, Any] = {"checkpoints": Checkpoints(at_rungs=at_rungs)}
    study = search(tmp_path / "killed", ASHA(max_resource=9), "processes", 9, workers=1, dies_at=5, **options)
    calm = search(tmp_path / "calm", ASHA(max_resource=9), "processes", 9, workers=1, **options)
    assert sum(trial.losses for trial in study.trials) == 1
    require_sums(study)
    ends = [[(t.id, t.resource, t.value, t.state) for t in one.trials] for one in (study, calm)]
    assert ends[0] == ends[1]
    promotions = [[a for a in decided(one) if isinstance(a, Promote)] for one in (study, calm)]
    assert promotions[0] == promotions[1], "each was decided once"


def test_members_of_a_population_enter_again_only_where_they_must(tmp_path: Path) -> None:
    study = search(tmp_path, PBT(max_resource=12, perturbation_interval=3), "processes", 4, workers=4)
    actions = decided(study)
    in_place = [action for action in actions if isinstance(action, ExtendWork) and action.stages]
    again = [action for action in actions if isinstance(action, Promote | Branch)]
    entries = (tmp_path / "entries").read_text().splitlines()
    assert in_place
    assert len(entries) <= 4 + len(again) - len(in_place) + 2, "one that heard of it late enters again"
    units = (tmp_path / "units").read_text().splitlines()
    assert len(units) == sum(trial.trained for trial in study.trials)


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_trial_that_cannot_be_promoted_saves_nothing_and_may_go_on_later(tmp_path: Path, backend: str) -> None:
    study = search(tmp_path, ASHA(max_resource=9), backend, 12)
    unsaved = [trial.id for trial in study.trials if trial.state is TrialState.PAUSED and trial.checkpoint is None]
    assert unsaved
    assert all("without a checkpoint" in study.trials[number].reason for number in unsaved)
    study.run(60, parallelism=1, display="none")
    assert any(study.trials[number].resource > 1 for number in unsaved), "more trials, more promotions"
    require_sums(study)


def test_a_trial_saves_at_each_rung_where_that_is_asked_for(tmp_path: Path) -> None:
    study = search(tmp_path, ASHA(max_resource=9), "inline", 12, checkpoints=Checkpoints(at_rungs=True))
    assert all(trial.checkpoint for trial in study.trials if trial.state is TrialState.PAUSED)
