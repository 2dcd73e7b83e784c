"""Early stopping by what trials broadcast: Maggy's median rule, none, or a policy of the program's own.

The median rule, by the broadcasts of trials::

    after es_min trials have ended, at each es_interval-th step of a trial but the first:
        stop it if its best broadcast is worse than the median of the averages, over the broadcasts up to there,
        of the trials that ended and came as far

Unlike ``asyncsearch.MedianStopping`` it compares with trials that have ended alone, each with its whole history. It
judges by broadcasts, which are often values of the training, and ranks nothing: results are what functions return.
"""

from __future__ import annotations

import abc
import bisect
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.space import Space
from asyncsearch.trial import Params

BROADCAST = "broadcast"
"""The metric under which trials report what they broadcast."""


class History:
    """A trial as a policy sees it: what it has broadcast so far."""

    def __init__(self, trial: TrialId, params: Params) -> None:
        self.trial_id, self.params = trial_name(trial), params
        self.resources: list[int] = []
        """Steps, counted from 1."""
        self.metric_history: list[float] = []
        self._sums: list[float] = []

    @property
    def step_history(self) -> list[int]:
        """The steps, counted from 0 as Maggy does."""
        return [resource - 1 for resource in self.resources]

    def add(self, resource: int, value: float | None) -> None:
        """Add a broadcast; None stands for one that is not finite."""
        number = math.nan if value is None else value
        self.resources.append(resource)
        self.metric_history.append(number)
        self._sums.append((self._sums[-1] if self._sums else 0.0) + number)

    def average(self, resource: int) -> float | None:
        """Return the average up to a resource. None if it did not come so far."""
        if not self.resources or self.resources[-1] < resource:
            return None
        count = bisect.bisect_right(self.resources, resource)
        return self._sums[count - 1] / count if count else None


class AbstractEarlyStop(abc.ABC):
    """Maggy's interface of a policy: derive from it, and give an object of it as ``es_policy``."""

    @staticmethod
    @abc.abstractmethod
    def earlystop_check(to_check: Any, finalized_trials: Sequence[Any], direction: str) -> Any:
        """Return the ``trial_id`` of ``to_check`` if it is to be stopped, else None. It must not change anything.

        Args:
            to_check: the trial, with ``trial_id``, ``params``, ``metric_history`` and ``step_history``.
            finalized_trials: those that have ended, of the same kind, in the order of their ends.
            direction: ``"min"`` or ``"max"``.
        """


class MedianStoppingRule(AbstractEarlyStop):
    """The median rule, the default."""

    @staticmethod
    def earlystop_check(to_check: Any, finalized_trials: Sequence[Any], direction: str) -> Any:
        return to_check.trial_id if _below_median(to_check, finalized_trials, direction) else None


class NoStoppingRule(AbstractEarlyStop):
    """No trial is stopped."""

    @staticmethod
    def earlystop_check(to_check: Any, finalized_trials: Sequence[Any], direction: str) -> Any:
        return None


def _below_median(trial: History, ended: Sequence[History], direction: str) -> str:
    """Return the reason to stop a trial by the median rule. Empty if it goes on."""
    found = [trial.metric_history and one.average(trial.resources[-1]) for one in ended]
    averages = [one for one in found if isinstance(one, float)]
    if not averages:
        return ""
    worst = -math.inf if direction == "max" else math.inf
    median = statistics.median([worst if math.isnan(one) else one for one in averages])
    values = [worst if math.isnan(one) else one for one in trial.metric_history]
    best = max(values) if direction == "max" else min(values)
    if not (best < median if direction == "max" else best > median):
        return ""
    word = "trial" if len(averages) == 1 else "trials"
    return (
        f"its best broadcast {best:.6g} is worse than {median:.6g}, the median of the averages of {len(averages)} "
        f"finished {word} up to there"
    )


