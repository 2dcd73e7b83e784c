"""Requirements of scheduler and space on a trainable, as far as they can be checked before it runs."""

from __future__ import annotations

import ast
import inspect
import textwrap

from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.space import Space
from asyncsearch.trainable import Trainable, Trainer


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
    elif scheduler.pauses and _never_loops_over_epochs(trainable):
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
        cannot, wanted = _never_loops_over_epochs(trainable), "`for epoch in trial.epochs(state={...}):`"
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
    return "evaluate" in _given_to_epochs(trainable)


def can_save(trainable: Trainable) -> bool:
    """Return whether training can be saved at the end of any unit, so that another worker goes on from there.

    That is so for a ``Trainer`` with ``save`` and ``load``, and for a function whose source shows that it gives
    ``epochs`` a ``state=``, or a ``save=`` and a ``load=``.
    """
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        return trainable.can_pause()
    given = _given_to_epochs(trainable)
    return "state" in given or {"save", "load"} <= given


def _given_to_epochs(function: object) -> set[str]:
    """Return the names of what a function gives ``trial.epochs()`` by its source, None excepted."""
    tree = source_of(function)
    calls = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        keyword.arg or ""
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "epochs"
        for keyword in call.keywords
        if not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
    }


def _never_loops_over_epochs(function: object) -> bool:
    """Whether the source shows that the trial never leaves the function and ``epochs`` is never asked for."""
    tree = source_of(function)
    name = trial_argument(function, tree)
    if tree is None or not name:
        return False
    owners = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    if any(id(node) not in owners for node in uses):
        return False
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _is_name(n.value, name)}
    return "epochs" not in attributes


def trial_argument(function: object, tree: ast.stmt | None) -> str:
    """Return the name under which a function gets its trial, by its source; empty if the source does not say."""
    if not isinstance(tree, ast.FunctionDef):
        return ""
    names = [arg.arg for arg in (*tree.args.posonlyargs, *tree.args.args)][inspect.ismethod(function) :]
    return names[0] if names else ""


def source_of(function: object) -> ast.stmt | None:
    """Return the source of a function as a tree; None where it cannot be had."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _name(scheduler: Scheduler) -> str:
    return reasons.short(scheduler.describe())
