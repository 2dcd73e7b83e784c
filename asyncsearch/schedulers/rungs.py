"""Rungs: resources at which trials are compared, the order of the trials at one, and each trial's progress to the next.

Rule 1: levels are integers, made by integer division; a logarithm would lose the top rung of 3**5, 10**3 or 10**6.
Rule 2: nothing here scans. Insert, candidate and promotion cost O(log n) in the number of trials at the rung.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat

from asyncsearch.errors import InternalError, ResourceError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.schedulers.base_scheduler import RungForecast
from asyncsearch.schedulers.order_statistics import RankedTrial, Ranking

HIGHEST = 2**62 - 1
"""Resource beyond which no rung lies: plans count to there."""

_SHOWN_BITS = 200


def rung_levels(min_resource: int, max_resource: int, reduction_factor: int) -> tuple[int, ...]:
    """Return the resources of all rungs, lowest first; the last one is ``max_resource``.

    They are R, R // η, R // η², ... down to ``min_resource``: counted from the top, so that the last ratio is exactly η
    whatever R is. (Li et al. 2020, Algorithm 2, counts r·ηᵏ from the bottom; both agree where R = r·ηᵏ.)

    Raises:
        ResourceError: a value is not a whole number in its range, or ``min_resource`` is above ``max_resource``.
    """
    check_whole("max_resource", max_resource, 1)
    check_whole("min_resource", min_resource, 1)
    check_whole("reduction_factor", reduction_factor, 2)
    if min_resource > max_resource:
        raise ResourceError(
            f"min_resource={min_resource} is above max_resource={max_resource}: the first rung cannot lie beyond the "
            f"last. Use min_resource <= {max_resource} or max_resource >= {min_resource}."
        )
    levels = []
    level = max_resource
    while level >= min_resource:
        levels.append(level)
        level //= reduction_factor
    return tuple(reversed(levels))


def levels_up_to(levels: tuple[int, ...], resource: int, reduction_factor: int) -> tuple[int, ...]:
    """Return levels continued by r·ηᵏ to the first beyond ``resource``, but none beyond ``HIGHEST``."""
    while levels[-1] <= min(resource, HIGHEST // reduction_factor):
        levels = (*levels, levels[-1] * reduction_factor)
    return levels


def check_whole(name: str, value: object, low: int) -> None:
    """Raise unless ``value`` is an integer from ``low`` to ``HIGHEST``.

    Raises:
        ResourceError: it is not; the message names the value, the rule and what to write.
    """
    # True is an int to Python; as a resource it is a slip.
    if isinstance(value, bool) or not isinstance(value, int):
        is_number = isinstance(value, SupportsFloat) and value is not True and math.isfinite(value)
        written = int(value) if isinstance(value, str) and value.isdecimal() else 3
        near = round(float(value)) if is_number else written  # type: ignore[arg-type]
        raise ResourceError(
            f"{name}={value!r} is not an integer: resources and trials are counted in whole units. "
            f"Write an integer, e.g. {name}={max(low, near)}."
        )
    if value < low:
        raise ResourceError(f"{name}={value} is too small: it must be at least {low}. Use {name}={low} or more.")
    if value > HIGHEST:
        # Python writes out no integer of thousands of digits.
        shown = f"{name}={value}" if value.bit_length() <= _SHOWN_BITS else f"{name} of {value.bit_length():,} bits"
        raise ResourceError(
            f"{shown} is too large: resources and trials are counted up to {HIGHEST}. Use a smaller {name}, and count "
            "resources in coarser units."
        )


def competing(num_trials: int, size: int) -> list[tuple[int, int]]:
    """Return (how many groups of this size, size): the full groups of trials, and the one with the rest."""
    full, rest = divmod(num_trials, size or 1)
    return [group for group in ((full, size), (1, rest)) if min(group) > 0]


def halving_forecast(
    levels: Sequence[int], groups: Sequence[tuple[int, int]], reduction_factor: int, least: int = 0
) -> list[RungForecast]:
    """Return how many trials train over which interval if each rung passes exactly ⌊n/η⌋.

    Args:
        levels: The rungs.
        groups: (how many groups of this size, size); trials of a group compete with each other.
        reduction_factor: η.
        least: How many of each group that is as large are promoted from every rung in any case.
    """
    forecasts = []
    start = 0
    for index, level in enumerate(levels):
        trials = sum(count * max(size // reduction_factor**index, least) for count, size in groups)
        forecasts.append(RungForecast(start, level, trials))
        start = level
    return forecasts


class Rung:
    """The trials that reached one resource: waiting ones may still be promoted, gone ones were, or ended there.

    Trials without a finite score only count in ``size``: they rank after all others and are never promoted.
    """

    __slots__ = ("_ahead", "_gone", "_waiting", "candidate", "promoted", "quota", "size")

    def __init__(self) -> None:
        self.size = 0
        """All trials that reached the rung, or failed before it."""
        self.quota = 0
        """How many of them, from the best, may be promoted. It never shrinks."""
        self.promoted = 0
        """How many were promoted."""
        self.candidate: RankedTrial | None = None
        """The best waiting trial, if its rank among all trials, including gone ones, is within the quota."""
        self._waiting = Ranking()
        self._gone = Ranking()
        self._ahead = -1
        """Number of gone trials that rank before the best waiting one. -1 if they are not counted yet."""

    @property
    def waiting(self) -> int:
        """How many trials wait here."""
        return len(self._waiting)

    def insert(self, trial: TrialId, score: float | None) -> None:
        """Count a trial that reached the rung; None is worst."""
        self.size += 1
        # A NaN compares false with everything and would silently break the order of all others.
        if score is None or not math.isfinite(score):
            return
        if self._waiting.add(score, trial):
            self._ahead = -1
            self._settle()

    def allow(self, quota: int) -> None:
        """Set how many may be promoted."""
        if quota != self.quota:
            self.quota = quota
            self._settle()

    def promote(self, trial: TrialId, score: float | None) -> None:
        """Let a waiting trial train on."""
        self.withdraw(trial, score)
        self.promoted += 1

    def withdraw(self, trial: TrialId, score: float | None) -> None:
        """Let a waiting trial end here: it keeps its rank and is never promoted."""
        if score is None or not self._waiting.remove(score, trial):
            raise InternalError(f"{trial_name(trial)} does not wait at this rung; its last score was {score}.")
        self._gone.add(score, trial)
        self._ahead = -1
        self._settle()

    def is_waiting(self, trial: TrialId, score: float | None) -> bool:
        """Return whether the trial is here and may still be promoted."""
        return score is not None and (score, trial) in self._waiting

    def best_waiting(self) -> RankedTrial | None:
        """Return the best waiting trial, whatever its rank."""
        return self._waiting.first()

    def rank(self, trial: TrialId, score: float) -> int:
        """Return the rank of a trial, from 1, among all that reached the rung."""
        if (score, trial) == self.candidate and self._ahead >= 0:
            return 1 + self._ahead
        return 1 + self._waiting.before(score, trial) + self._gone.before(score, trial)

    def rank_of_newcomer(self, score: float) -> int:
        """Return the rank of a trial that reaches the rung now; in a tie only gone trials are ahead of it."""
        return 1 + self._waiting.below(score) + self._gone.up_to(score)

    def _settle(self) -> None:
        """Find the candidate. All trials better than the best waiting one are gone, so their number is its rank."""
        best = self.best_waiting()
        if best is not None and len(self._gone) >= self.quota:
            if self._ahead < 0:
                self._ahead = self._gone.before(*best)
            if self._ahead >= self.quota:
                best = None
        self.candidate = best

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "size": self.size,
            "quota": self.quota,
            "promoted": self.promoted,
            "waiting": _columns(self._waiting),
            "gone": _columns(self._gone),
        }

    @classmethod
    def restored(cls, snapshot: dict[str, Any]) -> Rung:
        """Return the rung that ``snapshot`` described."""
        rung = cls()
        rung.size, rung.quota, rung.promoted = snapshot["size"], snapshot["quota"], snapshot["promoted"]
        rung._waiting = Ranking(_rows(snapshot["waiting"]))
        rung._gone = Ranking(_rows(snapshot["gone"]))
        rung._settle()
        return rung


def _columns(entries: Iterable[RankedTrial]) -> dict[str, list[Any]]:
    """Write entries as two plain lists: half the text of a list of pairs."""
    rows = list(entries)
    return {"scores": [score for score, _ in rows], "trials": [trial for _, trial in rows]}


def _rows(columns: dict[str, list[Any]]) -> list[RankedTrial]:
    return list(zip(columns["scores"], columns["trials"], strict=True))


_ENDED = 0x80
_RUNG = 0x7F  # room for 126 rungs; max_resource = 2**64 has 65 at most


class Progress:
    """Rung and value of trials. Ids count from 0, so arrays hold them; others are unknown."""

    __slots__ = ("_marks", "_values")

    def __init__(self) -> None:
        self._marks = bytearray()  # 0: unknown; else 1 + index of its next rung, and perhaps _ENDED
        self._values = array("d")  # NaN: none

    @property
    def count(self) -> int:
        """How many trials ever began."""
        return len(self._marks)

    def begin(self, trial: TrialId) -> None:
        """A trial exists, and trains towards the lowest rung."""
        self._grow(trial)
        self._marks[trial] = self._marks[trial] or 1

    def record(self, trial: TrialId, rung: int, value: float | None) -> None:
        """A trial reached a rung with this value, and the one above is its next."""
        self._grow(trial)
        self._values[trial] = math.nan if value is None else value
        self._marks[trial] = rung + 2

    def pass_rung(self, trial: TrialId, rung: int) -> None:
        """A trial reached a rung, and the one above is its next; its last value stays."""
        self._grow(trial)
        self._marks[trial] = rung + 2

    def set_value(self, trial: TrialId, value: float | None) -> None:
        """A trial has a new last value."""
        self._grow(trial)
        self._values[trial] = math.nan if value is None else value

    def end(self, trial: TrialId) -> None:
        """A trial will never train again."""
        self.begin(trial)
        self._marks[trial] |= _ENDED

    def knows(self, trial: TrialId) -> bool:
        """Return whether the trial ever began."""
        return trial < len(self._marks) and self._marks[trial] > 0

    def has_ended(self, trial: TrialId) -> bool:
        """Return whether the trial will never train again."""
        return self.knows(trial) and self._marks[trial] >= _ENDED

    def next_rung(self, trial: TrialId) -> int:
        """Return the index of the lowest rung that the trial has not reached."""
        return (self._marks[trial] & _RUNG) - 1 if self.knows(trial) else 0

    def value(self, trial: TrialId) -> float | None:
        """Return the last finite value, or None."""
        value = self._values[trial] if self.knows(trial) else math.nan
        return value if math.isfinite(value) else None

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        known = [trial for trial in range(len(self._marks)) if self._marks[trial]]
        return {
            "trials": known,
            "marks": [self._marks[trial] for trial in known],
            "values": [self.value(TrialId(trial)) for trial in known],
        }

    @classmethod
    def restored(cls, snapshot: dict[str, Any]) -> Progress:
        """Return the progress that ``snapshot`` described."""
        progress = cls()
        for trial, mark, value in zip(snapshot["trials"], snapshot["marks"], snapshot["values"], strict=True):
            progress.set_value(trial, value)
            progress._marks[trial] = mark
        return progress

    def _grow(self, trial: TrialId) -> None:
        while trial >= len(self._marks):
            self._marks.append(0)
            self._values.append(math.nan)