@dataclass(frozen=True, kw_only=True)
class BroadcastStopping(Scheduler):
    """Train every trial until its function returns, unless a policy stops it by what it broadcasts.

    Args:
        policy: ``"median"``, or an object with ``earlystop_check``.
        es_min: no trial is judged until more than this many have ended.
        es_interval: a trial is judged at every step that this divides, but not at its first one.
        direction: ``"min"`` or ``"max"``.
    """

    policy: Any = "median"
    es_min: int = 10
    es_interval: int = 1
    direction: str = "max"

    @property
    def pauses(self) -> bool:
        return False

    @property
    def max_resource(self) -> int | None:
        return None

    def begin(self, space: Space | None = None, seed: int = 0) -> BroadcastState:
        return BroadcastState(self)

    def describe(self) -> str:
        policy = self.policy if isinstance(self.policy, str) else type(self.policy).__name__
        return f"early stopping by {policy} of broadcasts: es_min={self.es_min}, es_interval={self.es_interval}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return [RungForecast(0, None, num_trials)]

    def warnings(self, num_trials: int | None) -> list[str]:
        if num_trials is None or num_trials > self.es_min + 1:
            return []
        words = f"No trial is stopped early: that begins once more than es_min={self.es_min} have ended, and there are"
        return [f"{words} {num_trials}. Use a smaller es_min for it, or es_policy='none'."]


class BroadcastState(SchedulerState):
    """The histories of all trials."""

    watches = BROADCAST

    def __init__(self, scheduler: BroadcastStopping) -> None:
        self._scheduler = scheduler
        self._running: dict[TrialId, History] = {}
        self._ended: list[History] = []

    def first_target(self, trial: TrialId) -> int | None:
        return None

    def created(self, trial: TrialId, params: Params) -> None:
        self._running[trial] = History(trial, params)

    def watched(self, trial: TrialId, resource: int, value: float | None) -> None:
        if trial in self._running:
            self._running[trial].add(resource, value)

    def judge(self, trial: TrialId, resource: int) -> str | None:
        scheduler, history = self._scheduler, self._running.get(trial)
        if history is None or not history.resources or history.resources[-1] != resource:
            return None
        step = resource - 1
        if len(self._ended) <= scheduler.es_min or step == 0 or step % scheduler.es_interval:
            return None
        if scheduler.policy == "median":
            reason = _below_median(history, self._ended, scheduler.direction)
        else:
            found = scheduler.policy.earlystop_check(history, list(self._ended), scheduler.direction)
            names = found if isinstance(found, list | tuple | set) else [found]
            reason = f"by {type(scheduler.policy).__name__}" if history.trial_id in names else ""
        return f"stopped at step {step}: {reason}" if reason else None

    def judged_next(self, trial: TrialId, resource: int) -> int | None:
        interval = self._scheduler.es_interval
        return max(1, -(-resource // interval)) * interval + 1

    def next_promotion(self) -> Promotion | None:
        return None

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        history = self._running.pop(trial, None)
        if history is not None:
            self._ended.append(history)

    def failed(self, trial: TrialId, resource: int) -> None:
        self._running.pop(trial, None)

    def snapshot(self) -> dict[str, Any]:
        return {
            "running": [[trial, *_kept(one)] for trial, one in sorted(self._running.items())],
            "ended": [[int(one.trial_id.rpartition("-")[2]), *_kept(one)] for one in self._ended],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._running = {TrialId(trial): _restored(trial, *rest) for trial, *rest in snapshot["running"]}
        self._ended = [_restored(trial, *rest) for trial, *rest in snapshot["ended"]]


def _kept(history: History) -> list[Any]:
    values = [None if math.isnan(value) else value for value in history.metric_history]
    return [history.params, history.resources, values]


def _restored(trial: int, params: Params, resources: list[int], values: list[float | None]) -> History:
    made = History(TrialId(trial), params)
    for resource, value in zip(resources, values, strict=True):
        made.add(resource, value)
    return made


def policy_of(given: Any) -> Any:
    """Return ``"median"``, None for no stopping, or a policy of the program's own.

    Raises:
        UsageError: it is none of these.
    """
    word = given.lower() if isinstance(given, str) else given
    if word == "median" or isinstance(given, MedianStoppingRule):
        return "median"
    if word == "none" or isinstance(given, NoStoppingRule):
        return None
    if isinstance(given, AbstractEarlyStop):
        return given
    raise UsageError(
        f"es_policy={given!r}: write 'median', 'none', or an object of a class derived from "
        "asyncsearch.maggy.earlystop.AbstractEarlyStop."
    )
