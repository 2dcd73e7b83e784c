"""Programs of Maggy, as people write them, with local data: each runs one experiment, and returns its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsearch.maggy import Searchspace, experiment, tensorboard
from asyncsearch.maggy.ablation import AblationStudy
from asyncsearch.maggy.config import AblationConfig, HyperparameterOptConfig
from asyncsearch.maggy.optimizer import Asha

_GENERATOR = np.random.default_rng(5)
X = _GENERATOR.normal(size=(80, 3))
Y = (X @ np.array([1.0, -2.0, 0.0]) > 0).astype(float)


def fitted(
    rate: float, epochs: int, x: Any = X, each: Callable[[float, int], None] = lambda loss, epoch: None
) -> float:
    """Fit a logistic regression by gradient steps, and return its accuracy."""
    weights = np.zeros(x.shape[1])
    for epoch in range(epochs):
        chances = 1 / (1 + np.exp(-x @ weights))
        weights -= rate * (x.T @ (chances - Y)) / len(Y)
        margins = np.where(Y > 0, 1, -1) * (x @ weights)
        each(float(np.mean(np.log1p(np.exp(-margins)))), epoch)
    return float(np.mean((x @ weights > 0) == (Y > 0)))


def keywords_of_0x(**more: Any) -> dict[str, Any]:
    """Arguments by name, a reporter with steps, files in the trial's folder, and the rule that is on by default."""
    space = Searchspace(epochs=("integer", [6, 9]), rate=("DOUBLE", [0.001, 0.5]))
    space.add("kind", ("CATEGORICAL", ["plain", "other"]))

    def train(rate: float, epochs: int, kind: str, reporter: Any) -> dict[str, Any]:
        def each(loss: float, epoch: int) -> None:
            reporter.broadcast(metric=-loss, step=epoch)

        with open(f"{tensorboard.logdir()}/kind.txt", "w", encoding="utf-8") as file:
            file.write(kind)
        accuracy = fitted(rate, epochs, each=each)
        reporter.log(f"accuracy {accuracy}")
        return {"accuracy": accuracy, "rate": rate, "log": "a text"}

    options = {"direction": "max", "num_trials": 14, "es_interval": 1, "es_min": 4, "optimization_key": "accuracy"}
    return experiment.lagom(
        map_fun=train, name="random", searchspace=space, optimizer="randomsearch", **options, **more
    )


def budgets_of_1x() -> dict[str, Any]:
    """A config with ``hparams``, a model and a data set; the budget of ASHA is one of the parameters."""

    def train(hparams: dict[str, Any], model: Any, dataset: Any, reporter: Any) -> float:
        reporter.broadcast(hparams["budget"])
        return float(model(hparams["rate"], hparams["budget"], dataset[0]))

    config = HyperparameterOptConfig(
        num_trials=9,
        optimizer=Asha(3, 1, 3),
        searchspace=Searchspace(rate=("DOUBLE", [0.01, 0.5])),
        direction="MAX",
        es_policy="none",
        name="budgets",
        model=fitted,
        dataset=[X],
    )
    return experiment.lagom(train_fn=train, config=config)


def ablation_of_features() -> dict[str, Any]:
    """Features of an array by number, and a model of the program's own."""
    study = AblationStudy(
        "local", 1, label_name="y", dataset_generator=lambda: {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    )
    study.features.include("a", ["b"])
    study.model.set_base_model_generator(lambda: fitted)
    study.model.add_custom_model_generator(lambda: lambda rate, epochs, x: 0.25, "constant")

    def train(dataset_function: Any, model_function: Any) -> float:
        columns = dataset_function()
        return float(model_function()(0.3, 40, np.column_stack(list(columns.values()))))

    return experiment.lagom(train, AblationConfig(study, name="ablation"))
