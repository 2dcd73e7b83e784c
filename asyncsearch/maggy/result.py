"""The dictionary that ``lagom`` returns: Maggy's entries, of its versions 0.x and 1.x."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from asyncsearch.maggy.earlystop import BROADCAST
from asyncsearch.trial import Params, Trial, TrialState


def result_of_trials(
    trials: Iterable[Trial], direction: str, config_of: Callable[[Params], Params], reports_of: Callable[[Trial], int]
) -> dict[str, Any]:
    """Return the result of an experiment, of its trials in the order of their ends.

    A trial that was stopped early counts with its last broadcast in ``metric_list``, ``avg`` and ``worst_*``, as in
    Maggy; it is never the best one, since a broadcast is no result.

    Args:
        trials: of the experiment; failed ones count nowhere.
        direction: ``"min"`` or ``"max"``.
        config_of: what a program sees of a trial's parameters.
        reports_of: how often a trial has broadcast.
    """
    result: dict[str, Any] = {"best_val": "n.a.", "num_trials": 0, "early_stopped": 0, "metric_list": []}
    sign = -1 if direction == "max" else 1
    for trial in sorted(trials, key=lambda one: (one.ended_s or 0.0, one.id)):
        is_stopped = trial.state is TrialState.STOPPED
        metric = trial.metrics.get(BROADCAST) if is_stopped else trial.value
        if metric is None or not (is_stopped or trial.state is TrialState.COMPLETED):
            continue
        config = config_of(trial.params)
        if not result["num_trials"]:
            result |= {"num_epochs": reports_of(trial), "trial_id": trial.name}
        result["num_trials"] += 1
        result["early_stopped"] += is_stopped
        result["metric_list"].append(metric)
        if not is_stopped and ("best_id" not in result or sign * metric < sign * result["best_val"]):
            result |= {"best_id": trial.name, "best_val": metric, "best_config": config, "best_hp": config}
        if "worst_id" not in result or sign * metric > sign * result["worst_val"]:
            result |= {"worst_id": trial.name, "worst_val": metric, "worst_config": config, "worst_hp": config}
    if result["metric_list"]:
        result["avg"] = sum(result["metric_list"]) / len(result["metric_list"])
    return result
