"""The contract of a trial, without any process: resources, pauses, batches, stops."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.runner.context import SearchContext
from asyncsearch.trainable import ReportError, TrialPaused, TrialStopped
from asyncsearch.work import Stage
from tests.agent.driver import make_stage
from tests.agent.recorder import Recorder

Make = Callable[..., tuple[SearchContext, Recorder]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make_one(*stages: Stage, load: Path | None = None, **stage: Any) -> tuple[SearchContext, Recorder]:
        link = Recorder(tmp_path)
        return SearchContext(stages or (make_stage(**stage),), link, load), link

    return make_one


def save(path: Path) -> None:
    path.write_text("state")


def load(path: Path) -> None:
    assert path.read_text() == "state"


def train(trial: SearchContext, *, reports: int = 1, resource: int | None = None, **hooks: Any) -> list[int]:
    """Train as users do, and return the epochs."""
    epochs = []
    for epoch in trial.epochs(**hooks):
        epochs.append(epoch)
        for _ in range(reports):
            trial.report(accuracy=epoch, lr=trial.params["lr"], resource=resource)
    return epochs


def train_in_its_own_loop(trial: SearchContext, count: int) -> None:
    for _ in range(count):
        trial.report(accuracy=1)


def swallow_exceptions(trial: SearchContext) -> None:
    with contextlib.suppress(Exception):
        trial.report(accuracy=1)


def test_epochs_are_those_that_are_left(make: Make) -> None:
    trial, link = make(stop=3, max_resource=3)
    assert train(trial) == [1, 2, 3]
    assert (link.resources, link.saves) == ([1, 2, 3], [])
    assert (trial.resource, trial.max_resource, trial.seed, trial.name) == (3, 3, 7, "trial-0")
    assert not trial.is_paused


def test_what_stands_after_the_loop_runs_only_when_the_trial_is_complete(make: Make) -> None:
    trial, link = make(stop=2, max_resource=3, save=True)
    with pytest.raises(TrialPaused):
        train(trial, save=save, load=load)
    assert trial.is_paused
    assert (link.resources, link.saves) == ([1, 2], [(0, 2)])


def test_a_paused_trial_pauses_again_and_again(make: Make) -> None:
    trial, link = make(stop=1, max_resource=3, save=True)
    with pytest.raises(TrialPaused):
        train(trial, save=save, load=load)
    with pytest.raises(TrialPaused):
        trial.report(accuracy=2)
    assert link.resources == [1]


def test_a_resumed_trial_is_loaded_once_and_goes_on(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    save(path)
    loads: list[Path] = []
    trial, link = make(start=2, stop=4, max_resource=4, load=path)
    assert train(trial, save=save, load=loads.append) == [3, 4]
    assert loads == [path]
    assert link.resources == [3, 4]


def test_save_is_called_only_where_it_is_wanted(make: Make) -> None:
    trial, link = make(start=1, stop=7, max_resource=9, save_every=3, save=True)
    with pytest.raises(TrialPaused):
        train(trial, save=save, load=load)
    assert link.saves == [(0, 3), (0, 6), (0, 7)]


def test_a_checkpoint_that_is_both_on_the_way_and_at_the_end_is_saved_once(make: Make) -> None:
    trial, link = make(stop=6, max_resource=6, save_every=3, save=True)
    train(trial, save=save, load=load)
    assert link.saves == [(0, 3), (0, 6)]


def test_a_trial_that_cannot_save_is_not_asked_for_what_only_saves_time(make: Make) -> None:
    trial, link = make(stop=6, max_resource=6, save_every=3, save=True)
    assert len(train(trial)) == 6
    assert link.saves == []


def test_a_batch_passes_from_stage_to_stage_with_their_parameters(make: Make) -> None:
    stages = [
        make_stage(start=0, stop=2, max_resource=9, save=True, params={"lr": 1}),
        make_stage(start=2, stop=3, max_resource=9, params={"lr": 2}),
        make_stage(start=3, stop=5, max_resource=9, save=True, params={"lr": 3}),
    ]
    trial, link = make(*stages)
    with pytest.raises(TrialPaused):
        train(trial, save=save, load=load)
    assert [metrics["lr"] for _, metrics in link.reports] == [1, 1, 2, 3, 3]
    assert link.saves == [(0, 2), (2, 5)]


def test_a_stop_is_raised_by_the_next_report(make: Make) -> None:
    trial, link = make(stop=9, max_resource=9)
    link.reason = "rank 7 of 20"
    assert trial.should_stop
    with pytest.raises(TrialStopped, match="rank 7 of 20"):
        trial.report(accuracy=1)
    assert link.reports == []


def test_a_stop_is_raised_before_the_next_epoch(make: Make) -> None:
    trial, link = make(stop=9, max_resource=9, save_every=1)
    link.told_at = 2
    with pytest.raises(TrialStopped):
        train(trial, save=save, load=load)
    assert link.resources == [1, 2]
    assert link.saves == [(0, 1)]  # nobody wants the second one


def test_except_exception_does_not_swallow_a_stop(make: Make) -> None:
    trial, link = make(stop=9, max_resource=9)
    link.reason = "enough"
    with pytest.raises(TrialStopped):
        swallow_exceptions(trial)


def test_without_epochs_each_report_counts_one(make: Make) -> None:
    trial, link = make()
    trial.report(accuracy=1)
    trial.report({"accuracy": 2}, loss=3)
    trial.report(accuracy=3, resource=10)
    trial.report(accuracy=4)
    assert link.reports[1] == (2, {"accuracy": 2.0, "loss": 3.0})
    assert link.resources == [1, 2, 10, 11]
    assert trial.resource == 11


def test_inside_an_epoch_a_report_counts_for_it(make: Make) -> None:
    trial, link = make(stop=6, max_resource=6)
    for epoch in trial.epochs():
        assert trial.resource == epoch - 1
        if epoch % 2 == 0:
            trial.report(accuracy=epoch)
    assert link.resources == [2, 4, 6]


def test_after_the_loop_a_report_counts_for_what_was_trained(make: Make) -> None:
    trial, link = make(stop=4, max_resource=4)
    for _ in trial.epochs():
        pass
    trial.report(accuracy=1)
    assert link.resources == [4]


def test_a_loop_may_be_left_early(make: Make) -> None:
    trial, link = make(stop=9, max_resource=9)
    for epoch in trial.epochs():
        trial.report(accuracy=epoch)
        if epoch == 3:
            break
    assert trial.resource == 3
    assert link.resources == [1, 2, 3]


@pytest.mark.parametrize("resource", [1, 2, 0, -1, 2.5, "3", True])
def test_a_resource_must_be_higher_than_before_and_whole(make: Make, resource: Any) -> None:
    trial, link = make()
    trial.report(accuracy=1, resource=2)
    with pytest.raises(ReportError, match="resource"):
        trial.report(accuracy=1, resource=resource)
    assert link.resources == [2]


def test_two_reports_in_one_epoch_are_an_error(make: Make) -> None:
    trial, _ = make(stop=2, max_resource=2)
    with pytest.raises(ReportError, match="trial-0 reported at resource 1, and 1 was reported before"):
        train(trial, reports=2)


def test_a_report_ahead_of_its_epoch_is_an_error(make: Make) -> None:
    trial, _ = make(stop=9, max_resource=9)
    with pytest.raises(ReportError, match="at resource 5 inside epoch 1"):
        train(trial, resource=5)


def test_a_report_beyond_the_end_is_an_error(make: Make) -> None:
    trial, link = make(stop=2, max_resource=2)
    with pytest.raises(ReportError, match="beyond max_resource 2"):
        train_in_its_own_loop(trial, 3)
    assert link.resources == [1, 2]


def test_a_loop_of_its_own_cannot_be_paused(make: Make) -> None:
    trial, link = make(stop=2, max_resource=9, save=True)
    with pytest.raises(CannotPauseError, match=r"had to pause at 2, but trained on to 3: .*trial.epochs"):
        train_in_its_own_loop(trial, 3)
    assert link.resources == [1, 2]


def test_a_loop_of_its_own_cannot_be_resumed(make: Make, tmp_path: Path) -> None:
    trial, link = make(start=2, stop=4, max_resource=4, load=tmp_path)
    with pytest.raises(CannotPauseError, match=r"must resume from its checkpoint at 2, but started from scratch"):
        trial.report(accuracy=1)
    assert link.reports == []


@pytest.mark.parametrize(
    ("hooks", "missing"), [({}, "save= and load="), ({"save": save}, "load="), ({"load": load}, "save=")]
)
def test_a_trial_that_is_to_be_paused_needs_both_hooks_before_it_trains(make: Make, hooks: Any, missing: str) -> None:
    trial, link = make(stop=2, max_resource=9, save=True)
    with pytest.raises(CannotPauseError, match=rf"epochs\(\) was called without {missing}: "):
        train(trial, **hooks)
    assert link.reports == []


def test_a_trial_that_is_to_be_resumed_needs_load(make: Make, tmp_path: Path) -> None:
    trial, _ = make(start=2, stop=9, max_resource=9, load=tmp_path)
    with pytest.raises(CannotPauseError, match="without load="):
        train(trial)


def test_epochs_needs_to_know_how_many(make: Make) -> None:
    trial, _ = make()
    with pytest.raises(UsageError, match="set max_resource"):
        trial.epochs()


def test_epochs_is_called_once(make: Make) -> None:
    trial, _ = make(stop=2, max_resource=2)
    train(trial)
    with pytest.raises(UsageError, match="twice"):
        trial.epochs()


@pytest.mark.parametrize("nothing", [lambda path: None, lambda path: path.mkdir()])
def test_a_save_that_writes_nothing_is_an_error(make: Make, nothing: Any) -> None:
    trial, link = make(stop=1, max_resource=2, save=True)
    with pytest.raises(UsageError, match="save wrote nothing"):
        train(trial, save=nothing, load=load)
    assert link.saves == []


def test_what_the_function_returns_is_its_last_report(make: Make) -> None:
    trial, link = make(stop=4, max_resource=4)
    for _ in trial.epochs():
        pass
    trial.report_last({"accuracy": 0.5})
    assert (link.reports, trial.unreported) == ([(4, {"accuracy": 0.5})], {})


def test_a_return_value_beyond_the_training_is_kept_and_not_reported(make: Make) -> None:
    trial, link = make(stop=2, max_resource=2)
    train(trial)
    trial.report_last({"loss": 0.1, "accuracy": 0.5})
    free, free_link = make()
    free.report(accuracy=1)
    free.report_last({"accuracy": 0.5})
    assert (link.resources, free_link.resources) == ([1, 2], [1, 2])
    assert (trial.unreported, free.unreported) == ({"loss": 0.1, "accuracy": 0.5}, {})


@pytest.mark.parametrize("value", [1.0, math.nan])
def test_the_last_report_returned_again_is_no_unit_and_needs_no_word(make: Make, value: float) -> None:
    trial, link = make()
    trial.report(accuracy=value, loss=2.0)
    trial.report_last({"accuracy": value})
    assert (link.resources, trial.unreported) == ([1], {})
