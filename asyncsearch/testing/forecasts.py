"""The laws of every forecast of a scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from asyncsearch.errors import ResourceError
from asyncsearch.schedulers.base_scheduler import RungForecast, Scheduler


def check_forecast(scheduler: Scheduler, num_trials: int) -> None:
    """Require that every trial begins once, in one bracket, and that no rung has more trials than the one before it.

    The scheduler may refuse a search that cannot work.

    Raises:
        AssertionError: the forecast cannot be true; the message says where.
    """
    try:
        lines = scheduler.forecast(num_trials)
    except ResourceError:
        return
    began = sum(line.trials for line in lines if line.from_resource == 0)
    assert began == num_trials, f"forecast({num_trials}): {began} trials begin"
    for bracket in sorted({line.bracket for line in lines}):
        _check_bracket(scheduler, num_trials, [line for line in lines if line.bracket == bracket])


def _check_bracket(scheduler: Scheduler, num_trials: int, lines: Iterable[RungForecast]) -> None:
    at: int | None = 0
    trials = num_trials
    for line in lines:
        where = f"forecast({num_trials}), bracket {line.bracket}, from {line.from_resource} to {line.to_resource}"
        assert line.from_resource == at, f"{where}: the line before ends at {at}"
        assert 0 <= line.trials <= trials, f"{where}: {line.trials} trials, and {trials} before"
        at, trials = line.to_resource, line.trials
        assert at is None or line.from_resource < at, f"{where}: it does not lead upwards"
        top = scheduler.max_resource
        assert top is None or (at is not None and at <= top), f"{where}: it leads beyond max_resource={top}"
