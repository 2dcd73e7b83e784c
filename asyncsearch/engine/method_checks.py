"""Checks of the first answers of a study's searcher and scheduler, before anything is launched.

They are for methods that users write: an invalid answer should not appear first on a cluster. The suites of
``asyncsearch.testing`` check everything else.
"""

from __future__ import annotations

from typing import Any

from asyncsearch.arguments import is_unicode
from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.plan.keys import canonical
from asyncsearch.schedulers.base_scheduler import Scheduler, SchedulerState
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space

_FIRST = TrialId(0)


def require_proposal(searcher: Searcher, state: Any, space: Space) -> None:
    """Check the first proposal of a searcher; ``state`` is the result of its ``begin``.

    Raises:
        UsageError: ``begin`` returned no state, or a proposed value is not plain.
        SpaceError: the proposal is not in the space.
    """
    name = _require_described(searcher)
    if not isinstance(state, SearcherState):
        raise UsageError(f"{name}.begin() returned {state!r}: it must return an object derived from SearcherState.")
    params: Any = state.propose(0)
    if params is None:
        return
    if not isinstance(params, dict):
        raise UsageError(f"{name} proposed {params!r}: propose() must return a dict of params, or None for no more.")
    try:
        space.validate(params)
        canonical(params)
    except SpaceError as error:
        raise SpaceError(f"{name} proposed what the space does not have. {error}") from error
    except TypeError as error:
        raise UsageError(
            f"{name} proposed {params!r}: {error}. Write plain values of Python, e.g. float(x) of a numpy.float64."
        ) from error


def require_target(scheduler: Scheduler, state: Any) -> None:
    """Check a scheduler's target for the first trial; ``state`` is the result of its ``begin``.

    Raises:
        UsageError: ``begin`` returned no state, or the target is not a number of units up to ``max_resource``.
    """
    name = _require_described(scheduler)
    if not isinstance(state, SchedulerState):
        raise UsageError(f"{name}.begin() returned {state!r}: it must return an object derived from SchedulerState.")
    target: Any = state.first_target(_FIRST)
    end = scheduler.max_resource
    if target is None:
        return
    if isinstance(target, bool) or not isinstance(target, int) or target < 1 or (end is not None and target > end):
        most = "" if end is None else f" to max_resource={end}"
        raise UsageError(
            f"{name}: first_target() returned {target!r}: it must return units of training, an integer from 1{most}, "
            "or None for until the function returns."
        )


def _require_described(chosen: Scheduler | Searcher) -> str:
    words: Any = chosen.describe()
    if not isinstance(words, str) or not words or not is_unicode(words):
        raise UsageError(f"{type(chosen).__name__}.describe() returned {words!r}: it must return a line of text.")
    return type(chosen).__name__
