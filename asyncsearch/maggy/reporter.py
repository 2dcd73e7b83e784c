"""The worker's half of an experiment: the program's function, called as Maggy calls it, and its ``reporter``.

What a function broadcasts and what it returns are two metrics: the first stops trials, the second ranks them.
"""

from __future__ import annotations

import inspect
import numbers
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.maggy import tensorboard
from asyncsearch.maggy.ablation import AblationCall
from asyncsearch.maggy.earlystop import BROADCAST
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import Params

ALL_SENT = 128
"""Broadcasts of a trial that are all sent; of those of thousands of batches, later ones at most one in
``hb_interval``."""


class BroadcastError(UsageError, ValueError, TypeError):
    """Something was broadcast that is no number, or a step that goes back."""


class ReturnTypeError(UsageError, TypeError):
    """The function returned nothing that could be its result."""


class Reporter:
    """The object that Maggy gives a function that takes ``reporter``."""

    def __init__(self, trial: TrialContext, hb_interval: float) -> None:
        self.trial_id = trial.name
        self._trial, self._hb_interval = trial, hb_interval
        self._lock = threading.RLock()
        self.step: float = -1
        self.metric: float | None = None
        self._sent, self._sent_s = 0, 0.0

    def broadcast(self, metric: Any, step: Any = None) -> None:
        """Send a metric to the driver, which may end the trial.

        Args:
            metric: a number.
            step: a number that never goes down, such as the epoch. None means one more than before.

        Raises:
            BroadcastError: one of the two is no number, or the step went back.
            TrialStopped: the trial is stopped early.
        """
        with self._lock:
            value = _number(metric, "metric")
            place = self.step + 1 if step is None else _number(step, "step")
            if place < self.step:
                raise BroadcastError(f"reporter.broadcast(step={step!r}): the step before was {self.step:g}.")
            is_new, self.step, self.metric = place > self.step, place, value
            if is_new and self._is_due():
                self._trial.report({BROADCAST: value}, resource=max(self._trial.resource, int(place)) + 1)

    def _is_due(self) -> bool:
        now = time.monotonic()
        if self._sent >= ALL_SENT and now - self._sent_s < self._hb_interval:
            return False
        self._sent, self._sent_s = self._sent + 1, now
        return True

    def log(self, log_msg: Any, jupyter: bool = False) -> None:
        """Print a line, which is in the trial's log and, where logs are shown, on the driver at once.

        Args:
            log_msg: the line.
            jupyter: as in Maggy; here every line reaches the driver.
        """
        print(log_msg, flush=True)  # noqa: T201  # the log of a trial is what it prints

    def get_trial_id(self) -> str:
        """Return the trial's name."""
        return self.trial_id


def _number(value: Any, what: str) -> float:
    if isinstance(value, numbers.Real) or (type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0):
        return float(value)
    raise BroadcastError(
        f"reporter.broadcast: the {what} must be a number, and is {value!r} ({type(value).__name__}): write float(...)."
    )


GIVEN = ("hparams", "reporter", "model", "dataset")
"""Arguments of a function that are not hyper-parameters, unless the search space has one of that name."""


class LagomFunction:
    """A program's function as a function of asyncsearch's trial."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        key: str,
        hidden: tuple[str, ...] = (),
        given: Mapping[str, Any] | None = None,
        call: AblationCall | None = None,
        hb_interval: float = 1.0,
    ) -> None:
        """Take a function.

        Args:
            function: the program's own.
            key: the name of the metric that ranks: that of a number that it returns, or an entry of a dictionary.
            hidden: parameters of the search that are not the function's.
            given: ``model`` and ``dataset``, for a function that takes them.
            call: what else a function of an ablation study may take.
            hb_interval: see ``ALL_SENT``.
        """
        self.function, self._key, self._hidden = function, key, hidden
        self._given, self._call, self._hb_interval = dict(given or {}), call, hb_interval
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)

    def __call__(self, trial: TrialContext) -> dict[str, Any]:
        reporter = Reporter(trial, self._hb_interval)
        params = {name: value for name, value in trial.params.items() if name not in self._hidden}
        with tensorboard.folder_of(trial):
            returned = self.function(**self._arguments(trial, params, reporter))
        return result_of(returned, self._key, self.__name__)

    def _arguments(self, trial: TrialContext, params: Params, reporter: Reporter) -> dict[str, Any]:
        """Return the arguments that the function takes, of all that there are."""
        more = {} if self._call is None else self._call.arguments(trial)
        available = {**self._given, **more, "hparams": params, "reporter": reporter, **params}
        takes = inspect.signature(self.function).parameters
        takes_all = any(one.kind is one.VAR_KEYWORD for one in takes.values())
        return {name: value for name, value in available.items() if name in takes or (takes_all and name in params)}


def require_arguments(function: Any, params: tuple[str, ...], given: tuple[str, ...] = ()) -> None:
    """Check that a function takes every hyper-parameter, and that it gets all that it needs.

    Raises:
        UsageError: it does not; nothing was started.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function):
        raise UsageError(f"lagom({function!r}): the first argument is the function that trains.")
    takes = inspect.signature(function).parameters
    takes_all = "hparams" in takes or any(one.kind is one.VAR_KEYWORD for one in takes.values())
    missing = [] if takes_all else [one for one in params if one not in takes]
    if missing:
        raise UsageError(
            f"{name} does not take {', '.join(map(repr, missing))} of the search space: add "
            f"{'them' if len(missing) > 1 else 'it'} to its arguments, or let it take `hparams`, a dictionary of all."
        )
    known = {*params, "hparams", "reporter", *given}
    unknown = [
        one.name
        for one in takes.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    unknown = [one for one in unknown if one not in known]
    if unknown:
        raise UsageError(
            f"{name} needs {', '.join(map(repr, unknown))}, which nobody gives it: a function gets the "
            "hyper-parameters by name or as `hparams`, and `reporter`; with a config also `model` and `dataset`."
        )


def result_of(returned: Any, key: str, name: str) -> dict[str, Any]:
    """Return the result of a function as metrics: its result under the key, and the other numbers of a dictionary.

    Raises:
        ReturnTypeError: there is no number that could be the result.
    """
    if not isinstance(returned, Mapping):
        return {key: _result(returned, key, name)}
    if key in returned:
        result = returned[key]
    elif key.lower() == "metric" and returned:
        result = next(iter(returned.values()))  # as Maggy 1.x does without an optimization_key
    else:
        raise ReturnTypeError(
            f"{name} returned a dictionary without the optimization key {key!r}; it has "
            f"{', '.join(map(repr, returned)) or 'nothing'}: write optimization_key= with one of these."
        )
    others, dropped = {}, []
    for one, value in returned.items():
        if isinstance(value, numbers.Real) and one not in (key, BROADCAST):
            others[str(one)] = value
        elif one != key:
            dropped.append(str(one))
    if dropped:
        print(f"asyncsearch: not recorded, since they are no numbers: {', '.join(dropped)}", flush=True)  # noqa: T201
    return {key: _result(result, key, name), **others}


def _result(value: Any, key: str, name: str) -> float:
    try:
        return _number(value, "result")
    except BroadcastError:
        raise ReturnTypeError(
            f"{name} returned {value!r} ({type(value).__name__}): return a number, or a dictionary with a number under "
            f"{key!r}."
        ) from None
