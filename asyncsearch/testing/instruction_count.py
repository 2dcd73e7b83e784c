"""The cost of one decision of a scheduler, counted in instructions of Python: without a clock there is no noise.

A call of a function written in C counts as one instruction.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Scheduler, SchedulerState

_SAMPLES = 150
_OWN_END = 3
"""Resource at which a function without a target returns."""


def instructions(function: Callable[[], object]) -> int:
    """Return how many instructions of Python a call executes."""
    executed = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal executed
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        executed += event == "opcode"
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(former)
    return executed


def decision(make: Callable[[], SchedulerState], scheduler: Scheduler, num_trials: int) -> float:
    """Return the instructions for a unit of training, from one free worker to the next, in the second half of a search.

    The most expensive tenth is left out, so that work which is postponed and done at once counts little.
    """
    worker = _Worker(make(), scheduler.max_resource, num_trials)
    every = max(1, num_trials // _SAMPLES)
    # Steps at equal distances would meet a bracket of as many trials at the same place each time.
    gaps = random.Random(0)
    counted = []
    while not worker.is_over:
        units = worker.units
        executed = instructions(worker.step)
        counted.append(executed / max(1, worker.units - units))
        for _ in range(gaps.randrange(2 * every - 1)):
            worker.step()
    late = sorted(counted[len(counted) // 2 :])
    return statistics.fmean(late[: len(late) - len(late) // 10])


class _Worker:
    """Trains one trial at a time as a scheduler says, without an engine."""

    def __init__(self, state: SchedulerState, max_resource: int | None, num_trials: int) -> None:
        self._state, self._max_resource, self._num_trials = state, max_resource, num_trials
        self._chance = random.Random(0)
        self._created = self.units = 0
        self.is_over = False
        state.run_requested(num_trials)

    def step(self) -> None:
        """Train the next trial to its target."""
        promotion = self._state.next_promotion()
        trial = TrialId(self._created)
        if promotion is not None:
            self._state.promoted(promotion.trial, promotion.from_resource, promotion.to_resource)
            self._train(promotion.trial, promotion.from_resource, promotion.to_resource)
        elif self._created < self._num_trials and self._state.may_create(trial):
            target = self._state.first_target(trial)
            self._created += 1
            self._state.created(trial, {})
            self._train(trial, 0, target)
        else:
            self.is_over = True

    def _train(self, trial: TrialId, start: int, target: int | None) -> None:
        end, score = _OWN_END if target is None else target, 0.0
        for resource in range(start + 1, end + 1):
            self.units += 1
            score = self._chance.random()
            self._state.reported(trial, resource, score)
            if self._state.judge(trial, resource) is not None:
                self._state.stopped(trial, resource, score)
                return
        if target is None or target == self._max_resource:
            self._state.completed(trial, end, score)
        else:
            self._state.paused(trial, target, score)
