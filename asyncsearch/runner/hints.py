"""What to write instead, for Python's own errors about the parameters and methods of a trial. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
    """Return what to write instead.

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
