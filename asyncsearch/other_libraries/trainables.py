"""Models where a trainable is taken, and all that a function does with its trial as in other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.arguments import metric_in_call, metric_in_mapping
from asyncsearch.errors import UsageError
from asyncsearch.other_libraries.names import attribute_answer

_DOMAINS = {"int": "randint(1, 4)", "categorical": "choice('a', 'b')", "loguniform": "loguniform(1e-4, 1e-1)"}
"""End of a method ``suggest_`` of Optuna -> the domain."""
_EPOCHS = frozenset({"n", "num", "epochs", "num_epochs", "n_epochs", "max_epochs", "max_resource", "start", "stop"})
_HOOKS = {
    "save": "save=lambda path: torch.save(net.state_dict(), path)",
    "load": "load=lambda path: net.load_state_dict(torch.load(path))",
    "update": "update=lambda changed: ...",
    "evaluate": "evaluate=lambda: {metrics}",
}


def answer_on_trial(attribute: str, metric: str = "loss") -> str:
    """Return the text to write instead of an attribute of a trial elsewhere. Empty if it is not known.

    ``metric`` is the study's own.
    """
    if attribute.startswith("suggest_"):
        domain = _DOMAINS.get(attribute.removeprefix("suggest_"), "uniform(0.0, 1.0)")
        return (
            f"values are proposed before a trial: write Study(..., space={{'x': {domain}}}) and read trial.params['x']."
        )
    answer = attribute_answer("trial", attribute).replace("{metric}", metric_in_call(metric))
    return answer and f"{answer}."


def answer_on_model(given: object) -> str:
    """Return the answer to a model, or to None, where a trainable is taken."""
    kind = given if isinstance(given, type) else type(given)
    bases = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in kind.__mro__}
    name = kind.__name__
    make = f"{name}(**trial.params)"
    if given is None:
        return (
            "None is not a trainable: pass a function of a trial, as in Study(train, ...). Study(train(...), ...) "
            "passes what it returns"
        )
    if not bases.isdisjoint({"lightning.LightningModule", "pytorch_lightning.LightningModule"}):
        return (
            f"{name} is a model, not a trainable: write `def train(trial):` with model = {make}, and fit it there, "
            "L.Trainer(...).fit(model, data)"
        )
    if "torch.Module" in bases or "keras.Model" in bases or "keras.Layer" in bases:
        return (
            f"{name} is a model, not a trainable: write `def train(trial):`, and in it net = {make}, its training, and "
            "trial.report(...) after each epoch; or derive a TorchTrainer or a KerasTrainer that builds it"
        )
    if hasattr(kind, "fit"):
        return (
            f"{name} is an estimator, not a trainable: write `def train(trial): return "
            f"cross_val_score({make}, x, y).mean()`"
        )
    return (
        f"{given!r} is not a trainable: pass a function of a trial, or a class derived from asyncsearch.Trainer (the "
        "class, not an object of it)"
    )


def answer_on_report(given: Sequence[Any], metric: str) -> str:
    """Return the answer to ``report`` with several arguments without a name; ``metric`` is the study's own."""
    is_named = isinstance(given[0], str)
    line = metric_in_call(given[0], repr(given[1])) if is_named else metric_in_call(metric)
    return f"report() takes named numbers: write trial.report({line}){'' if is_named else ', epochs are counted'}."


def answer_on_epochs(given: Sequence[Any], unknown: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> str:
    """Return the answer to ``epochs`` with arguments that it does not take; ``state`` holds the objects to save."""
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


def hinted(text: str, error: BaseException, params: Mapping[str, Any]) -> str:
    """Return the text of a failure, whose last line names the cause, with the hint there is at its end."""
    try:
        import traceback

        frames = traceback.extract_tb(error.__traceback__)
        hint = hint_on(error, frames[-1].line or "" if frames else "", params)
    except Exception:  # an exception of the user's may answer anything
        return text
    return f"{text} ({hint})" if hint else text


def hint_on(error: BaseException, line: str, params: Mapping[str, Any]) -> str:
    """Return the text to write instead.

    Args:
        error: as raised by the user's function.
        line: the line of its code that raised. Empty if it is not known.
        params: the parameters of the trial.

    Returns:
        A clause. Empty if the error has nothing to do with the trial.
    """
    if isinstance(error, KeyError) and "params[" in line:
        return _on_key(error.args[0] if error.args else None, params)
    if type(error).__name__ == "TrialPruned" and type(error).__module__.startswith("optuna"):
        return (
            "which counts as a failure: leave it out, the scheduler ends trials that are not worth finishing at their "
            "next trial.report(...); to give one up, report what it has and return"
        )
    if isinstance(error, AttributeError) and "params." in line and error.name in params:
        return f"write trial.params[{error.name!r}]"
    if (
        isinstance(error, TypeError)
        and "object is not iterable" in str(error)
        and line.rstrip(": ").endswith(".epochs")
    ):
        return "write `for epoch in trial.epochs():`"
    if isinstance(error, TypeError) and "object is not callable" in str(error) and ".should_stop()" in line:
        return "write trial.should_stop"
    return ""


def _on_key(key: object, params: Mapping[str, Any]) -> str:
    if not isinstance(key, str) or key in params or not params:
        return ""
    import difflib

    near = difflib.get_close_matches(key, params, 1) or list(params)
    return f"trial.params has {', '.join(map(repr, params))}: write trial.params[{near[0]!r}]"
