"""The driver's trials as a worker sees them: each look asks the driver.

One point at a time is evaluated in a process, so trials that the objective has from its closure ask on behalf of the
present one.
"""

from __future__ import annotations

import contextlib
import copyreg
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import hyperopt
from hyperopt.base import JOB_VALID_STATES

from asyncsearch.errors import UsageError
from asyncsearch.programs.pickles import pickled, unpickled


class PointLine:
    """The way to the driver, of the point that is evaluated in this process."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def ask(self, kind: str, *arguments: Any) -> Any:
        """Ask the driver, and return its answer.

        Raises:
            Exception: what was raised there.
        """
        state, value = unpickled(self._context.ask(pickled([kind, *arguments])))
        if state == "error":
            raise value
        return value

    def tell(self, kind: str, *arguments: Any) -> None:
        """Tell the driver, without waiting."""
        self._context.ask(pickled([kind, *arguments]), is_awaited=False)


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


@contextlib.contextmanager
def evaluating(line: PointLine) -> Iterator[None]:
    """Let the trials of this process ask by a point's line."""
    _lines.append(line)
    try:
        yield
    finally:
        _lines.remove(line)


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
