"""The result or the exception of an objective, on its way from the worker to the study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from optuna.exceptions import TrialPruned
from optuna.study import Study
from optuna.study._tell import _check_values_are_feasible
from optuna.trial import TrialState

from asyncsearch.programs.raised import ObjectiveError, TracebackError


class Unusable:
    """A returned value that is no number: it prints as the original does."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


class ObjectiveEnd(NamedTuple):
    """The end of a trial, as its worker saw it."""

    state: str | None
    """PRUNED or FAIL, if the objective raised. None if the study decides by the values."""
    numbers: tuple[float | str, ...] | None = None
    """The returned values: each a number, or in words if it is none. None if it returned None, or raised."""
    is_one: bool = True
    """Whether it returned a single value, not a sequence."""
    shown: str = "None"
    """The returned value in words."""
    error: BaseException | None = None
    """The exception. None if there was none, or it cannot be pickled."""
    text: str = ""
    """Its traceback."""
    kinds: tuple[str, ...] = ()
    """The names of its class and of the bases of that."""

    @property
    def value_or_values(self) -> Any:
        """The returned value, as the study takes it."""
        if self.numbers is None:
            return None
        values = [Unusable(one) if isinstance(one, str) else one for one in self.numbers]
        return values[0] if self.is_one else values

    def state_in(self, study: Study) -> TrialState:
        """Return the state that the study gives the trial, by the rules of Optuna's ``tell``."""
        if self.state is not None:
            return TrialState[self.state]
        if self.numbers is None:
            return TrialState.FAIL
        found = self.value_or_values
        problem = _check_values_are_feasible(study, [found] if self.is_one else found)
        return TrialState.COMPLETE if problem is None else TrialState.FAIL


def end_by_value(value: object) -> ObjectiveEnd:
    """Return the end of a trial whose objective has returned."""
    if value is None:
        return ObjectiveEnd(None)
    is_one = not isinstance(value, Sequence)
    values: Sequence[object] = [value] if is_one else value  # type: ignore[assignment]
    return ObjectiveEnd(None, tuple([_number(one) for one in values]), is_one, _shown(value))


def _number(value: Any) -> float | str:
    try:
        return float(value)
    except (ValueError, TypeError):
        return _shown(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 1_000 else f"{text[:1_000]}..."


def end_by_error(error: BaseException, text: str) -> ObjectiveEnd:
    """Return the end of a trial whose objective has raised."""
    state = "PRUNED" if isinstance(error, TrialPruned) else "FAIL"
    kinds = tuple([f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__])
    return ObjectiveEnd(state, error=error, text=text, kinds=kinds)


def error_of(ended: ObjectiveEnd, catch: tuple[type[Exception], ...]) -> BaseException | None:
    """Return the exception of an objective, with the worker's traceback as its cause. None if it raised none.

    One that could not be sent stands as an ``ObjectiveError``, which is of a class of ``catch`` if the original was.
    """
    if ended.state is None:
        return None
    error = ended.error
    if error is None:
        names = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in catch}
        caught = [names[kind] for kind in ended.kinds if kind in names]
        error = _made_of(caught[0], ended.text) if caught else ObjectiveError(ended.text)
    if ended.text and ended.state == "FAIL":
        error.__cause__ = TracebackError(ended.text)
    return error


def _made_of(kind: type[Exception], text: str) -> Exception:
    both: type[Exception] = ObjectiveError if kind is Exception else type("ObjectiveError", (ObjectiveError, kind), {})
    made = both.__new__(both, text)
    made.args = (text,)
    return made
