"""Answers to calls of a trial's methods that do not fit them: the line to write. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.arguments import metric_in_call, metric_in_mapping
from asyncsearch.errors import UsageError

_EPOCHS = frozenset({"n", "num", "epochs", "num_epochs", "n_epochs", "max_epochs", "max_resource", "start", "stop"})
_HOOKS = {
    "save": "save=lambda path: torch.save(net.state_dict(), path)",
    "load": "load=lambda path: net.load_state_dict(torch.load(path))",
    "update": "update=lambda changed: ...",
    "evaluate": "evaluate=lambda: {metrics}",
}


def of_report(given: Sequence[Any], metric: str) -> str:
    """Return the answer to ``report`` with several arguments without a name; ``metric`` is the study's own."""
    is_named = isinstance(given[0], str)
    line = metric_in_call(given[0], repr(given[1])) if is_named else metric_in_call(metric)
    return f"report() takes named numbers: write trial.report({line}){'' if is_named else ', epochs are counted'}."


def of_epochs(given: Sequence[Any], unknown: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> str:
    """Return the answer to ``epochs`` with arguments that it does not take; ``state`` is what it was given to save."""
    numbers = [value for value in (*given, *unknown.values()) if isinstance(value, int)]
    if numbers and (given or _EPOCHS & set(unknown)):
        begin = "epochs() does not take their number, which is the scheduler's: write Study(..., scheduler="
        if state:
            return f"{begin}ASHA(max_resource={max(numbers)})) and `for epoch in trial.epochs(state={_named(state)}):`."
        return (
            f"{begin}FIFO(max_resource={max(numbers)})) and `for epoch in trial.epochs():`; or, to stop bad trials "
            f"early, scheduler=ASHA(max_resource={max(numbers)}) and "
            '`for epoch in trial.epochs(state={"net": net, "opt": opt}):`.'
        )
    if len(given) == 1 and isinstance(given[0], Mapping):
        return f"epochs() takes its arguments by name: write trial.epochs(state={_named(given[0])})."
    names = dict.fromkeys(unknown) or ("net", "opt")[: max(1, len(given))]
    return f"epochs() takes what it saves as one mapping: write trial.epochs(state={_named(names)})."


def _named(names: Any) -> str:
    return "{" + ", ".join(f'"{name}": {name}' for name in names) + "}"


def require_functions(metric: str, **hooks: Any) -> None:
    """Refuse a path, or the result of a call, where a function is taken; ``metric`` is the study's own.

    Raises:
        UsageError: one is neither None nor a function.
    """
    for name, value in hooks.items():
        if value is not None and not callable(value):
            line = _HOOKS[name].replace("{metrics}", metric_in_mapping(metric))
            raise UsageError(f"epochs({name}=...) is given a {type(value).__name__}: write {line}.")
