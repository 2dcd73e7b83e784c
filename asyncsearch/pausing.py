"""Whether a trainable can be paused, as far as that can be known before it runs."""

from __future__ import annotations

import ast
import inspect
import textwrap

from asyncsearch.errors import CannotPauseError
from asyncsearch.schedulers.base import Scheduler
from asyncsearch.trainable import Trainable, Trainer


def require_pausable(trainable: Trainable, scheduler: Scheduler) -> None:
    """Check that a scheduler that pauses trials got a trainable that does not obviously refuse.

    Raises:
        CannotPauseError: a ``Trainer`` without ``save`` and ``load``, or a function that never loops over
            ``trial.epochs`` with both.
    """
    if not scheduler.pauses:
        return
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        if not trainable.can_pause():
            raise CannotPauseError(
                f"{scheduler.describe()} pauses trials, and {trainable.__name__} has no save(path) and load(path). "
                "Write both, or use a scheduler that does not pause, such as ASHA(..., variant='stopping')."
            )
    elif _never_loops_over_epochs(trainable):
        name = getattr(trainable, "__name__", repr(trainable))
        raise CannotPauseError(
            f"{scheduler.describe()} pauses trials, and {name} does not loop over trial.epochs(save=..., load=...). "
            "Write that loop, or use a scheduler that does not pause, such as ASHA(..., variant='stopping')."
        )


def _never_loops_over_epochs(function: object) -> bool:
    """Whether the source shows that the trial never leaves the function and ``epochs`` is never asked for."""
    try:
        source = textwrap.dedent(inspect.getsource(function))  # type: ignore[arg-type]
        tree = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return False
    if not isinstance(tree, ast.FunctionDef) or not tree.args.args:
        return False
    name = tree.args.args[0].arg
    owners = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    if any(id(node) not in owners for node in uses):
        return False
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _is_name(n.value, name)}
    return "epochs" not in attributes


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
