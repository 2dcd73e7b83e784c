"""Drawing of a stage tree: training runs to the right, each leaf has a lane, colours show the kind of an interval."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from html import escape

from asyncsearch.ids import NodeKey, trial_name
from asyncsearch.report.formatting import number
from asyncsearch.report.plots.svg import CARD, FAINT, GRID, INK, Axis, Plot, dot, line, text
from asyncsearch.report.tree.layout import Layout, has_lane
from asyncsearch.report.tree.sentences import branched_text, ends_text, outcome_text, reader_names, savings, values
from asyncsearch.report.tree.view import Interval, Kind, TreeNode, TreeView, TrialPath
from asyncsearch.trial import TrialState

_COLOURS = {
    Kind.SHARED: "#1a5ba6",
    Kind.TRAINED: "#7fb5e8",
    Kind.ELSEWHERE: "#2b8a57",
    Kind.RUNNING: "#e8710a",
    Kind.WAITING: "#c4cad1",
}
_RED = "#c92a2a"
_WIDTH, _LEFT, _TOP = 900, 26, 92
_LEGEND_ROW = 18
_HEIGHT = 900
_TALLEST_LANE, _FLATTEST_LANE = 24.0, 1.5


def draw(tree: TreeView, name: str, metric: str, mode: str) -> Plot:
    """Return the picture of a stage tree."""
    return _Picture(tree, metric, _best(tree, mode)).plot(name)


def _best(tree: TreeView, mode: str) -> TrialPath | None:
    sign = 1 if mode == "min" else -1
    ranked = [p for p in tree.paths if p.value is not None and p.state is not TrialState.FAILED]
    return min(ranked, key=lambda path: (sign * (path.value or 0.0), path.trial), default=None)


class _Picture:
    """Shapes of one tree."""

    def __init__(self, tree: TreeView, metric: str, best: TrialPath | None) -> None:
        self._tree, self._metric, self._best = tree, metric, best
        self._layout = Layout(tree)
        self._lane = min(max(_HEIGHT / max(1, self._layout.size), _FLATTEST_LANE), _TALLEST_LANE)
        self._top = _TOP + (_LEGEND_ROW if tree.elsewhere else 0)
        self._bottom = self._top + self._lane * max(1, self._layout.size)
        self._is_labelled = self._lane >= 11
        self._x = Axis(0, tree.horizon, _LEFT, _WIDTH - (190 if self._is_labelled else 140))

    def plot(self, name: str) -> Plot:
        shapes = [text(20, 46, savings(self._tree), fill=INK), *self._legend(), *self._time()]
        drawn: list[tuple[int, str]] = []
        for key, node in self._tree.nodes.items():
            drawn += self._node(key, node)
        # Thin lines are drawn first, so that they lie under thick ones.
        shapes += [shape for _, shape in sorted(drawn, key=lambda entry: entry[0])]
        for key, node in self._tree.nodes.items():
            shapes += self._counts(key, node)
            shapes += self._ends(key, node)
        return Plot(f"{name}: what is trained, and for whom", _WIDTH, round(self._bottom + 44), shapes)

    def _legend(self) -> Iterator[str]:
        x = yield from self._lines_of(64, Kind.SHARED, Kind.TRAINED, Kind.RUNNING, Kind.WAITING)
        if self._tree.elsewhere:
            yield from self._lines_of(64 + _LEGEND_ROW, Kind.ELSEWHERE)
        for label, hollow, colour in (("may go on", True, INK), ("ended", False, INK), ("failed", False, _RED)):
            yield dot(x + 4, 64, colour, label, is_hollow=hollow)
            yield text(x + 12, 68, label, fill=FAINT)
            x += 26 + 5.6 * len(label)

    def _lines_of(self, y: float, *kinds: Kind) -> Generator[str, None, float]:
        """Yield a row of the legend; return the x where it ends."""
        x = 20.0
        for kind in kinds:
            yield line([(x, y), (x + 22, y)], _COLOURS[kind], width=5.0 if kind is Kind.SHARED else 2.5)
            yield text(x + 28, y + 4, kind.value, fill=FAINT)
            x += 46 + 5.6 * len(kind.value)
        return x

    def _time(self) -> Iterator[str]:
        for value in self._x.ticks(8):
            if value == int(value):
                x = self._x(value)
                yield line([(x, self._top - 6), (x, self._bottom + 4)], GRID)
                yield text(x, self._bottom + 18, f"{value:,.0f}", fill=FAINT, at="middle")
        yield text((self._x.start + self._x.end) / 2, self._bottom + 35, "units of training of a trial", at="middle")

    def _y(self, key: NodeKey) -> float:
        return self._top + self._lane * (self._layout.at[key] + 0.5)

    def _room(self, key: NodeKey, interval: Interval) -> float:
        """Return the height that an interval and the later intervals of its readers have together."""
        return self._lane * min(max(1, interval.count), self._layout.sizes[key])

    def _thickness(self, key: NodeKey, interval: Interval) -> float:
        thin = min(max(0.4 * self._lane, 0.8), 3.0)
        room = 0.5 * self._room(key, interval)
        return min(thin + 0.9 * math.log2(max(1, interval.count)), max(thin, room), 9.0)

    def _node(self, key: NodeKey, node: TreeNode) -> Iterator[tuple[int, str]]:
        y = self._y(key)
        for interval in node.intervals:
            first, last = self._x(interval.start), self._x(interval.stop)
            outline = f"M{first:.1f},{y:.1f}H{last:.1f}"
            if interval.start == node.start and node.parent is not None:
                outline = f"M{first:.1f},{self._y(node.parent):.1f}V{y:.1f}H{last:.1f}"
            style = f"stroke='{_COLOURS[interval.kind]}' stroke-width='{self._thickness(key, interval):.1f}'"
            tip = (
                f"{interval.start:,} to {interval.stop:,}: {outcome_text(interval)}\n{reader_names(interval)}\n"
                f"{values(node.params, interval.start, interval.stop)}"
            )
            if node.branched:
                tip += f"\n{branched_text(node)}, which continued with the weights of others"
            ends = [path for path in node.ends if path.end == interval.stop]
            if ends:
                tip += f"\n{ends_text(ends, self._metric)}"
            yield (
                interval.count,
                f"<path d='{outline}' fill='none' stroke-linejoin='round' {style}><title>{escape(tip)}</title></path>",
            )

    def _counts(self, key: NodeKey, node: TreeNode) -> Iterator[str]:
        """Write how many trials share an interval, where there is room for it."""
        for interval in node.intervals:
            first, last = self._x(interval.start), self._x(interval.stop)
            is_roomy = last - first >= 30 and self._room(key, interval) >= 22
            if interval.count > 1 and is_roomy:
                y = self._y(key) - self._thickness(key, interval) / 2 - 3
                yield _haloed(text((first + last) / 2, y, f"{interval.count:,} trials", size=10, at="middle"))

    def _ends(self, key: NodeKey, node: TreeNode) -> Iterator[str]:
        """Mark where trials end, and name them where there is room; always name the best one."""
        paths_at: dict[int, list[TrialPath]] = {}
        for path in node.ends:
            paths_at.setdefault(path.end, []).append(path)
        y, radius = self._y(key), min(max(0.35 * self._lane, 0.9), 3.2)
        for end, paths in paths_at.items():
            has_best = any(path is self._best for path in paths)
            colour = _RED if any(path.state is TrialState.FAILED for path in paths) else INK
            may_continue = not all(path.state.is_finished for path in paths)
            if has_best or self._lane >= 6 or not may_continue:
                tip = ends_text(paths, self._metric)
                yield dot(self._x(end), y, colour, tip, radius=4 if has_best else radius, is_hollow=may_continue)
            is_last = end == node.intervals[-1].stop and has_lane(node, self._tree.nodes)
            if has_best or (self._is_labelled and is_last):
                yield self._label(self._x(end) + 9, y + 4, paths, has_best=has_best)

    def _label(self, x: float, y: float, paths: list[TrialPath], *, has_best: bool) -> str:
        path = self._best if has_best and self._best is not None else paths[0]
        words = trial_name(path.trial) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        if self._is_labelled and path.value is not None:
            words += f"  {number(path.value)}"
        if has_best:
            words += ", the best"
        size = 11 if self._lane >= 13 or has_best else 9
        return _haloed(text(x, y, words, size=size, weight=600 if has_best else 400, fill=INK if has_best else FAINT))


def _haloed(label: str) -> str:
    """Return a text with a halo, which stays readable on top of lines."""
    return label.replace("<text ", f"<text stroke='{CARD}' stroke-width='3' paint-order='stroke' ", 1)
