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


_sending = threading.RLock()
"""Held while trials are sent: how a class is pickled is one thing in a process, and threads may search at once."""


@contextlib.contextmanager
def sending(trials: Any) -> Iterator[None]:
    """Let trials that an objective has from its closure ask the driver, where they are pickled within."""
    kind = type(trials)

    def reduced(one: Any) -> Any:
        return (WorkerTrials, (one._exp_key,)) if one is trials else one.__reduce_ex__(4)

    with _sending:
        before = copyreg.dispatch_table.get(kind)
        copyreg.pickle(kind, reduced)
        try:
            yield
        finally:
            del copyreg.dispatch_table[kind]
            if before is not None:
                copyreg.dispatch_table[kind] = before


_lines: list[tuple[int, PointLine]] = []
"""That of each present point, with the ident of the thread that evaluates it: only inline there are several."""


@contextlib.contextmanager
def evaluating(line: PointLine) -> Iterator[None]:
    """Let the trials of this process ask by a point's line."""
    pair = threading.get_ident(), line
    _lines.append(pair)
    try:
        yield
    finally:
        _lines.remove(pair)


in_thread = threading.local()
"""Has ``is_evaluating`` set in a thread of the driver that evaluates a point."""


def _line() -> PointLine:
    if not _lines:
        raise UsageError("No point is evaluated here now, so nobody asks the driver for its trials.")
    return next((line for thread, line in _lines if thread == threading.get_ident()), _lines[-1][1])


_searching: list[int] = []
"""Idents of the threads of this process that search on workers."""


@contextlib.contextmanager
def searching() -> Iterator[None]:
    """Note that the calling thread searches on workers."""
    thread = threading.get_ident()
    _searching.append(thread)
    try:
        yield
    finally:
        _searching.remove(thread)


def is_on_worker() -> bool:
    """Return whether a point is evaluated here, so that a search within is Hyperopt's own affair."""
    if _searching:  # the points of this process are those of its searches inline: another thread's are not the caller's
        return threading.get_ident() in [thread for thread, _ in _lines] or getattr(in_thread, "is_evaluating", False)
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
        words = "Trials are changed by the driver: return what a point has found in the result's dictionary."
        error = UsageError(words)
        _line().ask("refuse", error)  # an objective that catches every exception would make a loss of it
        raise error

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
    """The object that ``pass_expr_memo_ctrl`` gives an objective."""

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
