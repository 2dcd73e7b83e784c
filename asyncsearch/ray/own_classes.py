"""Classes of a program that derive from Ray's and change what nobody here would call: each is refused or said."""

from __future__ import annotations

from typing import Any

from asyncsearch.errors import UsageError

_ENDS = ["on_trial_result", "on_trial_complete", "save", "restore"]
_SCHEDULER = ["on_trial_add", "on_trial_error", "on_trial_remove", "choose_trial_to_run", *_ENDS]
_SEARCHER = ["suggest", "next_trial", "add_configurations", "add_evaluated_point", "on_pause", "on_unpause", *_ENDS]
_REPORTER = ["report", "should_report", "setup"]


def own_methods(given: Any, names: list[str]) -> list[str]:
    """Return which of some methods the program has written itself."""
    return [name for name in names if hasattr(type(given), name)]


def require_known_scheduler(given: Any) -> None:
    """Refuse a scheduler whose decisions the program has written itself.

    Raises:
        UsageError: with what to write instead.
    """
    if own := own_methods(given, _SCHEDULER):
        raise UsageError(
            f"{type(given).__name__}.{own[0]}() is a scheduler's decision of the program's own, and nobody calls it "
            "here: use the scheduler that it derives from, a Stopper in RunConfig(stop=), or a scheduler of "
            "asyncsearch in a Study (docs/write_your_own_scheduler.md)."
        )


def require_known_algorithm(given: Any) -> None:
    """Refuse an algorithm whose proposals the program has written itself.

    Raises:
        UsageError: with what to write instead.
    """
    if own := own_methods(given, _SEARCHER):
        raise UsageError(
            f"{type(given).__name__}.{own[0]}() is of an algorithm of the program's own, and nobody calls it here: use "
            "OptunaSearch(sampler=), or a searcher of asyncsearch in a Study (docs/searchers.md)."
        )


def without_reporter(given: Any) -> list[str]:
    """Return a sentence on a reporter of progress that the program has written itself."""
    own = own_methods(given, _REPORTER)
    words = f"{type(given).__name__}.{own[0]}() is not called here" if own else ""
    return [f"{words}: a tune.Callback with on_trial_result() sees each report."] if own else []
