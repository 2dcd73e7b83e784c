"""Checks of a trainable before the search: its arguments, methods and variants, and what scheduler and space need."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from asyncsearch.ablation.left_out import PARAMETER, SentWith
from asyncsearch.arguments import metric_in_call, metric_in_mapping
from asyncsearch.checking.resume_proof import in_child
from asyncsearch.checking.steps import can_try
from asyncsearch.checking.training_runs import Task, name_of
from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.report.live.display import announced
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.ablation import Ablation
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space
from asyncsearch.store.scratch import temporary_folder
from asyncsearch.study.asked.trainable_source import foreign_uses, given_to_epochs, never_asks_for
from asyncsearch.trainable import Trainable, Trainer, as_function


def require_trainable(trainable: Trainable, metric: str) -> None:
    """Check that a trainable can be called with a trial, and does not treat it as a trial of another library.

    ``metric`` is the study's own, for messages.

    Raises:
        UsageError: it cannot be trained; the message holds the line to write.
    """
    as_function(trainable)
    if isinstance(trainable, type):
        _require_methods(trainable, metric)
        return
    name = getattr(trainable, "__name__", type(trainable).__name__)
    _require_one_argument(trainable, name)
    if inspect.iscoroutinefunction(trainable) or inspect.isasyncgenfunction(trainable):
        raise UsageError(f"{name} is asynchronous, and nobody would await it: write `{_head(name)}`.")
    if inspect.isgeneratorfunction(trainable):
        raise UsageError(
            f"{name} yields, so that a call would train nothing: write trial.report({metric_in_call(metric)}) instead"
            " of yield."
        )
    for found in foreign_uses(trainable, metric):
        raise UsageError(f"{name} would fail in every trial: {found}")


def _require_methods(trainer: type[Trainer], metric: str) -> None:
    """Check that a trainer has what each trial calls."""
    every: object = trainer.evaluate_every
    if every != "judged" and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        raise UsageError(
            f"{trainer.__name__}.evaluate_every={every!r} is neither a number of units from 1 nor 'judged' (only "
            "where the value decides anything): write evaluate_every = 1."
        )
    needed = {"train": "def train(self):", "evaluate": f"def evaluate(self): return {metric_in_mapping(metric)}"}
    for method, line in needed.items():
        if getattr(trainer, method) is getattr(Trainer, method):
            raise UsageError(
                f"{trainer.__name__} has no {method}(), which each unit of training calls: write `{line}`."
            )
    for name, base in _methods_of_ours(trainer).items():
        _require_arguments(trainer, name, base)


def _methods_of_ours(trainer: type[Trainer]) -> dict[str, Callable[..., Any]]:
    """Return the methods of our trainers, by name, that a user's class may write anew."""
    ours = [base for base in trainer.__mro__ if base.__module__.startswith("asyncsearch.")]
    return {
        name: one
        for base in reversed(ours)
        for name, one in vars(base).items()
        if inspect.isfunction(one) and not name.startswith("_")
    }


