"""The stop rules: a value reached, a plateau, units trained, time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from asyncsearch.arguments import finite_number, not_negative, positive, seconds_of
from asyncsearch.errors import UsageError
from asyncsearch.stop_rules.base_rule import StopRule, rule_of
from asyncsearch.stop_rules.progress import StopProgress


@dataclass(frozen=True)
class Reached(StopRule):
    """Enough is trained once the metric was reported at least as good as a value.

    Args:
        value: of the study's metric; with ``mode="min"`` any value at or below it counts.
    """

    value: float

    def __post_init__(self) -> None:
        finite_number("value", self.value)

    def reason(self, progress: StopProgress) -> str:
        best = progress.best
        if best is None or (best > self.value if progress.mode == "min" else best < self.value):
            return ""
        return f"{progress.metric} has reached {self.value:g}: {best:.5g}"

    def describe(self) -> str:
        return f"Reached({self.value:g})"


@dataclass(frozen=True, kw_only=True)
class Plateau(StopRule):
    """Enough is trained once the best value has improved by no more than ``min_delta`` in the last trials or reports.

    Args:
        trials: patience in trials that were paused or have ended without failing; for studies only.
        reports: patience in reports of the metric; of a study those of all trials.
        min_delta: an improvement of so much, or less, counts as none.
    """

    trials: int | None = None
    reports: int | None = None
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        if (self.trials is None) == (self.reports is None):
            raise UsageError(
                "Plateau() needs its patience, in trials or in reports: write Plateau(trials=20) or "
                "Plateau(reports=10); for both, Plateau(trials=20) & Plateau(reports=100)."
            )
        for name in ("trials", "reports"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name), 20)
        not_negative("min_delta", self.min_delta)

    def reason(self, progress: StopProgress) -> str:
        gain = progress.gain(reports=self.reports, trials=self.trials)
        if gain is None or gain > self.min_delta:
            return ""
        count, unit = (self.trials, "trial") if self.reports is None else (self.reports, "report")
        last = f"the last {unit}" if count == 1 else f"the last {count:,} {unit}s"
        more = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return f"the best {progress.metric}, {progress.best:.5g}, has not improved{more} in {last}"

    def describe(self) -> str:
        patience = f"trials={self.trials}" if self.reports is None else f"reports={self.reports}"
        return f"Plateau({patience}{f', min_delta={self.min_delta:g}' if self.min_delta else ''})"


@dataclass(frozen=True)
class Trained(StopRule):
    """Enough is trained after so many units of training; of a study, those of all trials, each shared unit once.

    Args:
        units: of the resource, epochs by default.
    """

    units: int

    def __post_init__(self) -> None:
        positive("units", self.units, "10_000")

    def reason(self, progress: StopProgress) -> str:
        if progress.units < self.units:
            return ""
        return f"{progress.units:,} {'unit was' if progress.units == 1 else 'units were'} trained"

    def describe(self) -> str:
        return f"Trained({self.units})"


@dataclass(frozen=True)
class Elapsed(StopRule):
    """Enough is trained after some time: of a trial while workers trained it, of a study that of all its runs.

    Args:
        seconds: a number, or a ``timedelta``.
    """

    seconds: float | timedelta

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", seconds_of("seconds", self.seconds))

    @property
    def _seconds(self) -> float:
        assert not isinstance(self.seconds, timedelta), "made a number above"
        return self.seconds

    def reason(self, progress: StopProgress) -> str:
        return "" if progress.seconds < self._seconds else f"{self._seconds:g} s have passed"

    def due_s(self, progress: StopProgress) -> float | None:
        return self._seconds if progress.seconds < self._seconds else None

    def describe(self) -> str:
        return f"Elapsed({self._seconds:g})"


def study_rule(given: object) -> StopRule:
    """Return the rule that ends a study.

    Raises:
        UsageError: it is no rule.
    """
    return rule_of("stop_when", given)


def trial_rule(given: object) -> StopRule:
    """Return the rule that stops a trial.

    Raises:
        UsageError: it is no rule, or one that counts trials.
    """
    rule = rule_of("stop_trial_when", given)
    for part in rule.parts():
        if isinstance(part, Plateau) and part.trials is not None:
            raise UsageError(
                f"stop_trial_when={rule.describe()}: a trial counts its reports, not trials: write "
                f"Plateau(reports={part.trials}), or stop_when={part.describe()} for the whole study."
            )
    return rule
