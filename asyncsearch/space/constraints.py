"""Constraints: the user's functions of params that say whether a configuration is allowed.

Rule 1: as pure as the user's functions; nothing is kept between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from asyncsearch.errors import SpaceError
from asyncsearch.space.parameter_values import a_type, is_numpy_scalar, show
from asyncsearch.trial import Params

if TYPE_CHECKING:
    import numpy as np

Constraint: TypeAlias = "Callable[[Params], bool | np.bool_]"


def parse_constraints(constraints: Any) -> tuple[Constraint, ...]:
    """Return the constraints as a tuple.

    Raises:
        SpaceError: not an iterable of callables.
    """
    if callable(constraints):
        raise SpaceError(f"constraints={show(constraints)}: write a list, constraints=[...].")
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        raise SpaceError(f"constraints={show(constraints)}: write a list of functions of params that return a bool.")
    parsed = tuple(constraints)
    for index, constraint in enumerate(parsed):
        if not callable(constraint):
            raise SpaceError(
                f"constraints[{index}]: {show(constraint)} is {a_type(constraint)}, it cannot be called: "
                "write a function of params that returns a bool, e.g. lambda params: params['a'] < params['b']."
            )
    return parsed


def first_failing(constraints: Sequence[Constraint], make_params: Callable[[], Params]) -> int | None:
    """Return the index of the first constraint that rejects the params, or None.

    ``make_params`` makes them anew for each constraint: one that changes its argument would otherwise change the trial.

    Raises:
        SpaceError: a constraint raises, or returns no bool.
    """
    for index in range(len(constraints)):
        if not _passes(constraints, index, make_params()):
            return index
    return None


def name_constraint(constraints: Sequence[Constraint], index: int) -> str:
    """Return how people find a constraint: ``constraints[0] (lambda at search.py:12)``."""
    constraint = constraints[index]
    name = getattr(constraint, "__name__", type(constraint).__name__)
    code = getattr(constraint, "__code__", None)
    place = f" at {PurePath(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""
    return f"constraints[{index}] ({'lambda' if name == '<lambda>' else name}{place})"


def _passes(constraints: Sequence[Constraint], index: int, params: Params) -> bool:
    try:
        result: Any = constraints[index](params)
    except Exception as error:
        hint = " It must return True or False for every configuration."
        if isinstance(error, KeyError):
            hint = " A parameter is absent where its conditions do not hold: use params.get(name)."
        raise SpaceError(
            f"{name_constraint(constraints, index)} raised {type(error).__name__}: {error} for {show(params)}.{hint}"
        ) from error
    if not isinstance(result, bool) and not (is_numpy_scalar(result) and isinstance(result.item(), bool)):
        hint = " Is a return missing?" if result is None else ""
        raise SpaceError(
            f"{name_constraint(constraints, index)} returned {show(result)} ({a_type(result)}) for {show(params)}: "
            f"it must return True or False.{hint}"
        )
    return bool(result)
