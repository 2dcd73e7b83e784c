"""FIFO: every trial trains to its end, in the order of creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.rungs import check_whole
from asyncsearch.space import Space


@dataclass(frozen=True, kw_only=True, slots=True)
class FIFO(Scheduler):
    """Train every trial to ``max_resource``, or until its function returns. Never pauses and never stops one.

    Args:
        max_resource: Resource at which a trial is complete. None means when its function returns.

    Raises:
        ResourceError: ``max_resource`` is not a positive integer.
    """

    max_resource: int | None = None

    def __post_init__(self) -> None:
        if self.max_resource is not None:
            check_whole("max_resource", self.max_resource, 1)

    @property
    def pauses(self) -> bool:
        return False

    def begin(self, space: Space | None = None, seed: int = 0) -> FIFOState:
        return FIFOState(self.max_resource)

    def describe(self) -> str:
        if self.max_resource is None:
            return "FIFO(): every trial trains until its function returns"
        return f"FIFO(max_resource={self.max_resource}): every trial trains to {self.max_resource}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return [RungForecast(0, self.max_resource, num_trials)]


class FIFOState(SchedulerState):
    """Decides nothing, so it keeps nothing."""

    def __init__(self, max_resource: int | None) -> None:
        self._max_resource = max_resource

    def first_target(self, trial: TrialId) -> int | None:
        return self._max_resource

    def next_promotion(self) -> Promotion | None:
        return None

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        pass
