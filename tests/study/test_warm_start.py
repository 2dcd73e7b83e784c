"""A study that begins with the trials of earlier ones: what it knows of them, and which do not fit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import (
    ASHA,
    PBT,
    GridSearch,
    OptunaSearch,
    RandomSearch,
    SobolSearch,
    Space,
    Study,
    choice,
    loguniform,
    randint,
    uniform,
)
from asyncsearch.errors import StudyNotFoundError, TrialsFailedError, UsageError
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.observations import BEST, Observed, TrialPosition, differences, with_best_initial
from asyncsearch.sequences import exponential
from asyncsearch.store import open_store
from asyncsearch.study.kept.warm_start import kept
from asyncsearch.trial import TrialState
from tests.shares import IS_ALL, first

SPACE: Mapping[str, Any] = {"x": uniform(0, 1), "kind": choice("a", "b"), "m": {"n": randint(1, 9).when(kind="a")}}


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        if trial.params["x"] > 0.9:
            raise ValueError("too much")
        trial.report(loss=trial.params["x"] + 1 / epoch)


def study(store: Path, **options: Any) -> Study:
    settings: dict[str, Any] = {"space": SPACE, "metric": "loss", "mode": "min", "backend": "inline"}
    return Study(train, store=store, **({"scheduler": ASHA(max_resource=9)} | settings | options))


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("earlier") / "first"
    study(store).run(12, display="none")
    return store


def best_params(store: Path) -> list[dict[str, Any]]:
    trials = [trial for trial in Study.open(store).trials if trial.value is not None and not trial.failures]
    return [trial.params for trial in sorted(trials, key=lambda trial: (-trial.resource, trial.value))]


@pytest.mark.parametrize("searcher", [RandomSearch(), SobolSearch(), GridSearch(points=3)], ids=str)
def test_searcher_that_does_not_learn_begins_with_the_best(earlier: Path, tmp_path: Path, searcher: Searcher) -> None:
    if isinstance(searcher, SobolSearch):
        pytest.importorskip("scipy")
    warm = study(tmp_path / "s", searcher=searcher, warm_start=[earlier], seed=5)
    warm.run(BEST + 3, display="none")
    params = [trial.params for trial in warm.trials]
    assert params[:BEST] == best_params(earlier)[:BEST]
    assert all(later not in params[:BEST] for later in params[BEST:])


@pytest.mark.parametrize("searcher", first([SobolSearch(), RandomSearch()]), ids=str)
def test_a_seed_proposes_others_after_a_warm_start_and_again_the_same(
    earlier: Path, tmp_path: Path, searcher: Searcher
) -> None:
    if isinstance(searcher, SobolSearch):
        pytest.importorskip("scipy")
    cold = study(tmp_path / "cold", searcher=searcher).run(20, display="none")
    known = [trial.params for trial in Study.open(earlier).trials] + [trial.params for trial in cold.trials]
    found = []
    for name in ("one", "another"):
        warm = study(tmp_path / name, searcher=searcher, warm_start=[earlier]).run(10, display="none")
        found.append([trial.params for trial in warm.trials[BEST:]])
    assert all(params not in known for params in found[0])
    assert found[1] == found[0]
    further = study(tmp_path / "one", searcher=searcher, resume=True).run(20, display="none")
    whole = study(tmp_path / "whole", searcher=searcher, warm_start=[earlier]).run(20, display="none")
    assert [trial.params for trial in further.trials] == [trial.params for trial in whole.trials]


def test_a_warm_grid_proposes_what_is_an_initial_point_too_once(tmp_path: Path) -> None:
    values = choice(0.1, 0.2, 0.3, 0.4)
    first = study(tmp_path / "first", space={"x": values}, searcher=GridSearch()).run(display="none")
    space = Space({"x": values}, initial=[{"x": 0.3}])
    warm = study(tmp_path / "warm", space=space, searcher=GridSearch(), warm_start=[first]).run(display="none")
    assert [trial.params["x"] for trial in warm.trials] == [0.3, 0.1, 0.2, 0.4]


def test_searcher_that_learns_knows_every_trial_and_its_reports(earlier: Path, tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    seen: list[Any] = []

    class Looking(optuna.samplers.RandomSampler):  # type: ignore[name-defined, misc]
        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
            seen.append(study.get_trials())
            return {}

    study(tmp_path / "s", searcher=OptunaSearch(lambda seed: Looking(seed=seed)), warm_start=[earlier])
    old = Study.open(earlier)
    known = seen[0][:-1]
    assert len(known) == len(old.trials) == 12
    for trial, frozen in zip(old.trials, known, strict=True):
        assert frozen.params["x"] == trial.params["x"]
        assert frozen.intermediate_values == {r: metrics["loss"] for r, metrics in old.history(trial)}
        assert (frozen.state.name == "FAIL") == (trial.failures > 0)
        assert frozen.state.name != "RUNNING"


@pytest.mark.parametrize("change", ["goes on", "is gone"])
def test_resumed_study_keeps_what_it_began_with(earlier: Path, tmp_path: Path, change: str) -> None:
    pytest.importorskip("optuna")
    source = tmp_path / "source"
    shutil.copytree(earlier, source)
    options: dict[str, Any] = {"searcher": OptunaSearch(min_observations=3), "warm_start": [source]}
    study(tmp_path / "cut", **options).run(4, display="none")
    straight = study(tmp_path / "straight", **options)
    straight.run(4, display="none")
    straight.run(10, display="none")
    if change == "is gone":
        shutil.rmtree(source)
    else:
        Study.resume(source).run(20, display="none")
    study(tmp_path / "cut", resume=True, **options).run(7, display="none")
    Study.resume(tmp_path / "cut").run(10, display="none")
    cut = Study.open(tmp_path / "cut")
    assert [trial.params for trial in cut.trials] == [trial.params for trial in straight.trials]
    assert len(kept(cut.store).trials) == 12


def test_trials_that_were_cut_off_are_known_as_stopped(earlier: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(earlier, source)
    (journal,) = (source / "journal").glob("*.jsonl")
    shutil.rmtree(source / "snapshots")
    (source / "head.json").unlink()
    lines = journal.read_bytes().splitlines(keepends=True)
    found = set()
    for last in range(12, 30, 1 if IS_ALL else 3):
        journal.write_bytes(b"".join(lines[:last]))
        found |= {trial.state for trial in Study.open(source).trials}
        warm = study(tmp_path / f"s{last}", warm_start=[source]).run(1, display="none")
        assert TrialPosition.RUNNING not in {trial.position for trial in kept(warm.store).trials}
    assert {TrialState.WAITING, TrialState.RUNNING} & found


def test_trials_that_took_over_weights_are_known_as_what_they_began_as(tmp_path: Path) -> None:
    space, pbt = {"x": uniform(0, 0.8)}, PBT(max_resource=9, perturbation_interval=3)
    first = study(tmp_path / "pbt", space=space, scheduler=pbt).run(8, display="none")
    moved = [trial for trial in first.trials if isinstance(trial.params["x"], dict)]
    assert moved
    study(tmp_path / "s", space=space, warm_start=[first]).run(1, display="none")
    known = kept(open_store(tmp_path / "s")).trials
    assert all(isinstance(trial.params["x"], float) for trial in known)
    for trial in moved:
        one = known[trial.id]
        assert one.position is TrialPosition.BRANCHED
        x = one.params["x"]
        assert one.values == {resource: pytest.approx(x + 1 / resource) for resource in one.values}
        assert one.values


def test_several_studies_are_taken_in_order_and_may_be_open_ones(earlier: Path, tmp_path: Path) -> None:
    more = study(tmp_path / "more", seed=9).run(3, display="none")
    warm = study(tmp_path / "s", warm_start=[Study.open(earlier), more])
    warm.run(1, display="none")
    assert [trial.params for trial in kept(warm.store).trials] == [
        trial.params for old in (Study.open(earlier), more) for trial in old.trials
    ]


def test_nothing_is_written_where_there_was_nothing_earlier(tmp_path: Path) -> None:
    study(tmp_path / "s").run(1, display="none")
    assert not (tmp_path / "s" / "warm_start.json").exists()


def test_evaluating_a_configuration_is_no_warm_search(earlier: Path, tmp_path: Path) -> None:
    warm = study(tmp_path / "s", warm_start=[earlier])
    assert warm.evaluate({"x": 0.5, "kind": "b"}, 1) == {"loss": 1.5}


class TestBadInput:
    def refused(self, tmp_path: Path, words: str, error: type[Exception] = UsageError, **options: Any) -> None:
        with pytest.raises(error, match=words):
            study(tmp_path / "s", **options)
        assert not (tmp_path / "s").exists()

    def test_every_parameter_that_differs_is_named(self, earlier: Path, tmp_path: Path) -> None:
        space = {"x": loguniform(2, 3), "kind": choice("a", "b"), "lr": uniform(0, 1)}
        words = (
            r"x has a value outside loguniform\(2.0, 3.0\).* and 11 more\).*lr is in this space only \(trial-0 and 11"
            r".*Make the spaces equal"
        )
        self.refused(tmp_path, words, space=space, warm_start=[earlier])
        self.refused(tmp_path, r"m.n is not in this space \(trial-", space=space, warm_start=[earlier])

    def test_trials_that_a_constraint_rejects_do_not_fit(self, earlier: Path, tmp_path: Path) -> None:
        space = Space(SPACE, constraints=[lambda params: params["x"] < 0.1])
        self.refused(tmp_path, "a constraint of this space rejects it", space=space, warm_start=[earlier])

    def test_another_metric_or_mode_does_not_compare(self, earlier: Path, tmp_path: Path) -> None:
        self.refused(tmp_path, "metric='loss', mode='min', and this study has", mode="max", warm_start=[earlier])
        self.refused(tmp_path, "their values do not compare", metric="accuracy", warm_start=[earlier])

    def test_store_without_a_study_is_refused(self, tmp_path: Path) -> None:
        self.refused(tmp_path, "holds no study", StudyNotFoundError, warm_start=[tmp_path / "nothing"])

    def test_study_without_a_result_is_refused(self, tmp_path: Path) -> None:
        empty = study(tmp_path / "empty", space={"x": uniform(0.95, 1)})
        with pytest.raises(TrialsFailedError):
            empty.run(2, display="none")
        assert all(trial.failures for trial in empty.trials)
        self.refused(
            tmp_path, "no trial of .* has a result", space={"x": uniform(0, 1)}, warm_start=[tmp_path / "empty"]
        )

    def test_one_study_is_no_list(self, earlier: Path, tmp_path: Path) -> None:
        self.refused(tmp_path, r"write a list", warm_start=earlier)
        self.refused(tmp_path, r"write a list", warm_start=Study.open(earlier))
        self.refused(tmp_path, r"write a list", warm_start=3)

    def test_what_is_no_study_is_refused(self, tmp_path: Path) -> None:
        self.refused(tmp_path, r"warm_start=\[3\]: that is neither a study nor a store", warm_start=[3])

    def test_study_cannot_be_resumed_with_other_earlier_ones(self, earlier: Path, tmp_path: Path) -> None:
        study(tmp_path / "s").run(1, display="none")
        with pytest.raises(UsageError, match=r"was created with warm_start=\[\], and cannot be resumed with"):
            study(tmp_path / "s", resume=True, warm_start=[earlier])


class TestDifferences:
    SPACE = Space({"lr": choice(exponential(0.1, gamma=uniform(0.9, 0.99)), 0.01), "m": {"n": randint(1, 3)}})

    @pytest.mark.parametrize(
        ("params", "words"),
        [
            ({"lr": 0.01, "m": {"n": 2}}, []),
            ({"lr": exponential(0.1, gamma=0.95).to_json(), "m": {"n": 2}}, []),
            ({"lr": exponential(0.1, gamma=0.5).to_json(), "m": {"n": 2}}, ["lr"]),
            ({"lr": 0.01}, ["m.n is in this space only"]),
            ({"lr": 0.01, "m": {"n": 2, "k": 1}, "o": {"p": 1}}, ["m.k is not in", "o.p is not in"]),
            ({"lr": 0.01, "m": 2}, ["m is not in", "m.n is in this space only"]),
            ({"lr": 0.01, "m": {"n": 9}}, ["m.n has a value outside randint(1, 3): 9"]),
        ],
    )
    def test_each_is_named(self, params: dict[str, Any], words: list[str]) -> None:
        found = [f"{name} {matter}" for name, matter in differences(self.SPACE, params)]
        assert len(found) == len(words)
        assert all(sentence.startswith(start) for sentence, start in zip(found, words, strict=True)), found


def observed(x: float, values: dict[int, float | None], position: TrialPosition = TrialPosition.COMPLETED) -> Observed:
    return Observed({"x": x}, {}, values, position, max(values, default=0), None)


def test_best_are_those_that_came_furthest_then_those_with_the_best_score() -> None:
    space = Space({"x": uniform(0, 1)}, initial=[{"x": 0}])
    trials = [
        observed(0.1, {1: 0.1}, TrialPosition.STOPPED),
        observed(0.2, {1: 0.9, 3: 0.5}),
        observed(0.3, {1: 0.9, 3: 0.4}, TrialPosition.PAUSED),
        observed(0.4, {1: 0.9, 3: 0.1}, TrialPosition.FAILED),
        observed(0.3, {1: 0.9, 3: 0.4}),
        observed(0.5, {1: None, 9: None}),
        observed(0.6, {}),
    ]
    assert [point["x"] for point in with_best_initial(space, trials).initial] == [0, 0.3, 0.2, 0.1]
    assert with_best_initial(space, []) is space
    assert len(space.initial) == 1
