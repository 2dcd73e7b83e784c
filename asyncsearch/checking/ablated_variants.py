"""Tries the variants of an ablation study before any worker starts, in a process of its own: their shapes must fit."""

from __future__ import annotations

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.checking.training_runs import Task, name_of
from asyncsearch.errors import UsageError
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.trainable import Trainable, Trainer


def can_try(trainable: Trainable) -> bool:
    """Return whether a trainable can be set up and tried without training."""
    return isinstance(trainable, type) and issubclass(trainable, Trainer) and hasattr(trainable, "try_model")


def try_variants(task: Task) -> None:
    """Set the trainer up once for each value of ``ablated`` that the params list, and train nothing.

    Raises:
        UsageError: one cannot be built; names it and says why.
    """
    trainer_class = task.trainable
    assert isinstance(trainer_class, type)
    for value in task.params[PARAMETER]:
        trial = StandaloneTrial({**task.params, PARAMETER: value})
        trainer = trainer_class()
        trainer.trial = trial
        try:
            trainer.setup(trial.params)
            trainer.try_model()
        except UsageError as error:
            raise UsageError(f"{name_of(task.trainable)} {_variant(trial)}: {error}") from error
        except Exception as error:
            raise UsageError(
                f"{name_of(task.trainable)} {_variant(trial)} cannot be computed; correct that first.{_hint(trial)}\n"
                f"{exception_text(error)}"
            ) from error


def _variant(trial: StandaloneTrial) -> str:
    return f"without {trial.ablation}" if trial.ablation else "with everything"


def _hint(trial: StandaloneTrial) -> str:
    if not any(one.kind == "feature" for one in trial.ablation.ablated.components):
        return ""
    return " A feature that is dropped makes the data narrower: Ablation(..., fill=True) keeps its place."
