"""The effect of what an ablation study left out: computed, and shown as a table, a frame and a picture.

An effect is the differences to the base of the same seed, with their interval and test. A variant that was stopped
early is compared with the base at the resource that it reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import UsageError
from asyncsearch.report.dataframe import dataframe
from asyncsearch.report.formatting import aligned, cut, many, number, printable
from asyncsearch.report.plots.charts import BLUE, ORANGE, Plot, load_altair, titled
from asyncsearch.sequences.svg import FAINT

if TYPE_CHECKING:
    import pandas
from collections.abc import Iterable, Mapping
from importlib import import_module
from statistics import fmean, stdev
from typing import NamedTuple

from asyncsearch.ablation.left_out import NOTHING, PARAMETER, Ablated
from asyncsearch.errors import NoTrialsError
from asyncsearch.ids import TrialId
from asyncsearch.journal.projection import Report
from asyncsearch.trial import Trial, TrialState
from asyncsearch.values import finite

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
    for place, index in enumerate(tested):
        most = max(most, min(1.0, (effects[index].p or 0.0) * (len(tested) - place)))
        effects[index] = effects[index]._replace(p=most)
    return effects


def _seed(trial: Trial) -> object:
    return trial.params.get("seed")


_HEADINGS = ("without", "{metric}", "difference", "95% interval", "p", "seeds")
_ROW_HEIGHT = 24
_MOST_CHARS = 32
_MOST_NAMED = 60
_LEFT = 80
"""Pixels beside the names: another font than the one they are measured in may be a third wider."""


class AblationTable:
    """The effects of all variants, those that harm the metric most first."""

    def __init__(self, name: str, metric: str, mode: str, effects: Sequence[Effect]) -> None:
        """Order the effects."""
        self.name, self.metric, self.mode = name, metric, mode
        sign = 1 if mode == "max" else -1
        self.effects = sorted(
            effects, key=lambda one: math.inf if math.isnan(one.difference) else sign * one.difference
        )

    def __iter__(self) -> Any:
        return iter(self.effects)

    def __len__(self) -> int:
        return len(self.effects)

    def __str__(self) -> str:
        lines = aligned([self._headings(), *map(self._cells, self.effects)], left=1)
        return "\n".join([self._head(), *lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(one)}</th>" for one in self._headings())
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in self._cells(one))}</tr>" for one in self.effects
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"<p>{escape(self._head())}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"

    def dataframe(self) -> pandas.DataFrame:
        """Return one row for each variant, with the fields of ``Effect``; needs pandas."""
        return dataframe(
            "dataframe", self.effects, [*Effect._fields], times=(), without="print(study.ablation()) works."
        )

    def plot(self) -> Plot:
        """Return a picture of the differences with their intervals; needs the extra ``plots``.

        Raises:
            UsageError: no variant has a difference to show, or the extra is not installed.
        """
        shown = [one for one in self.effects if not math.isnan(one.difference)]
        if not shown:
            raise UsageError("Every variant has failed, so there is no difference to draw: print(study.ablation()).")
        altair = load_altair("ablation().plot()")
        rows = [
            {
                "without": _cut(printable(one.ablated)),
                "difference": one.difference,
                "low": one.difference if one.low is None else one.low,
                "high": one.difference if one.high is None else one.high,
                "clear": "clear" if one.is_clear else "may be chance",
            }
            for one in shown
        ]
        order = [row["without"] for row in rows]
        y = altair.Y("without:N", sort=order, title=None, axis=altair.Axis(labelLimit=0, labelOverlap=False))
        colour = altair.Color(
            "clear:N", title=None, scale=altair.Scale(domain=["clear", "may be chance"], range=[ORANGE, BLUE])
        )
        data = altair.Data(values=rows)
        x = altair.X("low:Q", title=f"difference of {printable(self.metric)}, with its 95% interval")
        bars = altair.Chart(data).mark_rule(strokeWidth=3).encode(x=x, x2="high:Q", y=y, color=colour)
        points = (
            altair.Chart(data).mark_point(filled=True, size=70, opacity=1).encode(x="difference:Q", y=y, color=colour)
        )
        zero = altair.Chart(altair.Data(values=[{"zero": 0.0}])).mark_rule(color=FAINT).encode(x="zero:Q")
        chart = altair.layer(zero, bars, points).properties(width=420, height=_ROW_HEIGHT * len(rows))
        plot = titled(chart, f"{self.name}: what each component is worth")
        plot.chart = plot.chart.properties(padding={"left": _LEFT, "top": 20, "right": 20, "bottom": 20})
        return plot

    def _headings(self) -> tuple[str, ...]:
        return tuple(one.format(metric=printable(self.metric)) for one in _HEADINGS)

    def _cells(self, one: Effect) -> tuple[str, ...]:
        if not one.seeds:
            return (printable(one.ablated), "-", "-", f"{one.failed} failed", "-", "0")
        interval = "-" if one.low is None or one.high is None else f"{one.low:+.4g} to {one.high:+.4g}"
        difference = f"{one.difference:+.4g}"
        return (printable(one.ablated), number(one.value), difference, interval, _p_words(one.p), str(one.seeds))

    def _head(self) -> str:
        # A variant that was stopped early, or failed in part, has another base: of earlier units, of fewer seeds.
        whole = max((one for one in self.effects if one.seeds), key=lambda one: (one.units, one.seeds), default=None)
        base = f" {number(whole.base)}" if whole is not None else ""
        better = f"({'higher' if self.mode == 'max' else 'lower'} is better)"
        return f"{self.name}: {self.metric} with everything{base} {better}; {many(len(self), 'variant')}"

    def _notes(self) -> list[str]:
        return [*self._test_notes(), *self._same_notes(), *self._stopped_notes(), *self._failed_notes()]

    def _test_notes(self) -> list[str]:
        tested = [one for one in self.effects if one.p is not None]
        is_single = any(one.p is None and one.seeds for one in self.effects)
        if not tested:
            return ["one seed shows no uncertainty: write Ablation(..., seeds=5)"] if is_single else []
        clear = sum(one.is_clear for one in tested)
        count = many(len(tested), "comparison")
        notes = [f"p: paired t-test over seeds, corrected for {count} (Holm); {clear} clear at {1 - CONFIDENCE:.0%}"]
        if any(one.low is None for one in tested):
            notes.append("without an interval: the difference is equal for all seeds, so p is that of the sign test")
        return [*notes, "without p: one seed shows no uncertainty"] if is_single else notes

    def _same_notes(self) -> list[str]:
        same = [one.ablated for one in self.effects if one.seeds > 1 and one.low is None and one.difference == 0]
        names = printable(cut(", ".join(same), _MOST_NAMED))
        note = (
            f"no difference at all without {names}; should there be one, see that the code asks trial.ablation for it"
        )
        return [note] if same else []

    def _stopped_notes(self) -> list[str]:
        units = [one.units for one in self.effects if one.seeds]
        note = "variants that were stopped early are compared with the base where they ended, from unit"
        return [f"{note} {min(units)}"] if len(set(units)) > 1 else []

    def _failed_notes(self) -> list[str]:
        failed = sum(one.failed for one in self.effects)
        are = "is" if failed == 1 else "are"
        note = f"failed or had no finite value and {are} left out of the means: study.trials_dataframe() says why"
        return [f"{many(failed, 'trial')} {note}"] if failed else []


def _p_words(p: float | None) -> str:
    """Return a p-value with three digits, of which the smallest are not told apart."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _cut(text: str) -> str:
    """Shorten a name for the picture, from the middle: names of layers begin alike."""
    half = _MOST_CHARS // 2
    return text if len(text) <= _MOST_CHARS else f"{text[: half - 1]}…{text[-half:]}"
