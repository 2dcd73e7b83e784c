"""Whom Ray Tune's stopping rules stop: the living halves of the rules behind its schedulers. Pure.

ASHA, Ray's: a trial is judged at each milestone that it passes, by its value there, against those that passed it
before. It goes on unless it is worse than their quantile 1 - 1/η, with numpy's linear interpolation; the first one goes
on whatever its value. Trials that end count nowhere else.

Where Ray lets a value that is not finite train on, here it counts as the worst one, and its trial is stopped.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Promotion, SchedulerState
from asyncsearch.schedulers.median import MedianState, MedianStopping
from asyncsearch.space import Space
from asyncsearch.trial import Params


class Milestone:
    """A resource where trials are judged, and those that passed it."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.rewards = array("d")
        """Of these trials, the worst first; a higher one is better."""
        self.trials: set[TrialId] = set()

    def cutoff(self, reduction_factor: float) -> float:
        """Return the reward below which a trial is stopped. There must be one here already."""
        place = (len(self.rewards) - 1) * ((1 - 1 / reduction_factor) * 100 / 100)
        at = min(math.floor(place), len(self.rewards) - 1)
        low, high, share = self.rewards[at], self.rewards[min(at + 1, len(self.rewards) - 1)], place - at
        # From the nearer end, as numpy does: rounding must not decide ties otherwise than there.
        return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


class MilestoneVerdict(NamedTuple):
    """What was decided on a report."""

    resource: int
    reason: str | None
    """None: the trial goes on."""


class RayBracket:
    """The milestones of one bracket."""

    def __init__(self, levels: Sequence[int], reduction_factor: float, end: int | None) -> None:
        """Begin.

        Args:
            levels: resources of the milestones, lowest first.
            reduction_factor: η.
            end: resource where its trials end, above the milestones. None: where their function returns.
        """
        self._milestones = [Milestone(level) for level in reversed(levels)]
        self._reduction_factor, self.end = reduction_factor, end

    def judged(self, trial: TrialId, resource: int, score: float | None) -> MilestoneVerdict:
        """Judge a report, and count the trial at the milestone where it is judged."""
        if self.end is not None and resource >= self.end:
            return MilestoneVerdict(resource, f"trained up to resource {self.end}, where its bracket ends")
        for milestone in self._milestones:
            if resource < milestone.level:
                continue
            if trial not in milestone.trials:
                return MilestoneVerdict(resource, self._judged_at(milestone, trial, resource, score))
            if self.end is None:  # only of brackets with an end does Ray judge where milestones were skipped
                break
        return MilestoneVerdict(resource, None)

    def _judged_at(self, milestone: Milestone, trial: TrialId, resource: int, score: float | None) -> str | None:
        others, reward = len(milestone.rewards), -math.inf if score is None else -score
        is_worse = bool(others) and reward < milestone.cutoff(self._reduction_factor)
        milestone.trials.add(trial)
        insort(milestone.rewards, reward)
        if score is None:
            return f"stopped at resource {resource}: its value is not finite, which counts as worse than all others"
        if not is_worse:
            return None
        rank = 1 + len(milestone.rewards) - bisect_right(milestone.rewards, reward)
        where = "there" if milestone.level == resource else f"at the rung of {milestone.level}"
        best = f"the best 1 of {self._reduction_factor:g}"
        return f"stopped at resource {resource}: rank {rank} of {others + 1} {where}, below the cutoff of {best}"

    def next_level(self, trial: TrialId, resource: int) -> int | None:
        """Return the first resource above this one where the trial may be judged. None if there is none."""
        passed = [one for one in self._milestones if one.level <= resource]
        if self.end is not None and any(trial not in one.trials for one in passed):
            return resource + 1
        return min((one.level for one in self._milestones if one.level > resource), default=self.end)

    def position(self, trial: TrialId) -> str:
        """Return where the trial was judged last, and among how many."""
        found = next((one for one in self._milestones if trial in one.trials), None)
        return "" if found is None else f"one of {len(found.trials)} that were judged at {found.level}"

    def snapshot(self) -> list[dict[str, Any]]:
        return [
            {"level": one.level, "rewards": [_text(reward) for reward in one.rewards], "trials": sorted(one.trials)}
            for one in self._milestones
        ]

    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        for milestone, its in zip(self._milestones, snapshot, strict=True):
            milestone.rewards = array("d", [-math.inf if reward is None else reward for reward in its["rewards"]])
            milestone.trials = {TrialId(trial) for trial in its["trials"]}


