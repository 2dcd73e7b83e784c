"""The worker's half: points come from the driver, are evaluated by Hyperopt's own ``Domain``, and results go back."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple

import hyperopt

from asyncsearch.errors import NotPicklableError
from asyncsearch.hyperopt.mlflow_runs import in_child
from asyncsearch.hyperopt.worker_trials import PointLine, WorkerCtrl, evaluating
from asyncsearch.programs.changes import Watch, here
from asyncsearch.programs.pickles import pickled
from asyncsearch.programs.raised import Raised, raised_by
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import UNWANTED

METRIC = "loss"


class FailedPointError(Exception):
    """An objective returned a status that is not ok."""


class PointEnd(NamedTuple):
    """The end of an evaluation."""

    result: dict[str, Any] | None
    """As ``Domain.evaluate`` gives it. None if the objective raised."""
    attachments: dict[str, Any]
    raised: Raised | None


class PointObjective:
    """A program's objective and space as a function of asyncsearch's trial."""

    def __init__(self, function: Callable[..., Any], space: Any, pass_expr_memo_ctrl: bool | None) -> None:
        self._function, self._space, self._passes = function, space, pass_expr_memo_ctrl
        self._symbols = own_symbols(space)
        self._home = here()
        self._domain: Any = None
        self._is_watched = True
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, trial: TrialContext) -> dict[str, float]:
        line = PointLine(trial)
        if self._domain is None:
            for name, symbol in self._symbols.items():
                hyperopt.pyll.scope._impls.setdefault(name, symbol)
            self._domain = hyperopt.Domain(self._function, self._space, pass_expr_memo_ctrl=self._passes)
        point = line.ask("begin")
        if point is None:
            trial.stop(UNWANTED)
        spec, document, child = point
        watch, self._is_watched = Watch(self._function, self._home) if self._is_watched else None, False
        with evaluating(line):
            with in_child(child):
                ended = evaluated(self._domain, spec, WorkerCtrl(document))
            if watch is not None and (names := watch.changed()):
                line.tell("changed", names)
        line.ask("end", ended)
        if ended.result is None:
            assert ended.raised is not None
            raise ended.raised.exception()
        if ended.result.get("status") != hyperopt.STATUS_OK:
            raise FailedPointError(f"its status is {ended.result.get('status')!r}")
        return {METRIC: ended.result["loss"]}


def own_symbols(space: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions of a space that the program itself has defined, by ``scope.define``."""
    known = hyperopt.pyll.scope._impls
    names = sorted({node.name for node in hyperopt.pyll.dfs(hyperopt.pyll.as_apply(space))} & known.keys())
    found = {name: known[name] for name in names}
    return {
        name: one
        for name, one in found.items()
        if isinstance(one, types.FunctionType) and one.__module__.partition(".")[0] != "hyperopt"
    }


def evaluated(domain: Any, spec: dict[str, Any], ctrl: WorkerCtrl) -> PointEnd:
    """Evaluate a point, and return how it ended, in a form that can be sent."""
    try:
        result = domain.evaluate(spec, ctrl)
        _require_sendable(result, "result")
        _require_sendable(ctrl.attached, "attachments")
    except Exception as error:
        return PointEnd(None, {}, raised_by(error))
    return PointEnd(result, ctrl.attached, None)


def _require_sendable(values: dict[str, Any], what: str) -> None:
    """Name the value of a result that cannot be sent.

    Raises:
        NotPicklableError: with its key.
    """
    try:
        pickled(values)
    except Exception as error:
        for key, value in values.items():
            try:
                pickled(value)
            except Exception as own:
                kind = f"{type(value).__module__}.{type(value).__qualname__}"
                words = f"The {what} {key!r} is a {kind}, which cannot be sent from a worker ({own})"
                raise NotPicklableError(f"{words}: return what it was made of, or leave it out.") from own
        raise NotPicklableError(f"The {what} cannot be sent from a worker: {error}") from error
