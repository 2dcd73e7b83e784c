"""Stoppers: objects and functions of a program that say after each report whether a trial, or all, should end."""

from __future__ import annotations

import datetime
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asyncsearch.errors import UsageError


class Stopper:
    """Says whether trials should end; it lives on the driver."""

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Return whether a trial should end."""
        raise NotImplementedError

    def stop_all(self) -> bool:
        """Return whether all trials should end."""
        return False


class NoopStopper(Stopper):
    """Ends nothing."""

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        return False


class FunctionStopper(Stopper):
    """Asks a function of the trial's id and its result."""

    def __init__(self, function: Callable[[str, Mapping[str, Any]], bool]) -> None:
        self._function = function

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        return bool(self._function(trial_id, result))


class MaximumIterationStopper(Stopper):
    """Ends a trial after a number of reports."""

    def __init__(self, max_iter: int) -> None:
        self._most = max_iter
        self._counts: dict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        # Not one more each time: a trial that goes on from a checkpoint trains some iterations again.
        self._counts[trial_id] = getattr(result, "number", 0) or self._counts[trial_id] + 1
        return self._counts[trial_id] >= self._most


class TimeoutStopper(Stopper):
    """Ends all trials after a time."""

    def __init__(self, timeout: float | datetime.timedelta) -> None:
        self._timeout_s = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else float(timeout)
        self._since_s: float | None = None

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        return self.stop_all()

    def stop_all(self) -> bool:
        if self._since_s is None:
            self._since_s = time.monotonic()
        return time.monotonic() - self._since_s >= self._timeout_s


class TrialPlateauStopper(Stopper):
    """Ends a trial whose last values differ little."""

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise UsageError("TrialPlateauStopper(metric_threshold=...) needs mode='min' or mode='max' beside it.")
        self._metric, self._std, self._grace, self._mode = metric, std, grace_period, mode
        self._threshold = metric_threshold
        self._counts: dict[str, int] = defaultdict(int)
        self._values: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=num_results))
        self._num_results = num_results

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        value = result.get(self._metric)
        if value is None:
            return False
        self._counts[trial_id] += 1
        self._values[trial_id].append(value)
        if self._counts[trial_id] < self._grace or len(self._values[trial_id]) < self._num_results:
            return False
        if self._threshold is not None:  # it ends no trial that is not as good yet
            is_far = value > self._threshold if self._mode == "min" else value < self._threshold
            if is_far:
                return False
        return bool(np.std(self._values[trial_id]) < self._std)


class ExperimentPlateauStopper(Stopper):
    """Ends all trials once the best values differ little and no longer improve."""

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        if mode not in ("min", "max"):
            raise UsageError(f"ExperimentPlateauStopper(mode={mode!r}): write mode='min' or mode='max'.")
        if top <= 1:
            raise UsageError(f"ExperimentPlateauStopper(top={top!r}) must be a whole number from 2.")
        self._metric, self._std, self._top, self._mode, self._patience = metric, std, top, mode, patience
        self._best: list[float] = []
        self._is_flat, self._waited = False, 0

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        self._best.append(result[self._metric])
        self._best = sorted(self._best, reverse=self._mode == "max")[: self._top]
        self._is_flat = len(self._best) == self._top and bool(np.std(self._best) <= self._std)
        self._waited = self._waited + 1 if self._is_flat else 0
        return self.stop_all()

    def stop_all(self) -> bool:
        return self._is_flat and self._waited >= self._patience


class CombinedStopper(Stopper):
    """Ends what any of several stoppers ends."""

    def __init__(self, *stoppers: Stopper) -> None:
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        verdicts = [one(trial_id, result) for one in self._stoppers]  # each of them counts every result
        return any(verdicts)

    def stop_all(self) -> bool:
        return any(one.stop_all() for one in self._stoppers)


class BoundStopper(Stopper):
    """Ends a trial that has reached a bound, by >= whatever the direction; in programs it is a dictionary."""

    def __init__(self, bounds: Mapping[str, Any]) -> None:
        self._bounds = dict(bounds)

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        return any(name in result and result[name] >= bound for name, bound in self._bounds.items())


def stopper_of(stop: Any) -> Stopper | None:
    """Return the stopper of ``stop=`` on the driver. None if there is none, or bounds that trials themselves compare.

    Raises:
        UsageError: it is nothing of these.
    """
    if stop is None or isinstance(stop, Mapping):
        return None
    if isinstance(stop, list | tuple):
        return CombinedStopper(*[BoundStopper(one) if isinstance(one, Mapping) else _required(one) for one in stop])
    return _required(stop)


def _required(stop: Any) -> Stopper:
    if isinstance(stop, type):
        raise UsageError(f"stop={stop.__name__} is a class: write {stop.__name__}(...).")
    if isinstance(stop, Stopper):
        return stop
    if callable(stop):
        return FunctionStopper(stop)
    raise UsageError(
        f"stop={stop!r}: write a dictionary {{'accuracy': 0.9}}, a Stopper, or a function of id and result."
    )
