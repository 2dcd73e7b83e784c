"""Runs of MLflow below the one that is active where ``fmin`` is called, with a stand-in of what is called of it."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import asyncsearch.hyperopt as ours


class KeptRuns:
    """What ``MlflowClient`` is asked for, by run."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}

    def create_run(self, experiment_id: str, tags: dict[str, str]) -> Any:
        name = f"run-{len(self.runs)}"
        self.runs[name] = {"experiment": experiment_id, "tags": tags, "params": {}, "metrics": {}, "status": "RUNNING"}
        return SimpleNamespace(info=SimpleNamespace(run_id=name))

    def log_param(self, run: str, key: str, value: Any) -> None:
        self.runs[run]["params"][key] = value

    def log_metric(self, run: str, key: str, value: float) -> None:
        self.runs[run]["metrics"][key] = value

    def set_terminated(self, run: str, status: str) -> None:
        self.runs[run]["status"] = status


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptRuns:
    made, module = KeptRuns(), ModuleType("mlflow")
    parent = SimpleNamespace(info=SimpleNamespace(run_id="parent", experiment_id="7"))
    active = [parent]
    names = {
        "active_run": lambda: active[-1] if active else None,
        "end_run": active.pop,
        "get_tracking_uri": lambda: "file:///runs",
        "MlflowClient": lambda: made,
    }
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return made


def test_each_point_has_a_run_below_the_one_that_is_active(kept: KeptRuns, quiet: None) -> None:
    ours.workers(1, backend="processes")
    space = {"x": ours.hp.uniform("x", 0, 1), "kind": ours.hp.choice("kind", ["a", "b"])}

    def objective(point: dict[str, Any]) -> dict[str, Any]:
        if point["x"] < 0.5:
            return {"status": "fail"}
        return {"loss": point["x"], "status": "ok", "run": os.environ["MLFLOW_RUN_ID"]}

    trials = ours.SparkTrials()
    ours.fmin(objective, space, algo=ours.rand.suggest, max_evals=6, trials=trials, verbose=False)
    assert len(kept.runs) == 6
    for document, (name, run) in zip(trials.trials, kept.runs.items(), strict=True):
        result, values = document["result"], document["misc"]["vals"]
        is_ok = result["status"] == "ok"
        assert run["tags"] == {"mlflow.parentRunId": "parent", "mlflow.runName": f"trial-{document['tid']}"}
        assert run["experiment"] == "7"
        assert run["params"] == {label: its[0] for label, its in values.items()}
        assert run["status"] == ("FINISHED" if is_ok else "FAILED")
        assert run["metrics"] == ({"loss": result["loss"]} if is_ok else {})
        assert not is_ok or result["run"] == name


def test_without_an_active_run_nothing_is_logged(kept: KeptRuns, quiet: None) -> None:
    sys.modules["mlflow"].end_run()
    ours.workers(1, backend="processes")
    ours.fmin(float, ours.hp.uniform("x", 0, 1), algo=ours.rand.suggest, max_evals=2, verbose=False)
    assert kept.runs == {}
