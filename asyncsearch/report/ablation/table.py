"""The effects of an ablation study for people: ``print``, a notebook, a frame and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import UsageError
from asyncsearch.report.ablation.effects import CONFIDENCE, Effect
from asyncsearch.report.dataframe import dataframe
from asyncsearch.report.formatting import aligned, cut, many, number
from asyncsearch.report.plain_text import printable
from asyncsearch.report.plots.charts import BLUE, ORANGE, Plot, load_altair, titled
from asyncsearch.sequences.svg import FAINT

if TYPE_CHECKING:
    import pandas

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
