"""Schedulers and searchers that somebody is writing: what cannot be is refused before a study begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch import ASHA, RandomSearch, Study, uniform
from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.schedulers import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.simulate import Curves, simulate
from asyncsearch.space import Space


class Answers(SchedulerState):
    def __init__(self, target: Any) -> None:
        self.target = target

    def first_target(self, trial: int) -> Any:
        return self.target

    def judge(self, trial: int, resource: int) -> str | None:
        return None

    def next_promotion(self) -> Promotion | None:
        return None

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        pass


class MyScheduler(Scheduler):
    pauses = True
    max_resource = 9

    def __init__(self, target: Any = 3, words: Any = "MyScheduler()", state: Any = True) -> None:
        self.target, self.words, self.state = target, words, state

    def begin(self, space: Space | None = None, seed: int = 0) -> Any:
        return Answers(self.target) if self.state else None

    def describe(self) -> Any:
        return self.words

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return [RungForecast(0, 9, num_trials)]


class Proposes(SearcherState):
    def __init__(self, params: Any) -> None:
        self.params = params

    def propose(self, number: int) -> Any:
        return self.params


class MySearcher(Searcher):
    def __init__(self, params: Any, begin: Callable[[Any], Any] = Proposes) -> None:
        self.params, self.make = params, begin

    def begin(self, space: Space, seed: int) -> Any:
        return self.make(self.params)

    def describe(self) -> str:
        return "MySearcher()"


def train(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"])


def study(store: Path, **options: Any) -> Study:
    settings: dict[str, Any] = {"space": {"x": uniform(0.0, 1.0)}, "scheduler": ASHA(max_resource=9)} | options
    return Study(train, metric="loss", mode="min", store=store, backend="inline", **settings)


@pytest.mark.parametrize("target", [1, 9, None])
def test_what_can_be_passes(tmp_path: Path, target: int | None) -> None:
    study(tmp_path / "s", scheduler=MyScheduler(target), searcher=MySearcher({"x": 0.5}))
    study(tmp_path / "s", searcher=MySearcher(None))


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        (MyScheduler(0), r"MyScheduler: first_target\(\) returned 0: .* an integer from 1 to max_resource=9, or None"),
        (MyScheduler(10), "returned 10"),
        (MyScheduler(2.5), "returned 2.5"),
        (MyScheduler(True), "returned True"),
        (MyScheduler(words=None), r"MyScheduler.describe\(\) returned None: it must return a line of text"),
        (MyScheduler(state=False), r"MyScheduler.begin\(\) returned None: it must return an object derived from Sched"),
    ],
)
def test_a_scheduler_that_answers_what_cannot_be_is_refused(tmp_path: Path, scheduler: Scheduler, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        simulate(Curves(), scheduler=scheduler, num_trials=3)
    with pytest.raises(UsageError, match=words):
        study(tmp_path / "s", scheduler=scheduler)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("searcher", "error", "words"),
    [
        (MySearcher({"x": 3}), SpaceError, "MySearcher proposed what the space does not have. x: 3 is outside"),
        (MySearcher({"y": 3}), SpaceError, "the space has no parameter 'y'"),
        (MySearcher({}), SpaceError, "x: it is missing"),
        (MySearcher([0.5]), UsageError, r"MySearcher proposed \[0.5\]: propose\(\) must return a dict of params"),
        (MySearcher({"x": np.float64(0.5)}), UsageError, r"Write plain values of Python, e.g. float\(x\)"),
        (MySearcher({}, lambda params: None), UsageError, r"MySearcher.begin\(\) returned None"),
    ],
)
def test_a_searcher_that_answers_what_cannot_be_is_refused(
    tmp_path: Path, searcher: Searcher, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        study(tmp_path / "s", searcher=searcher)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("option", ["name", "version"])
def test_names_are_text(tmp_path: Path, option: str) -> None:
    with pytest.raises(UsageError, match=f"{option}=3 must be text: write e.g. {option}='3'"):
        study(tmp_path / "s", searcher=RandomSearch(), **{option: 3})
