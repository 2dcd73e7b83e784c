"""The worker's half: points come from the driver, are evaluated by Hyperopt's own ``Domain``, and results go back.

One point at a time is evaluated in a process, so trials that the objective has from its closure ask on behalf of the
present one.
"""

from __future__ import annotations

import contextlib
import copyreg
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import hyperopt
from hyperopt.base import JOB_VALID_STATES

from asyncsearch.errors import NotPicklableError, UsageError
from asyncsearch.hyperopt.mlflow_runs import in_child
from asyncsearch.programs.changes import Watch, here
from asyncsearch.programs.pickles import pickled, sealed, unsealed
from asyncsearch.programs.raised import Raised, raised_by
from asyncsearch.trainable import TrialContext

METRIC = "loss"


class FailedPointError(Exception):
    """An objective returned a status that is not ok."""


class PointEnd(NamedTuple):
    """The end of an evaluation."""

    result: dict[str, Any] | None
    """As ``Domain.evaluate`` gives it. None if the objective raised."""
    attachments: dict[str, Any]
    raised: Raised | None


class PointLine:
    """The way to the driver, of the point that is evaluated in this process."""

    def __init__(self, context: Any, key: bytes) -> None:
        self._context, self._key = context, key

    def ask(self, kind: str, *arguments: Any) -> Any:
        """Ask the driver, and return its answer.

        Raises:
            Exception: what was raised there.
        """
        state, value = unsealed(self._context.ask(sealed([kind, *arguments], self._key)), self._key)
        if state == "error":
            raise value
        return value

    def tell(self, kind: str, *arguments: Any) -> None:
        """Tell the driver, without waiting."""
        self._context.ask(sealed([kind, *arguments], self._key), is_awaited=False)


@contextlib.contextmanager
def sending(trials: Any) -> Iterator[None]:
    """Let trials that an objective has from its closure ask the driver, where they are pickled within."""
    kind = type(trials)
    before = copyreg.dispatch_table.get(kind)

    def reduced(one: Any) -> Any:
        return (WorkerTrials, (one._exp_key,)) if one is trials else one.__reduce_ex__(4)

    copyreg.pickle(kind, reduced)
    try:
        yield
    finally:
        del copyreg.dispatch_table[kind]
        if before is not None:
            copyreg.dispatch_table[kind] = before


_lines: list[PointLine] = []
"""That of the present point; empty between points."""
in_thread = threading.local()
"""Has ``is_evaluating`` set in a thread of the driver that evaluates a point."""


def _line() -> PointLine:
    if not _lines:
        raise UsageError("No point is evaluated here now, so nobody asks the driver for its trials.")
    return _lines[-1]


def is_on_worker() -> bool:
    """Return whether a point is evaluated here, so that a search within is Hyperopt's own affair."""
    return bool(_lines) or getattr(in_thread, "is_evaluating", False)


class WorkerTrials(hyperopt.Trials):  # type: ignore[misc]  # not typed here
    """Trials as an objective sees them: each look asks the driver."""

    def __init__(self, exp_key: Any) -> None:
        self._exp_key = exp_key

    @property
    def _dynamic_trials(self) -> list[Any]:
        found: list[Any] = _line().ask("trials")
        return found

    @property
    def _trials(self) -> list[Any]:
        return [one for one in self._dynamic_trials if one["state"] in JOB_VALID_STATES]

    @property
    def _ids(self) -> set[Any]:
        return {one["tid"] for one in self._trials}

    @property
    def attachments(self) -> dict[str, Any]:
        found: dict[str, Any] = _line().ask("attachments")
        return found

    def refresh(self) -> None:
        """Do nothing: each look asks anew."""

    def _refuse(self, *_arguments: Any, **_named: Any) -> NoReturn:
        raise UsageError("Trials are changed by the driver: return what a point has found in the result's dictionary.")

    _insert_trial_docs = insert_trial_doc = insert_trial_docs = new_trial_ids = delete_all = fmin = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerTrials, (self._exp_key,)


class _Attachments:
    """The attachments of the present point; as in Hyperopt no dictionary, only items."""

    def __init__(self, own: dict[str, Any]) -> None:
        self._own = own

    def __contains__(self, name: str) -> bool:
        return name in self._own or _line().ask("attachment", name) is not None

    def __getitem__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        found = _line().ask("attachment", name)
        if found is None:
            raise KeyError(name)
        return found[0]

    def __setitem__(self, name: str, value: Any) -> None:
        self._own[name] = value

    def __delitem__(self, name: str) -> None:
        del self._own[name]


class WorkerCtrl(hyperopt.Ctrl):  # type: ignore[misc]  # not typed here
    """What ``pass_expr_memo_ctrl`` gives an objective."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__(WorkerTrials(document["exp_key"]), document)
        self.attached: dict[str, Any] = {}

    def checkpoint(self, r: Any = None) -> None:
        if r is not None:
            self.current_trial["result"] = r
            _line().ask("checkpoint", r)

    @property
    def attachments(self) -> _Attachments:
        return _Attachments(self.attached)

    def inject_results(self, specs: Any, results: Any, miscs: Any, new_tids: Any = None) -> Any:
        return _line().ask("inject", specs, results, miscs, new_tids)


class PointObjective:
    """A program's objective and space as a function of asyncsearch's trial."""

    def __init__(self, function: Callable[..., Any], space: Any, pass_expr_memo_ctrl: bool | None, key: bytes) -> None:
        """``key`` seals what is pickled on the way."""
        self._function, self._space, self._passes, self._key = function, space, pass_expr_memo_ctrl, key
        self._symbols = own_symbols(space)
        self._home = here()
        self._domain: Any = None
        self._is_watched = True
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, trial: TrialContext) -> dict[str, float]:
        line = PointLine(trial, self._key)
        if self._domain is None:
            for name, symbol in self._symbols.items():
                hyperopt.pyll.scope._impls.setdefault(name, symbol)
            self._domain = hyperopt.Domain(self._function, self._space, pass_expr_memo_ctrl=self._passes)
        point = line.ask("begin")
        if point is None:  # the search has ended: this trial was one too many
            return {METRIC: float("nan")}
        spec, document, child = point
        watch, self._is_watched = Watch(self._function, self._home) if self._is_watched else None, False
        _lines.append(line)
        try:
            with in_child(child):
                ended = evaluated(self._domain, spec, WorkerCtrl(document))
            if watch is not None and (names := watch.changed()):
                line.tell("changed", names)
        finally:
            _lines.remove(line)
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
