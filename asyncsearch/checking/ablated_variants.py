"""Tries the variants of an ablation study before any worker starts, in a process of its own: their shapes must fit."""

from __future__ import annotations

from asyncsearch.ablated import PARAMETER, Ablated
from asyncsearch.checking.training_runs import Task, name_of
from asyncsearch.errors import UsageError
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.trainable import Trainable, Trainer


def can_try(trainable: Trainable) -> bool:
    """Return whether a trainable builds data and model in a ``setup`` of its own, before it trains."""
    return isinstance(trainable, type) and issubclass(trainable, Trainer) and hasattr(trainable, "model_inputs")


def try_variants(task: Task) -> None:
    """Set the trainer up once for each value of ``ablated`` that the params list, and train nothing.

    Raises:
        UsageError: one cannot be built; names it and says why.
    """
    trainer_class = task.trainable
    assert isinstance(trainer_class, type)
    for value in task.params[PARAMETER]:
        trial = StandaloneTrial({**task.params, PARAMETER: value})
        trainer: Trainer = trainer_class()
        trainer.trial = trial
        try:
            trainer.setup(trial.params)
        except UsageError as error:
            raise UsageError(f"{name_of(task.trainable)} without {Ablated.of(value)}: {error}") from error
        except Exception as error:
            what = f"without {Ablated.of(value)} " if trial.ablation else ""
            raise UsageError(
                f"{name_of(task.trainable)} {what}cannot be set up; correct that first:\n{exception_text(error)}"
            ) from error
