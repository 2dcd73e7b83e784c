"""Drawing of a stage tree: training runs to the right, each leaf has a lane, colours show the kind of an interval.

No line crosses another one: children that part early lie outside and children that part late inside, so the line to a
child crosses no other. Rule: a tree may be 10^5 deep, so no function here is recursive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.ids import NodeKey, TrialId, trial_name
from asyncsearch.report.formatting import number
from asyncsearch.report.tree.svg import Axis, Drawing, dot, line, text
from asyncsearch.report.tree.view import (
    Interval,
    Kind,
    TreeNode,
    TreeView,
    TrialPath,
    branched_text,
    ends_text,
    nothing_shared,
    outcome_text,
    reader_names,
    savings,
    values,
)
from asyncsearch.sequences.svg import FAINT, GRID, INK, PAPER, escape, shortened, text_width
from asyncsearch.trial import TrialState

_COLOURS = {
    Kind.SHARED: "#2a6cb5",
    Kind.TRAINED: "#64a6e6",
    Kind.ELSEWHERE: "#2b8a57",
    Kind.RUNNING: "#e8710a",
    Kind.WAITING: "#aeb6bf",
    Kind.CONTINUED: "#aeb6bf",
}
_RED = "#c92a2a"
_WIDTH, _LEFT, _MARGIN = 900, 26, 20
_LEGEND_TOP, _LEGEND_ROW = 64, 18
_GOES_ON = "may go on"
_ENDS = {_GOES_ON: INK, "ended": INK, "failed": _RED}
_SIZE = 11
_SYMBOL = 28
"""The width of a line in the legend, with the space after it."""
_HEIGHT = 900
_TALLEST_LANE, _FLATTEST_LANE = 24.0, 1.5


def draw(tree: TreeView, name: str, metric: str, mode: str, best: TrialId | None = None) -> Drawing:
    """Return the picture of a stage tree; ``best``: the best trial, if it is not the one with the best last value."""
    first, last = _best(tree, mode, best), _best(tree, mode, None)
    is_beaten = first is not None and last is not None and first.value != last.value
    picture = _Picture(tree, metric, first, is_beaten=is_beaten)
    alone = nothing_shared(tree)
    return picture.words(name, alone) if alone else picture.drawing(name)


def _best(tree: TreeView, mode: str, best: TrialId | None) -> TrialPath | None:
    if any(PARAMETER in path.params for path in tree.paths[:1]):
        return None  # variants of an ablation study, which are to be compared
    sign = 1 if mode == "min" else -1
    ranked = [p for p in tree.paths if p.value is not None and p.state is not TrialState.FAILED]
    chosen = [path for path in ranked if path.trial == best] or ranked
    return min(chosen, key=lambda path: (sign * (path.value or 0.0), path.trial), default=None)


class _Picture:
    """Shapes of one tree."""

    def __init__(self, tree: TreeView, metric: str, best: TrialPath | None, *, is_beaten: bool) -> None:
        self._tree, self._metric, self._best, self._is_beaten = tree, metric, best, is_beaten
        self._layout = Layout(tree)
        self._lane = min(max(_HEIGHT / max(1, self._layout.size), _FLATTEST_LANE), _TALLEST_LANE)
        self._legend = _legend_places(tree)
        self._top = _LEGEND_TOP + _LEGEND_ROW * (1 + max((row for _, row, _ in self._legend), default=0)) + 10
        self._bottom = self._top + self._lane * max(1, self._layout.size)
        self._is_labelled = self._lane >= 11
        self._x = Axis(0, tree.horizon, _LEFT, _WIDTH - (190 if self._is_labelled else 140))
        self._right = float(_WIDTH - _MARGIN)
        """Where the text that reaches furthest ends."""

    def words(self, name: str, alone: str) -> Drawing:
        """Return a picture that says why there is no tree."""
        title, shapes = self._heading(name)
        first, _, second = alone.partition(": ")
        shapes += [self._text(20, 72, f"{first}:", fill=FAINT), self._text(20, 88, second, fill=FAINT)]
        return Drawing(title, math.ceil(self._right + _MARGIN), 104, shapes)

    def _heading(self, name: str) -> tuple[str, list[str]]:
        title = f"{name}: what is trained, and for whom"
        heading = shortened(name, 0.6 * _WIDTH, 15, is_bold=True) + title.removeprefix(name)
        return title, [self._text(20, 26, heading, size=15, weight=600), self._text(20, 46, savings(self._tree))]

    def drawing(self, name: str) -> Drawing:
        title, shapes = self._heading(name)
        shapes += [*self._legend_shapes(), *self._time()]
        drawn: list[tuple[int, str]] = []
        for key, node in self._tree.nodes.items():
            drawn += self._node(key, node)
        # Thin lines are drawn first, so that they lie under thick ones.
        shapes += [shape for _, shape in sorted(drawn, key=lambda entry: entry[0])]
        for key, node in self._tree.nodes.items():
            shapes += self._counts(key, node)
            shapes += self._ends(key, node)
        return Drawing(title, math.ceil(self._right + _MARGIN), round(self._bottom + 44), shapes)

    def _text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = _SIZE,
        weight: int = 400,
        fill: str = INK,
        at: str = "start",
    ) -> str:
        """Return a text that begins inside the picture, which becomes as wide as the text needs."""
        width = text_width(words, size, is_bold=weight > 400)
        before = {"start": 0.0, "middle": width / 2, "end": width}[at]
        x = max(x, before + 4)
        self._right = max(self._right, x - before + width)
        return text(x, y, words, size=size, weight=weight, fill=fill, at=at)

    def _legend_shapes(self) -> Iterator[str]:
        for entry, row, x in self._legend:
            y = _LEGEND_TOP + _LEGEND_ROW * row
            if isinstance(entry, Kind):
                yield line([(x, y), (x + 22, y)], _COLOURS[entry], width=5.0 if entry is Kind.SHARED else 2.5)
                yield self._text(x + _SYMBOL, y + 4, entry.value, fill=FAINT)
            else:
                yield dot(x + 4, y, _ENDS[entry], entry, is_hollow=entry == _GOES_ON)
                yield self._text(x + 12, y + 4, entry, fill=FAINT)

    def _time(self) -> Iterator[str]:
        for value in self._x.ticks(8):
            if value == int(value):
                x = self._x(value)
                yield line([(x, self._top - 6), (x, self._bottom + 4)], GRID)
                yield self._text(x, self._bottom + 18, f"{value:,.0f}", fill=FAINT, at="middle")
        yield self._text(
            (self._x.start + self._x.end) / 2, self._bottom + 35, "units of training of a trial", at="middle"
        )

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
            words = f"{interval.count:,} trials"
            is_roomy = last - first >= text_width(words, 10) + 4 and self._room(key, interval) >= 22
            if interval.count > 1 and is_roomy:
                y = self._y(key) - self._thickness(key, interval) / 2 - 3
                yield _haloed(self._text((first + last) / 2, y, words, size=10, at="middle"))

    def _ends(self, key: NodeKey, node: TreeNode) -> Iterator[str]:
        """Mark where trials end, and name them where there is room; always name the best one."""
        paths_at: dict[int, list[TrialPath]] = {}
        for path in node.ends:
            paths_at.setdefault(path.end, []).append(path)
        y, radius = self._y(key), min(max(0.35 * self._lane, 0.9), 3.2)
        for end, paths in paths_at.items():
            has_best = any(path is self._best for path in paths)
            colour = _RED if any(path.state is TrialState.FAILED for path in paths) else INK
            may_continue = any(path.may_go_on for path in paths)
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
            words += ", the best" + (" by its best value" if self._is_beaten else "")
        size = 11 if self._lane >= 13 or has_best else 9
        weight, fill = (600, INK) if has_best else (400, FAINT)
        return _haloed(self._text(x, y, words, size=size, weight=weight, fill=fill))


def _legend_places(tree: TreeView) -> list[tuple[Kind | str, int, float]]:
    """Return (entry, row, x) of what the picture has, in rows that are as wide as the picture."""
    kinds = {interval.kind for node in tree.nodes.values() for interval in node.intervals}
    ends = {
        "failed" if path.state is TrialState.FAILED else _GOES_ON if path.may_go_on else "ended" for path in tree.paths
    }
    entries: list[Kind | str] = [*(kind for kind in _COLOURS if kind in kinds), *(end for end in _ENDS if end in ends)]
    row, x, places = 0, 20.0, list[tuple[Kind | str, int, float]]()
    for entry in entries:
        width = text_width(entry.value, _SIZE) + _SYMBOL if isinstance(entry, Kind) else text_width(entry, _SIZE) + 12
        if x + width > _WIDTH - _MARGIN:
            row, x = row + 1, 20.0
        places.append((entry, row, x))
        x += width + 16
    return places


def _haloed(label: str) -> str:
    """Return a text with a halo, which stays readable on top of lines."""
    return label.replace("<text ", f"<text stroke='{PAPER}' stroke-width='3' paint-order='stroke' ", 1)


class Layout:
    """Lanes of the nodes of a tree, one for each leaf, counted from 0 at the top."""

    def __init__(self, tree: TreeView) -> None:
        self._nodes = tree.nodes
        self.sizes = self._leaves()
        """How many lanes each node takes together with its descendants."""
        self.at: dict[NodeKey, float] = {}
        """The lane of each node: its own, that of the child that parts last, or between two such children."""
        self.size = 0
        """How many lanes there are."""
        self._place(tree.roots)

    def _leaves(self) -> dict[NodeKey, int]:
        """Return how many lanes each subtree takes."""
        sizes: dict[NodeKey, int] = {}
        for key in reversed(self._nodes):
            node = self._nodes[key]
            sizes[key] = sum(sizes[child] for child in node.children) + has_lane(node, self._nodes)
        return sizes

    def _place(self, roots: list[NodeKey]) -> None:
        inner: dict[NodeKey, list[NodeKey]] = {}  # of nodes without a lane: the children that part last, next to it
        work = [(key, False) for key in reversed(roots)]  # (node, whether to give it its own lane now)
        while work:
            key, is_due = work.pop()
            if is_due:
                self.at[key] = float(self.size)
                self.size += 1
                continue
            node = self._nodes[key]
            above, below = self._sides(node)
            if not has_lane(node, self._nodes):
                latest = max(self._nodes[child].start for child in node.children)
                nearest = [*above[-1:], *below[:1]]
                inner[key] = [child for child in nearest if self._nodes[child].start == latest]
            own = [] if key in inner else [(key, True)]
            work.extend(reversed([*((child, False) for child in above), *own, *((child, False) for child in below)]))
        for key in reversed(self._nodes):
            if key in inner:
                self.at[key] = sum(self.at[child] for child in inner[key]) / len(inner[key])

    def _sides(self, node: TreeNode) -> tuple[list[NodeKey], list[NodeKey]]:
        """Return the children above, from outside to inside, and those below, from inside to outside."""
        above: list[NodeKey] = []
        below: list[NodeKey] = []
        weight = 0  # lanes above less lanes below
        for group in self._by_start(node):
            half = self._half(group, weight)
            above += group[:half]
            below[:0] = group[half:]
            weight += sum(self.sizes[key] for key in group[:half]) - sum(self.sizes[key] for key in group[half:])
        return above, below

    def _half(self, group: list[NodeKey], weight: int) -> int:
        """Return how many of the children that part together go above, so that both sides become nearly equal."""
        total = sum(self.sizes[key] for key in group)
        best, half, above = abs(weight - total), 0, 0
        for place, key in enumerate(group, 1):
            above += self.sizes[key]
            if abs(weight + 2 * above - total) < best:
                best, half = abs(weight + 2 * above - total), place
        return half

    def _by_start(self, node: TreeNode) -> Iterator[list[NodeKey]]:
        def start(key: NodeKey) -> int:
            return self._nodes[key].start

        for _, group in groupby(sorted(node.children, key=start), key=start):
            yield list(group)


def has_lane(node: TreeNode, nodes: dict[NodeKey, TreeNode]) -> bool:
    """Return whether a node continues after its last child has parted, or has no child."""
    return node.intervals[-1].stop > max((nodes[child].start for child in node.children), default=-1)
