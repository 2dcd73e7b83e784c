"""The effect of what was left out: differences to the base of the same seed, their intervals and tests. Pure.

A variant that was stopped early is compared with the base at the resource that it reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from statistics import fmean, stdev
from typing import NamedTuple

from asyncsearch.ablation.left_out import NOTHING, PARAMETER, Ablated
from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.journal.projection import Report
from asyncsearch.nonfinite import finite
from asyncsearch.trial import Trial, TrialState

CONFIDENCE = 0.95
_RESOLUTION = 1e-6
"""Differences that differ by less than this part of the metric are equal: metrics may be single-precision numbers."""


class Effect(NamedTuple):
    """The effect on the metric of leaving something out."""

    ablated: str
    """The omitted component, in words."""
    seeds: int
    """How many pairs of a variant and a base of one seed were compared."""
    base: float
    """Mean of the base in these pairs."""
    value: float
    """Mean of the variant."""
    difference: float
    """Mean of variant less base."""
    low: float | None = None
    """Lower end of the interval of the difference, for a confidence of 95 %; None with fewer than two pairs, or equal
    differences, whose spread is not known."""
    high: float | None = None
    p: float | None = None
    """Probability of such a difference by chance, with Holm's correction for all variants: by the paired t-test, or by
    the sign test where the differences are equal. None with fewer than two pairs."""
    units: int = 0
    """The fewest units after which a pair was compared."""
    failed: int = 0
    """How many of its trials failed, or reported no finite value."""

    @property
    def is_clear(self) -> bool:
        """Whether chance alone is an unlikely reason, at 5 % for all variants of the study together."""
        return self.p is not None and self.p < 1 - CONFIDENCE


def effects_of(trials: Sequence[Trial], reports: Iterable[Report], metric: str) -> list[Effect]:
    """Return the effects, in the order in which the variants began.

    Raises:
        UsageError: it is no ablation study.
        NoTrialsError: no variant and base of one seed have reported yet.
    """
    if not any(PARAMETER in trial.params for trial in trials):
        raise UsageError(
            "This study leaves nothing out, so there is nothing to compare: search with "
            "Study(..., searcher=Ablation(features=[...], layers=[...]))."
        )
    curves: dict[TrialId, list[tuple[int, float]]] = {trial.id: [] for trial in trials}
    for report in reports:
        if metric in report.metrics:
            value = finite(report.metrics[metric])
            curves[report.trial].append((report.resource, math.nan if value is None else value))
    bases = {_seed(trial): trial for trial in trials if trial.params.get(PARAMETER) == NOTHING}
    variants: dict[str, list[Trial]] = {}
    for trial in trials:
        value = trial.params.get(PARAMETER, NOTHING)
        if value != NOTHING:
            variants.setdefault(value, []).append(trial)
    found = [_effect(value, its, bases, curves) for value, its in variants.items()]
    effects = _corrected([effect for effect in found if effect is not None])
    if not effects:
        failed = next((base for base in bases.values() if base.state is TrialState.FAILED), None)
        if failed is not None:
            raise NoTrialsError(f"There is nothing to compare with: the base failed ({failed.name}: {failed.reason}).")
        raise NoTrialsError("No variant has a report, together with the base of its seed, yet: run the study first.")
    return effects


def _effect(
    value: str,
    trials: Sequence[Trial],
    bases: Mapping[object, Trial],
    curves: Mapping[TrialId, Sequence[tuple[int, float]]],
) -> Effect | None:
    pairs: list[tuple[float, float]] = []
    units, failed = [], 0
    for trial in trials:
        base = bases.get(_seed(trial))
        pair = None if base is None else _pair(curves[base.id], curves[trial.id])
        if trial.state is TrialState.FAILED or (pair is not None and not all(map(math.isfinite, pair[1:]))):
            failed += 1
        elif pair is not None:
            units.append(int(pair[0]))
            pairs.append(pair[1:])
    words = str(Ablated.of(value))
    if not pairs:
        return Effect(words, 0, math.nan, math.nan, math.nan, failed=failed) if failed else None
    means = [fmean(side) for side in zip(*pairs, strict=True)]
    difference = fmean(variant - base for base, variant in pairs)
    return Effect(words, len(pairs), means[0], means[1], difference, *_tested(pairs), min(units), failed)


def _pair(base: Sequence[tuple[int, float]], variant: Sequence[tuple[int, float]]) -> tuple[int, float, float] | None:
    """Return the resource at which two trials can be compared, and their values there; None if at none yet."""
    if not base or not variant:
        return None
    at = min(base[-1][0], variant[-1][0])
    values = [[value for resource, value in curve if resource <= at][-1:] for curve in (base, variant)]
    return (at, values[0][0], values[1][0]) if all(values) else None


def _tested(pairs: Sequence[tuple[float, float]]) -> tuple[float | None, float | None, float | None]:
    """Return the interval of the mean difference of (base, variant), and its p-value."""
    count = len(pairs)
    if count < 2:
        return None, None, None
    differences = [variant - base for base, variant in pairs]
    least = _RESOLUTION * max(abs(value) for pair in pairs for value in pair)
    if stdev(differences) <= least:
        # Without a spread there is no t. By chance alone, all would have the sign of the first with this probability.
        return None, None, 1.0 if abs(fmean(differences)) <= least else 0.5 ** (count - 1)
    mean, error = fmean(differences), stdev(differences) / math.sqrt(count)
    try:
        student = import_module("scipy.stats").t
    except ImportError as cause:
        raise UsageError(
            "ablation() needs scipy, which is not installed: pip install 'asyncsearch[report]'."
        ) from cause
    width = float(student.ppf(0.5 + CONFIDENCE / 2, count - 1)) * error
    return mean - width, mean + width, 2 * float(student.sf(abs(mean) / error, count - 1))


def _corrected(effects: list[Effect]) -> list[Effect]:
    """Correct the p-values for many comparisons (Holm, 1979): the chance of any wrong "clear" is at most 5 %."""
    tested = sorted(
        (number for number, one in enumerate(effects) if one.p is not None), key=lambda n: effects[n].p or 0.0
    )
    most = 0.0
    for place, number in enumerate(tested):
        most = max(most, min(1.0, (effects[number].p or 0.0) * (len(tested) - place)))
        effects[number] = effects[number]._replace(p=most)
    return effects


def _seed(trial: Trial) -> object:
    return trial.params.get("seed")
