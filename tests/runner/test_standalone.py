"""The twin outside a search behaves as a trial in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.events import Outcome
from asyncsearch.ids import CheckpointRef
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.trainable import ReportError, Trainable, as_function
from tests.agent import trials
from tests.agent.driver import NODE, agent, committed


def test_it_just_works(capfd: pytest.CaptureFixture[str]) -> None:
    trial = StandaloneTrial({"lr": 0.1}, max_resource=3, seed=5)
    trials.good(trial)
    assert trial.reports == [(1, {"accuracy": 0.1}), (2, {"accuracy": 0.2}), (3, {"accuracy": 0.3})]
    assert (trial.name, trial.seed, trial.params, trial.resource) == ("trial-0", 5, {"lr": 0.1}, 3)
    assert not trial.should_stop
    assert capfd.readouterr() == ("", "")


def test_it_needs_no_max_resource_where_the_function_counts() -> None:
    trial = StandaloneTrial({}, name="mine")
    trials.no_op(trial)
    assert trial.reports == [(1, {"accuracy": 1.0})]


def test_it_holds_the_same_rules() -> None:
    with pytest.raises(ReportError, match="mine reported at resource 3, and 3 was reported before"):
        trials.reports_twice(StandaloneTrial({}, name="mine"))
    with pytest.raises(UsageError, match="max_resource"):
        StandaloneTrial({}, max_resource=0)


def test_it_goes_on_from_what_its_folder_holds(tmp_path: Path) -> None:
    first = StandaloneTrial({"lr": 1}, max_resource=2, folder=tmp_path)
    trials.remembers(first)
    second = StandaloneTrial({"lr": 1}, max_resource=4, folder=tmp_path)
    trials.remembers(second)
    assert [metrics["seen"] for _, metrics in first.reports + second.reports] == [1, 2, 3, 4]
    assert [metrics["loads"] for _, metrics in second.reports] == [1, 1]
    with pytest.raises(UsageError, match="beyond max_resource=3"):
        StandaloneTrial({}, max_resource=3, folder=tmp_path)
    complete = StandaloneTrial({"lr": 1}, max_resource=4, folder=tmp_path)
    trials.remembers(complete)
    assert complete.reports == []


@pytest.mark.parametrize("trainable", [trials.remembers, trials.Digits])
def test_it_reports_what_the_same_trial_reports_in_a_search(trainable: Trainable, tmp_path: Path) -> None:
    function = as_function(trainable)
    first = StandaloneTrial({"lr": 0.5}, max_resource=2, folder=tmp_path / "alone")
    function(first)
    second = StandaloneTrial({"lr": 0.5}, max_resource=5, folder=tmp_path / "alone")
    function(second)
    with agent(trainable, tmp_path / "store") as driver:
        driver.train(0, params={"lr": 0.5}, stop=2, max_resource=5, save=True)
        committed(driver, 2)
        driver.train(1, params={"lr": 0.5}, start=2, stop=5, max_resource=5, load=CheckpointRef(NODE, 2))
        assert driver.end(1).outcome is Outcome.RETURNED
    in_search = driver.reports(0) + driver.reports(1)
    assert in_search == first.reports + second.reports
