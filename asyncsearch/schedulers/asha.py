"""ASHA: asynchronous successive halving.

Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, Algorithm 2::

    whenever a worker is free:
        for each rung, from the top:
            if one of its best ⌊n/η⌋ trials was not promoted yet:
                train the best of these on to the next rung
                done
        begin a new trial, up to the lowest rung
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from asyncsearch.errors import ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.asha_stopping import StoppingState
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.bracket import AsynchronousBracket
from asyncsearch.schedulers.rungs import Progress, check_whole, halving_forecast, levels_up_to, rung_levels
from asyncsearch.space import Space
from asyncsearch.trial import Params

_VARIANTS = ("promotion", "stopping")


@dataclass(frozen=True, kw_only=True, slots=True)
class ASHA(Scheduler):
    """Train many trials a little, and the best ⌊n/η⌋ of each rung η times as long.

    Args:
        max_resource: Resource R at which a trial is complete. None means infinite horizon. Then the rungs go on without
            end, and a trial is complete only when its function returns.
        min_resource: No rung lies below it. The rungs are R, R // η, R // η², ...; without R they are counted from it:
            r, r·η, r·η², ...
        reduction_factor: η, an integer from 2. 3 is the default as in Hyperband, HpBandSter and Syne Tune: the integer
            nearest to e, at which halving's guarantee is best; the paper's experiments, Ray and Determined use 4.
        variant: "promotion", the paper's Algorithm 2: trials pause at rungs, resume from there, and a
            wrong first impression can be corrected as the rung fills. "stopping": a trial is judged once, when it
            passes a rung, and stopped for good; nothing needs to be saved, and decisions rest on less evidence.
        finish_best: If the search would end with no trial trained to ``max_resource``, train the best one to there.

    Raises:
        ResourceError: resources that are not positive integers, or that do not fit together.
    """

    max_resource: int | None = None
    min_resource: int = 1
    reduction_factor: int = 3
    variant: Literal["promotion", "stopping"] = "promotion"
    finish_best: bool = False

    def __post_init__(self) -> None:
        check_whole("min_resource", self.min_resource, 1)
        check_whole("reduction_factor", self.reduction_factor, 2)
        if self.max_resource is not None:
            rung_levels(self.min_resource, self.max_resource, self.reduction_factor)
        if self.variant not in _VARIANTS:
            raise ResourceError(f"variant={self.variant!r} is unknown. Use variant='promotion' or variant='stopping'.")
        if not isinstance(self.finish_best, bool):
            raise ResourceError(f"finish_best={self.finish_best!r} is neither True nor False. Use finish_best=True.")
        if self.finish_best and self.variant == "stopping":
            raise ResourceError(
                "finish_best=True needs paused trials, and variant='stopping' pauses none (the first trial at each "
                "rung goes on anyway). Leave finish_best out, or use variant='promotion'."
            )
        if self.finish_best and self.max_resource is None:
            raise ResourceError(
                "finish_best=True takes the best trial to max_resource, and there is none. Leave finish_best out, or "
                "set max_resource."
            )

    @property
    def levels(self) -> tuple[int, ...]:
        """Resources of the rungs, lowest first; the lowest alone where they have no end."""
        if self.max_resource is None:
            return (self.min_resource,)
        return rung_levels(self.min_resource, self.max_resource, self.reduction_factor)

    @property
    def pauses(self) -> bool:
        return self.variant == "promotion" and (self.max_resource is None or len(self.levels) > 1)

    def begin(self, space: Space | None = None, seed: int = 0) -> SchedulerState:
        is_endless = self.max_resource is None
        if self.variant == "stopping":
            return StoppingState(self.levels, self.reduction_factor, is_endless=is_endless)
        return PromotionState(self.levels, self.reduction_factor, self.finish_best, is_endless=is_endless)

    def describe(self) -> str:
        if self.max_resource is None:
            first = ", ".join(str(level) for level in self._levels_for(self.reduction_factor**2))
            return f"{reasons.call(self, 'min_resource', 'reduction_factor')}: rungs at {first}, ... without end"
        return f"{reasons.call(self, 'reduction_factor', hidden='min_resource')}: {reasons.rungs(self.levels)}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        # The stopping variant lets the first trial at each rung go on, finish_best takes the best one to the end.
        least = min(num_trials, 1) if self.variant == "stopping" or self.finish_best else 0
        lines = halving_forecast(self._levels_for(num_trials), [(1, num_trials)], self.reduction_factor, least)
        if self.max_resource is None and self.variant == "stopping":
            last = lines[-1]
            lines.append(RungForecast(last.to_resource or 0, None, least))
        return lines

    def warnings(self, num_trials: int | None) -> list[str]:
        what = "1 trial is" if num_trials == 1 else f"{num_trials} trials are"
        if self.max_resource is None:
            if self.variant == "stopping" or num_trials is None or num_trials >= self.reduction_factor:
                return []
            eta = self.reduction_factor
            note = f"No trial will go on from the first rung: each rung passes one of {eta}, and {what} fewer."
            return [f"{note} Use num_trials >= {eta}."]
        notes = reasons.one_rung(self.levels, self.min_resource, self.reduction_factor)
        notes += reasons.not_at_min(self.levels, self.min_resource, self.reduction_factor)
        # The stopping variant trains the first trial to the end, finish_best the best one.
        if num_trials is None or self.variant == "stopping" or self.finish_best:
            return notes
        need = self.reduction_factor ** (len(self.levels) - 1)
        remedies = ["finish_best=True", f"num_trials >= {need}"]
        return notes + reasons.too_few(
            num_trials, what, self.levels, self.min_resource, self.reduction_factor, remedies, is_early=True
        )

    def _levels_for(self, num_trials: int) -> tuple[int, ...]:
        """Return the rungs that an ideal search of so many trials reaches."""
        levels = self.levels
        if self.max_resource is None:
            while num_trials >= self.reduction_factor:
                num_trials //= self.reduction_factor
                levels = levels_up_to(levels, levels[-1], self.reduction_factor)
        return levels


class PromotionState(SchedulerState):
    """Algorithm 2, for one study."""

    def __init__(
        self, levels: tuple[int, ...], reduction_factor: int, finish_best: bool, *, is_endless: bool = False
    ) -> None:
        self._levels = levels
        self._finish_best = finish_best
        self._is_endless = is_endless
        self._progress = Progress()
        self._bracket = AsynchronousBracket(levels, reduction_factor, self._progress, is_endless=is_endless)
        self._total: int | None = None  # the most trials that there will be in the present run. None means no bound
        self._finishers = 0  # trials that reached max_resource, or train towards it

    def first_target(self, trial: TrialId) -> int:
        return self._levels[0]

    def next_promotion(self) -> Promotion | None:
        return self._bracket.next_promotion()

    def promotion_of(self, trial: TrialId) -> Promotion | None:
        return self._bracket.promotion_of(trial)

    def may_promote(self, trial: TrialId) -> bool:
        total = None if self._total is None else max(self._total, self._progress.count)
        return self._finish_best or self._bracket.may_promote(trial, total)

    def closing_promotion(self) -> Promotion | None:
        if not self._finish_best or self._finishers:
            return None
        rungs = self._bracket.rungs
        for index in range(len(rungs) - 2, -1, -1):
            best = rungs[index].best_waiting()
            if best is not None:
                here, above = self._levels[index], self._levels[index + 1]
                reason = (
                    f"best at resource {here}, goes on to {above} since no other trial will reach {self._levels[-1]} "
                    "(finish_best)"
                )
                return Promotion(best[1], here, above, reason)
        return None

    def position(self, trial: TrialId) -> str:
        return self._bracket.position(trial)

    def run_requested(self, num_trials: int | None) -> None:
        self._total = num_trials

    def no_more_trials(self) -> None:
        self._total = self._progress.count

    def created(self, trial: TrialId, params: Params) -> None:
        self._progress.begin(trial)

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._bracket.pause(trial, resource, score)

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        self._bracket.promote(trial, from_resource)
        self._finishers += not self._is_endless and to_resource == self._levels[-1]

    def completed(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._bracket.end(trial, score)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        bracket = self._bracket
        if not self._is_endless and bracket.top > 0 and bracket.is_bound_for_top(trial):
            self._finishers -= 1
        bracket.end(trial, None)

    def snapshot(self) -> dict[str, Any]:
        rungs = self._bracket.rungs_snapshot()
        return {
            "progress": self._progress.snapshot(),
            "rungs": rungs,
            "finishers": self._finishers,
            "total": self._total,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._progress = Progress.restored(snapshot["progress"])
        self._bracket.restore_rungs(self._progress, snapshot["rungs"])
        self._finishers = snapshot["finishers"]
        self._total = snapshot.get("total")
