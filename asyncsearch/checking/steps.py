"""The steps of a check, each of which a process of its own can carry out: trainings, explanations, and variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.checking import explanation
from asyncsearch.checking.trainable_state import TrainableState
from asyncsearch.checking.training_runs import RunFacts, Task, Watching, content, exact, name_of, run
from asyncsearch.errors import UsageError
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.metrics import as_metrics
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.trainable import Trainable, Trainer


class _Looking(Watching):
    """Notes the state at the cut."""

    def __init__(self, cut: int) -> None:
        self.digests: dict[str, str] = {}
        self.unread: list[str] = []
        self._cut = cut

    def trained(self, resource: int, root: Any) -> None:
        if resource == self._cut:
            state = TrainableState(root)
            self.digests, self.unread = state.digests(), state.unread

    def loaded(self, root: Any) -> None:
        self.digests = TrainableState(root).digests()


def _straight(task: Task, name: str, stirred: int, watching: Watching | None = None) -> RunFacts:
    looking = _Looking(task.cut)
    reports = run(task, name, [task.units], stirred=stirred, watching=watching or looking)
    found = content(task, task.checkpoint(name, task.units), stirred + 50)
    return RunFacts(reports, found, looking.digests, looking.unread)


class _Evaluating(Watching):
    """Evaluates twice more after each unit."""

    def __init__(self) -> None:
        self.found: list[list[dict[str, str]]] = []

    def evaluated(self, root: Any, evaluate: Callable[[], Mapping[str, Any]]) -> None:
        self.found.append([exact(as_metrics(evaluate(), {})) for _ in range(2)])


def _again_and_first_part(task: Task) -> list[RunFacts]:
    again = _straight(task, "again", 2)
    # It continues after the save, as a training does from which others branch.
    reports = run(task, "parts", [task.cut, task.units], stirred=3)
    return [again, RunFacts(reports, content(task, task.checkpoint("parts", task.units), 53))]


def _second_part_and_evaluations(task: Task) -> list[RunFacts]:
    looking, load = _Looking(task.cut), task.checkpoint("parts", task.cut)
    reports = run(task, "resumed", [task.units], start=task.cut, load=load, watching=looking, stirred=4)
    second = RunFacts(reports, content(task, task.checkpoint("resumed", task.units), 54), looking.digests)
    watching = _Evaluating()
    evaluated = _straight(task, "evaluated", 5, watching)
    if watching.found:
        reported = [metrics for _, metrics in evaluated.reports]
        is_trainer = isinstance(task.trainable, type) and issubclass(task.trainable, Trainer)
        evaluated.evaluates_alike = all(
            one == other and (not is_trainer or one == mine)
            for (one, other), mine in zip(watching.found, reported, strict=False)
        )
    return [second, evaluated]


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


STEPS: dict[str, Callable[[Task], Any]] = {
    "once": lambda task: _straight(task, "once", 1),
    "again and first part": _again_and_first_part,
    "second part and evaluations": _second_part_and_evaluations,
    "explain randomness": explanation.randomness,
    "explain resuming": explanation.resuming,
    "explain saving": explanation.saving,
    "explain evaluation": explanation.evaluation,
    "try variants": try_variants,
}
"""The steps that a process can carry out."""