def _text(reward: float) -> float | None:
    return reward if math.isfinite(reward) else None  # JSON has no infinity


class RayASHAState(SchedulerState):
    """The brackets of one study; each trial belongs to one."""

    judges = True

    def __init__(self, brackets: Sequence[RayBracket], number_of: Callable[[TrialId], int], end: int | None) -> None:
        """Begin.

        Args:
            brackets: of the study.
            number_of: gives the number of the bracket of a trial.
            end: resource where trials are complete. None: where their function returns.
        """
        self._brackets, self._number_of, self._end = list(brackets), number_of, end
        self._live: dict[TrialId, MilestoneVerdict | None] = {}
        """The last verdict on each trial that has not ended."""

    def _bracket(self, trial: TrialId) -> RayBracket:
        return self._brackets[self._number_of(trial)]

    def first_target(self, trial: TrialId) -> int | None:
        return self._end

    def judge(self, trial: TrialId, resource: int) -> str | None:
        verdict = self._live.get(trial)
        return None if verdict is None or verdict.resource != resource else verdict.reason

    def judged_next(self, trial: TrialId, resource: int) -> int | None:
        found = self._bracket(trial).next_level(trial, resource)
        return None if found is None or (self._end is not None and found >= self._end) else found

    def next_promotion(self) -> Promotion | None:
        return None

    def position(self, trial: TrialId) -> str:
        return self._bracket(trial).position(trial)

    def created(self, trial: TrialId, params: Params) -> None:
        self._live.setdefault(trial, None)

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        # A report that was in flight when the trial was stopped must not count; where trials are complete none does.
        if trial in self._live and (self._end is None or resource < self._end):
            self._live[trial] = self._bracket(trial).judged(trial, resource, score)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._live.pop(trial, None)

    def snapshot(self) -> dict[str, Any]:
        live = [[trial, *(verdict or ())] for trial, verdict in sorted(self._live.items())]
        return {"milestones": [bracket.snapshot() for bracket in self._brackets], "live": live}

    def restore(self, snapshot: dict[str, Any]) -> None:
        if "brackets" in snapshot:
            snapshot = _of_ranks(snapshot["brackets"], self._brackets)
        for bracket, its in zip(self._brackets, snapshot["milestones"], strict=True):
            bracket.restore(its)
        self._live = {
            TrialId(trial): MilestoneVerdict(*verdict) if verdict else None for trial, *verdict in snapshot["live"]
        }


def _of_ranks(kept: Sequence[dict[str, Any]], brackets: Sequence[RayBracket]) -> dict[str, Any]:
    """Return the snapshot of an earlier version, which kept the ranks of each rung, in today's form."""
    live: set[int] = set()
    milestones = []
    for its, bracket in zip(kept, brackets, strict=True):
        progress = its["progress"]
        live |= {trial for trial, mark in zip(progress["trials"], progress["marks"], strict=True) if not mark & _ENDED}
        made = bracket.snapshot()
        by_level = dict(zip(sorted({one["level"] for one in made}), its["rungs"], strict=False))
        for one in made:
            rung = by_level.pop(one["level"], None)  # of milestones at one resource there was one rung
            if rung is not None:
                scores = rung["waiting"]["scores"] + rung["gone"]["scores"]
                one["rewards"] = sorted(-score for score in scores)
                one["trials"] = sorted(rung["waiting"]["trials"] + rung["gone"]["trials"])
        milestones.append(made)
    return {"milestones": milestones, "live": [[trial] for trial in sorted(live)]}


_ENDED = 0x80


@dataclass(frozen=True, kw_only=True, slots=True)
class RayMedian(MedianStopping):
    """The rule behind ``MedianStoppingRule``: an average begins at the grace period, the best value before it."""

    def begin(self, space: Space | None = None, seed: int = 0) -> RayMedianState:
        return RayMedianState(self)


class RayMedianState(MedianState):
    """The averages of all trials from the grace period on."""

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        super().reported(trial, resource, score)
        running = self._averages.get(trial)
        if running is not None and resource < self._scheduler.min_resource:
            running.average, running.count = 0.0, 0
