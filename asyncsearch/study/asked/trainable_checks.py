"""Checks of a trainable before the search: its arguments, methods and source, and its variants in an ablation study."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from asyncsearch.ablation.left_out import PARAMETER, SentWith
from asyncsearch.arguments import metric_in_call, metric_in_mapping
from asyncsearch.checking.resume_proof import in_child
from asyncsearch.checking.steps import can_try
from asyncsearch.checking.training_runs import Task, name_of
from asyncsearch.errors import UsageError
from asyncsearch.other_libraries.trainables import answer_on_trial
from asyncsearch.report.live.display import announced
from asyncsearch.searchers.ablation import Ablation
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.store.scratch import temporary_folder
from asyncsearch.study.asked.requirements import source_of, trial_argument
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
    for found in _foreign_uses(trainable, metric):
        raise UsageError(f"{name} would fail in every trial: {found}")


def _require_methods(trainer: type[Trainer], metric: str) -> None:
    """Check that a trainer has what each trial calls."""
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


def _foreign_uses(function: Trainable, metric: str) -> Iterator[str]:
    """Yield the uses of its trial, in the source, that no trial allows.

    A wrapper may give the function something else than the trial, and a name that is bound again is something else.
    """
    tree = None if hasattr(function, "__wrapped__") else source_of(function)
    name = trial_argument(function, tree)
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list or not name:
        return
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    bound = [node for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg == name]
    if any(not isinstance(node.ctx, ast.Load) for node in uses) or len(bound) > 1:
        return
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str() as key)) if owner == name:
                yield f"{name} is a trial, no mapping. Write `def {tree.name}(trial):` and trial.params[{key!r}]."
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == name:
                answer = answer_on_trial(attribute, metric)
                if answer:
                    yield f"a trial has no {attribute}: {answer}"
            case _:
                pass


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
