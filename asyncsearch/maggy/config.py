"""The configurations that ``lagom`` of Maggy 1.x takes."""

from __future__ import annotations

from typing import Any, NoReturn

from asyncsearch.errors import UsageError
from asyncsearch.maggy.ablation import AblationStudy
from asyncsearch.maggy.searchspace import Searchspace


class LagomConfig:
    """The common part of all configurations.

    Args:
        name: of the experiment, and of its folder.
        description: a text, which is shown when it begins.
        hb_interval: seconds; of a trial that broadcasts more than 128 times, at most one further broadcast in each.
    """

    def __init__(self, name: str, description: str, hb_interval: float) -> None:
        self.name, self.description, self.hb_interval = name, description, hb_interval


class BaseConfig(LagomConfig):
    """A function that is run once, without a search."""

    def __init__(self, name: str = "base", hb_interval: float = 1, description: str = "") -> None:
        super().__init__(name, description, hb_interval)


class HyperparameterOptConfig(LagomConfig):
    """A search."""

    def __init__(
        self,
        num_trials: int,
        optimizer: Any,
        searchspace: Searchspace | None,
        optimization_key: str = "Metric",
        direction: str = "max",
        es_interval: int = 1,
        es_min: int = 10,
        es_policy: Any = "median",
        name: str = "HPOptimization",
        description: str = "",
        hb_interval: float = 1,
        model: Any = None,
        dataset: Any = None,
    ) -> None:
        super().__init__(name, description, hb_interval)
        self.num_trials, self.optimizer, self.searchspace = num_trials, optimizer, searchspace
        self.optimization_key, self.direction = optimization_key, direction
        self.es_interval, self.es_min, self.es_policy = es_interval, es_min, es_policy
        self.model, self.dataset = model, dataset


class OptimizationConfig(HyperparameterOptConfig):
    """A search, by the name that 1.0 has for it."""


class AblationConfig(LagomConfig):
    """An ablation study."""

    def __init__(
        self,
        ablation_study: AblationStudy,
        ablator: Any = "loco",
        direction: str = "max",
        name: str = "ablationStudy",
        description: str = "",
        hb_interval: float = 1,
        model: Any = None,
        dataset: Any = None,
    ) -> None:
        super().__init__(name, description, hb_interval)
        self.ablation_study, self.ablator, self.direction = ablation_study, ablator, direction
        self.model, self.dataset = model, dataset


class _Distributed:
    """A configuration of training on several workers, which is no search."""

    framework = "torch"

    def __init__(self, *arguments: Any, **named: Any) -> NoReturn:
        kind = type(self).__name__
        trainer = "KerasTrainer" if self.framework == "tensorflow" else "TorchTrainer"
        raise UsageError(
            f"{kind} trains one model on several workers and searches nothing: write a {trainer} (docs/trainers.md) "
            "and Study(trainer, ..., workers_per_trial=4), by which each trial is trained data-parallel by a gang of "
            "workers (docs/gangs.md); for a single training give it a space of constants and run(num_trials=1)."
        )


class DistributedConfig(_Distributed):
    """Refused, with what to write instead."""


class TorchDistributedConfig(_Distributed):
    """Refused, with what to write instead."""


class TfDistributedConfig(_Distributed):
    """Refused, with what to write instead."""

    framework = "tensorflow"
