"""The line to write has the study's own metric, in a form that Python takes."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study, Trainer, uniform
from asyncsearch.arguments import metric_in_call
from asyncsearch.errors import AsyncSearchError

METRICS = ["auc", "val/loss", "lambda", "resource", "self"]


def without_name(trial: Any) -> None:
    trial.report(0.5)


def with_unit(trial: Any) -> None:
    trial.report(0.5, 3)


def with_nothing(trial: Any) -> None:
    trial.report()


def by_another_name(trial: Any) -> None:
    another = trial
    another.set_user_attr("auc", 1)


def silent(trial: Any) -> None:
    del trial


def with_another_metric(trial: Any) -> None:
    trial.report(other=1.0)


def evaluating_at_once(trial: Any) -> None:
    for _ in trial.epochs(state={}, evaluate={"auc": 1.0}):
        pass


def yielding(trial: Any) -> Any:
    yield trial.params["x"]


def logging(trial: Any) -> None:
    trial.log_metrics({"auc": 1.0})


class Unevaluated(Trainer):
    def train(self) -> None:
        pass


CALLS = {
    without_name: "trial.report({call})",
    with_unit: "trial.report({call})",
    with_nothing: "trial.report({call})",
    by_another_name: "trial.report({call})",
    silent: "trial.report({call})",
    with_another_metric: "trial.report({call})",
    evaluating_at_once: "evaluate=lambda: {mapping}",
    yielding: "trial.report({call})",
    logging: "trial.report({call})",
    Unevaluated: "def evaluate(self): return {mapping}",
}


@pytest.mark.parametrize("trainable", CALLS, ids=lambda trainable: trainable.__name__)
def test_the_line_to_write_reports_the_metric_of_the_study(trainable: Any, tmp_path: Path) -> None:
    for number, metric in enumerate(METRICS):
        options: dict[str, Any] = {"metric": metric, "mode": "max", "store": tmp_path / str(number)}
        with pytest.raises(AsyncSearchError) as error:
            Study(trainable, space={"x": uniform(0, 1)}, backend="inline", **options).run(1, display="none")
        values = (r"0\.5|3|\.\.\.", re.escape(f"{{{metric!r}: ") + r"(0\.5|\.\.\.)\}")
        call = f"auc=({values[0]})" if metric == "auc" else values[1]
        line = re.escape(CALLS[trainable]).replace(r"\{call\}", call).replace(r"\{mapping\}", values[1])
        found = re.search(line, str(error.value))
        assert found, f"{metric}: {error.value}"
        ast.parse(found[0].removeprefix("evaluate="))
        assert "loss=" not in str(error.value), metric


@pytest.mark.parametrize("metric", [*METRICS, "ünal", "class", "", "a b"])
def test_a_call_with_any_metric_is_python(metric: str) -> None:
    call = ast.parse(f"report({metric_in_call(metric)})").body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    found = call.value.keywords[0].arg if call.value.keywords else ast.literal_eval(call.value.args[0]).popitem()[0]
    assert found == metric
