"""The time of one work: what its messages tell is divided among its lanes, and a lane's among its trials. Pure.

Lanes that a worker trains together share its stopwatch, so each second is counted once. What passes between two
messages is divided equally among the lanes that train then, and the part of a lane equally among the trials that its
present stage was given for. A part stays open until it is known that it was not in vain: until a checkpoint has it, or
the training ends in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import UnsetType

from asyncsearch.events import Spent
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.time_spent.account import (
    EVALUATING,
    IN_VAIN,
    TRAINING,
    UNMEASURED,
    WAITING,
    Amounts,
    add,
    divided,
    nothing,
    shortened,
)
from asyncsearch.work import Stage

_MOST_PARTS = 512
"""Open parts of a lane; beyond them neighbours become one, so that a long training needs little memory."""

_NOT_MEASURED = [0] * (len(nothing()) - len(Spent()))
"""Of the kinds that no worker measures."""


class _Part(NamedTuple):
    """A time of a lane up to a resource."""

    resource: int
    trials: tuple[TrialId, ...]
    amounts: Amounts


class LaneTime:
    """A lane that trains."""

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages
        self.reported = self.saved = stages[0].start
        """Resource of its last report that counts, and of its last durable checkpoint."""
        self.is_stopped = False
        """Whether it was told to stop: what it reports after that counts no more."""
        self.is_repeated = False
        """Whether its trial trains on elsewhere, from the last checkpoint."""
        self._open: list[_Part] = []

    @property
    def trials(self) -> tuple[TrialId, ...]:
        """The trials that its present stage was given for."""
        stages = self.stages
        return next((one for one in stages if one.stop is None or self.reported < one.stop), stages[-1]).trials

    def take(self, amounts: Amounts, resource: int | None = None) -> None:
        """Add its part of a time; ``resource``: of a report at its end. None means in the middle of a unit."""
        at = self.reported + 1 if resource is None else resource
        self._open.append(_Part(at, self.trials, amounts))
        if len(self._open) > _MOST_PARTS:
            self._join_neighbours()

    def lose(self) -> None:
        """Count as in vain what nobody has: since its report that counted last, or its checkpoint, if it goes on."""
        known = self.saved if self.is_repeated else self.reported
        for part in self._open:
            if part.resource > known:
                part.amounts[IN_VAIN] += part.amounts[TRAINING] + part.amounts[EVALUATING]
                part.amounts[TRAINING] = part.amounts[EVALUATING] = 0

    def settled(self, resource: int | None = None) -> list[_Part]:
        """Return its parts up to a resource, or all of them, each once: they were not in vain."""
        found = [part for part in self._open if resource is None or part.resource <= resource]
        self._open = [] if resource is None else [part for part in self._open if part.resource > resource]
        return found

    def _join_neighbours(self) -> None:
        parts, self._open = self._open, []
        for place in range(0, len(parts), 2):
            pair = parts[place : place + 2]
            if len(pair) == 2 and pair[0].trials == pair[1].trials:
                add(pair[1].amounts, pair[0].amounts)
                del pair[0]
            self._open += pair


class WorkTime:
    """A work: the lanes of a lease, on one worker or a gang of them, which are in step."""

    def __init__(self, lease: Lease, workers: tuple[WorkerId, ...], began_ms: int) -> None:
        self.lease, self.workers, self.began_ms = lease, workers, began_ms
        self.lanes: dict[int, LaneTime] = {}
        """Those that have not ended."""
        self.by_trial: dict[TrialId, Amounts] = {}
        self._last_spent = Spent()
        self._is_measured = False
        self._saved_ms = self._known_ms = began_ms
        """When a checkpoint became durable last; when that, or a report, came last."""
        self._last_trials: tuple[TrialId, ...] = ()
        """Those of the lane that ended last."""
        self._is_cut_off = False

    def tell(self, number: int, spent: Spent | UnsetType, now_ms: int, resource: int | None = None) -> None:
        """Take in what a message of a lane tells; ``resource``: of a report."""
        lane = self.lanes[number]
        if isinstance(spent, Spent):
            self._measure(lane, spent, resource)
        if resource is not None and not lane.is_stopped:
            lane.reported, self._known_ms = max(lane.reported, resource), now_ms

    def save(self, number: int, resource: int, now_ms: int) -> None:
        """Note that a checkpoint is durable: what led to it is not in vain."""
        if (lane := self.lanes.get(number)) is not None:
            lane.saved, self._saved_ms, self._known_ms = max(lane.saved, resource), now_ms, now_ms
            self._credit(lane.settled(resource))

    def end(self, number: int, *, is_in_order: bool, is_cut_off: bool = False) -> None:
        """End a lane; ``is_cut_off``: its process has died without a word on what it did last."""
        lane = self.lanes.pop(number)
        if not is_in_order:
            lane.lose()
        self._is_cut_off |= is_cut_off
        self._last_trials = lane.trials
        self._credit(lane.settled())

    def refuse(self, number: int | None) -> None:
        """Forget a lane that its worker has not got, or all of them."""
        for one in list(self.lanes) if number is None else [number]:
            self.lanes.pop(one, None)

    def close(self, now_ms: int, *, is_lost: bool = False) -> Amounts:
        """Return the amounts of all its time; ``is_lost``: its worker is gone, or its driver."""
        is_running = bool(self.lanes) and not is_lost
        trials = [trial for lane in self.lanes.values() for trial in lane.trials] or list(self._last_trials)
        for number in list(self.lanes):
            self.lanes[number].is_repeated = True
            self.end(number, is_in_order=not is_lost)
        rest = now_ms - self.began_ms - sum(map(sum, self.by_trial.values()))
        waiting = 0
        if rest < 0:
            shortened(self.by_trial.values(), -rest)
        elif not trials or (self._is_measured and not (is_lost or is_running or self._is_cut_off)):
            waiting = rest  # messages on their way
        else:
            in_vain = min(rest, self._unknown_ms(now_ms, is_lost=is_lost, is_running=is_running))
            self._give(trials, IN_VAIN, in_vain)
            self._give(trials, UNMEASURED, rest - in_vain)
        total = nothing()
        total[WAITING] = waiting
        for amounts in self.by_trial.values():
            add(total, amounts)
        return total

    def _unknown_ms(self, now_ms: int, *, is_lost: bool, is_running: bool) -> int:
        """Return how much of a time at the end, of which no message tells, was in vain."""
        if is_running or not (is_lost or self._is_cut_off):
            return 0
        if self._is_measured:
            return now_ms - self.began_ms
        return now_ms - (self._saved_ms if is_lost else self._known_ms)

    def _measure(self, lane: LaneTime, spent: Spent, resource: int | None) -> None:
        passed = [now - before for now, before in zip(spent, self._last_spent, strict=True)]
        if min(passed) < 0:  # a process that began anew for lanes that came late counts from 0
            passed = list(spent)
        self._last_spent, self._is_measured = spent, True
        if len(self.lanes) == 1:
            lane.take([*passed, *_NOT_MEASURED], resource)
            return
        lanes = list(self.lanes.values())
        parts = [nothing() for _ in lanes]
        for kind, amount in enumerate(passed):
            for part, own in zip(parts, divided(amount, len(lanes)) if amount else (), strict=False):
                part[kind] = own
        for one, part in zip(lanes, parts, strict=True):
            one.take(part, resource if one is lane else None)

    def _credit(self, parts: Iterable[_Part]) -> None:
        for part in parts:
            for kind, amount in enumerate(part.amounts):
                self._give(part.trials, kind, amount)

    def _give(self, trials: Iterable[TrialId], kind: int, amount: int) -> None:
        if amount:
            found = list(trials)
            for trial, part in zip(found, divided(amount, len(found)), strict=True):
                self.by_trial.setdefault(trial, nothing())[kind] += part