def _require_arguments(trainer: type[Trainer], name: str, base: Callable[..., Any]) -> None:
    """Check that a method takes what it will be called with."""
    own = inspect.getattr_static(trainer, name)
    if own is base or not inspect.isfunction(own):
        return
    signature, wanted = inspect.signature(own), list(inspect.signature(base).parameters.values())
    given = [one.name for one in wanted if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    try:
        signature.bind(*given)
    except TypeError:
        takes = ", ".join(signature.parameters) or "nothing"
        raise UsageError(
            f"{trainer.__name__}.{name} takes {takes}, and is called with {', '.join(given[1:]) or 'nothing'}: write "
            f"`def {name}({', '.join(given)}):`."
        ) from None


def _require_one_argument(function: Trainable, name: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return
    try:
        signature.bind(object())
    except TypeError:
        pass
    else:
        return
    names = list(signature.parameters)
    if not names:
        raise UsageError(f"{name}() takes no argument, and gets the trial: write `{_head(name)}`.")
    first, rest = names[0], ", ".join(f"{one}=..." for one in names[1:])
    if first in ("trial", "self", "context", "t"):
        raise UsageError(
            f"{name}({', '.join(names)}) gets the trial alone: write Study(functools.partial({name}, {rest}), ...), "
            f"or put what changes into the space."
        )
    lines = "; ".join(f"{one} = trial.params[{one!r}]" for one in names)
    raise UsageError(f"{name}({', '.join(names)}) gets one argument, the trial: write `{_head(name)} {lines}`.")


def _head(name: str) -> str:
    """Return the first line of a function that is trained: a lambda has no name that ``def`` takes."""
    return f"def {name if name.isidentifier() else 'train'}(trial):"


def require_ablated(trainable: Trainable | None, searcher: Searcher, state: SearcherState) -> None:
    """Set each variant up once, in another process, if the searcher is an ``Ablation`` and the trainable a trainer.

    Raises:
        UsageError: a layer or a feature does not exist, or the network cannot be computed without it.
    """
    if not isinstance(searcher, Ablation) or trainable is None or not can_try(trainable):
        return
    base = state.propose(0)
    assert base is not None
    values = [base[PARAMETER], *(one.value for one in searcher.variants())]
    words = f"setting up {name_of(trainable)} in {len(values)} variants, in a process of its own, to see that they fit"
    with announced(words), temporary_folder("ablation") as folder:
        sent = sent_with_functions(trainable, searcher)
        in_child(Task(sent, {**base, PARAMETER: values}, 0, 1, 1, {}, folder), "try variants", [])


def sent_with_functions(trainable: Trainable, searcher: Searcher) -> Any:
    """Return a trainable as it is sent to workers, with the functions of an ``Ablation`` that make variants."""
    functions = searcher.functions() if isinstance(searcher, Ablation) else {}
    return SentWith(trainable, functions) if functions else trainable


def require_pausable(trainable: Trainable, scheduler: Scheduler) -> None:
    """Check that a scheduler that pauses trials got a trainable that does not obviously refuse.

    Raises:
        UsageError: nothing says how many units a ``Trainer`` is to train.
        CannotPauseError: a ``Trainer`` without ``save`` and ``load``, or a function that never loops over
            ``trial.epochs`` with both.
    """
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        if scheduler.max_resource is None and not scheduler.pauses:
            raise UsageError(
                f"{trainable.__name__} trains unit by unit and {_name(scheduler)} does not say how many units: write "
                f"{type(scheduler).__name__}(max_resource=...)."
            )
        if scheduler.pauses and not trainable.can_pause():
            raise CannotPauseError(
                f"{_name(scheduler)} pauses trials, and {trainable.__name__} has no save(path) and load(path). "
                "Write both, or use a scheduler that does not pause, such as ASHA(..., variant='stopping')."
            )
    elif scheduler.pauses and never_asks_for(trainable, "epochs"):
        name = getattr(trainable, "__name__", repr(trainable))
        raise CannotPauseError(
            f"{_name(scheduler)} pauses trials, and {name} does not loop over trial.epochs(). Write `for epoch in "
            "trial.epochs(state={...}):`, or use a scheduler that does not pause: ASHA(..., variant='stopping')."
        )


def require_sequences(trainable: Trainable, space: Space, scheduler: Scheduler, *, share: bool) -> None:
    """Check that values may change during training, where the space or the scheduler says that they do.

    Raises:
        UsageError: nothing says how long trials train, or a ``Trainer`` class has no ``update``.
        CannotPauseError: trials are to share what is equal, and the trainable cannot be resumed where they part.
    """
    if not space.has_sequences and not scheduler.branches:
        return
    if scheduler.max_resource is None:
        raise UsageError(
            f"The space has sequences and {_name(scheduler)} does not say how long trials train: write "
            f"{type(scheduler).__name__}(max_resource=...)."
        )
    name = getattr(trainable, "__name__", repr(trainable))
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        if not trainable.can_update():
            why = "The space has sequences" if space.has_sequences else f"{_name(scheduler)} changes values"
            raise UsageError(
                f"{why} and {name} has no update(hp): write it; it gets the values that change, before the next "
                "train()."
            )
        cannot, wanted = not trainable.can_pause(), "save(path) and load(path)"
    else:
        cannot, wanted = never_asks_for(trainable, "epochs"), "`for epoch in trial.epochs(state={...}):`"
    if share and cannot:
        raise CannotPauseError(
            f"Trials share what they train up to where their sequences part, and {name} cannot go on from there: write "
            f"{wanted}, or let each trial train for itself, Study(..., share=False)."
        )


def can_evaluate(trainable: Trainable) -> bool:
    """Return whether a checkpoint can be evaluated without training.

    That is so for a ``Trainer`` with ``evaluate``, ``save`` and ``load``, and for a function whose source shows that it
    gives ``epochs`` an ``evaluate=``. Of any other the last report before a checkpoint counts.
    """
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        return trainable.can_pause() and trainable.evaluate is not Trainer.evaluate
    return "evaluate" in given_to_epochs(trainable)


def can_save(trainable: Trainable) -> bool:
    """Return whether training can be saved at the end of any unit, so that another worker goes on from there.

    That is so for a ``Trainer`` with ``save`` and ``load``, and for a function whose source shows that it gives
    ``epochs`` a ``state=``, or a ``save=`` and a ``load=``.
    """
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        return trainable.can_pause()
    given = given_to_epochs(trainable)
    return "state" in given or {"save", "load"} <= given


def _name(scheduler: Scheduler) -> str:
    return reasons.short(scheduler.describe())
