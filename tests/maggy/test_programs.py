"""Programs of Maggy run by another import, and mean here what they mean there."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.trial import TrialState
from tests.maggy import programs


def test_broadcasts_stop_trials_and_returned_values_rank_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = programs.keywords_of_0x()
    study = Study.open(tmp_path / "kept" / "random")
    stopped = [trial for trial in study.trials if trial.state is TrialState.STOPPED]
    returned = [trial for trial in study.trials if trial.state is TrialState.COMPLETED]
    assert result["early_stopped"] == len(stopped) > 0
    assert result["num_trials"] == len(result["metric_list"]) == 14
    assert result["best_val"] == max(trial.metrics["accuracy"] for trial in returned)
    assert result["best_id"] == study.best_trial.name
    assert result["best_config"] == result["best_hp"] == study.best_params
    assert all(trial.value is None and trial.metrics["broadcast"] < 0 for trial in stopped), "two columns, one ranks"
    assert result["worst_val"] == min(result["metric_list"])
    assert "the median of the averages of" in study.explain(stopped[0])
    assert f"accuracy {result['best_val']}\n" in capsys.readouterr().out
    with study.trial_dir(result["best_id"]) as folder:
        assert (folder / "kind.txt").read_text() == result["best_config"]["kind"]


def test_asha_trains_the_best_third_anew_with_three_times_the_budget(tmp_path: Path) -> None:
    result = programs.budgets_of_1x()
    trials = Study.open(tmp_path / "kept" / "budgets").trials
    budgets = [trial.params["budget"] for trial in trials]
    assert budgets == [1, 1, 1, 3], "the first with the highest budget is the last to begin"
    best = max(trials[:3], key=lambda trial: (trial.value, -trial.id))
    assert trials[3].params["rate"] == best.params["rate"]
    assert result["best_config"].keys() == {"rate", "budget"}


def test_an_ablation_leaves_out_each_component_beside_one_base_trial(tmp_path: Path) -> None:
    result = programs.ablation_of_features()
    study = Study.open(tmp_path / "kept" / "ablation")
    assert result["num_trials"] == len(study.trials) == 4
    assert result["worst_config"] == {"ablated_feature": "None", "ablated_layer": "Custom model: constant"}
    table = str(study.ablation())
    assert "feature a" in table
    assert "feature b" in table
    values = {trial.params["ablated"]: trial.value for trial in study.trials}
    assert values["feature:b"] is not None
    assert values["nothing"] is not None
    assert values["feature:b"] < values["nothing"], "the program's own data lacks the column"
