"""The stage tree of a study as a picture and as text: ``study.tree()``, ``asyncsearch tree STORE``.

reading.py  from a journal to a tree           sentences.py  sentences about it
view.py     that tree as a value               drawing.py    SVG
layout.py   lanes
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from asyncsearch.errors import NoTrialsError
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.report.formatting import cut, many
from asyncsearch.report.tree.drawing import draw
from asyncsearch.report.tree.reading import read_tree
from asyncsearch.report.tree.svg import Drawing
from asyncsearch.report.tree.view import (
    Kind,
    TreeNode,
    TreeView,
    branched_text,
    nothing_shared,
    reader_names,
    savings,
    values,
    varying,
)
from asyncsearch.sequences.svg import notebook_html
from asyncsearch.trial import TrialState

_OVER = {state.words for state in TrialState if state.is_finished}
"""The words for trials that train no further."""


class Tree:
    """The stages, and the trials of each: notebooks show them, ``print`` prints them, ``save`` writes the picture."""

    def __init__(self, stages: TreeView, name: str, metric: str, mode: str, best: TrialId | None = None) -> None:
        self.stages = stages
        """The tree as a value."""
        self.summary = savings(stages)
        """Units requested, units trained, and how many trials a unit serves, in words."""
        self._name, self._metric, self._mode, self._best = name, metric, mode, best

    @cached_property
    def _drawing(self) -> Drawing:
        return draw(self.stages, self._name, self._metric, self._mode, self._best)

    @property
    def svg(self) -> str:
        """The picture."""
        return self._drawing.svg

    def save(self, path: str | Path) -> Path:
        """Write the picture as an SVG file, and return its path.

        Raises:
            UsageError: the name has the ending of another format.
        """
        return self._drawing.save(path)

    def _repr_html_(self) -> str:
        # As HTML: notebooks show a bare SVG as an image, which has no tool tips.
        return notebook_html(self.svg)

    def __str__(self) -> str:
        return text_tree(self.stages)

    def __repr__(self) -> str:
        return f"<Tree of {self._name!r}: {self.summary}; .save('tree.svg') writes it>"


def tree(
    records: Iterable[Record],
    *,
    name: str,
    metric: str,
    mode: str,
    words: Callable[[TrialState], str] = lambda state: state.words,
    is_running: bool = True,
    best: TrialId | None = None,
) -> Tree:
    """Return the stage tree of a journal; ``words`` gives what people call a state.

    ``is_running``: whether a run is in progress. ``best``: the best trial; None means the one with the best last value.

    Raises:
        NoTrialsError: there is no trial yet.
    """
    stages = read_tree(records, metric, is_running=is_running)
    if not stages.paths:
        raise NoTrialsError(f"{name!r} has no trial yet, so there is no tree to show.")
    for path in stages.paths:
        path.words = words(path.state)
        path.may_go_on = not path.state.is_finished and path.words not in _OVER
    return Tree(stages, name, metric, mode, best)


WIDTH = 100
_DEEPEST = 12
_TRAINED = (Kind.SHARED, Kind.TRAINED)


def text_tree(tree: TreeView, lines: int = 30) -> str:
    """Return the nodes that most trials read, as an indented tree of about ``lines`` lines."""
    if alone := nothing_shared(tree):
        return f"{savings(tree)}\n{textwrap.fill(alone, WIDTH)}"
    # Sorting is stable, and a parent comes before its children and has no fewer readers than they have.
    ranked = sorted(tree.nodes, key=lambda key: -tree.nodes[key].intervals[0].count)
    return "\n".join([savings(tree), *_lines(tree, set(ranked[:lines]))])


def _lines(tree: TreeView, shown: set[NodeKey]) -> Iterator[str]:
    nodes, only = tree.nodes, varying(tree)
    work: list[tuple[NodeKey | int, int]] = _level(tree.roots, 0, shown)
    while work:
        key, depth = work.pop()
        indent = "  " * min(depth, _DEEPEST)
        if isinstance(key, int):
            yield f"{indent}... and {key:,} more"
            continue
        yield _cut_right(f"{indent}{_line(nodes[key], only)}")
        # The only child of a node is not indented further: a long chain stays on the page.
        deeper = depth if len(nodes[key].children) == 1 and not nodes[key].ends else depth + 1
        children = sorted(nodes[key].children, key=lambda child: nodes[child].start)
        work += _level(children, deeper, shown)


def _level(keys: list[NodeKey], depth: int, shown: set[NodeKey]) -> list[tuple[NodeKey | int, int]]:
    """Return the siblings to write, the last one first, and the number of hidden ones."""
    visible: list[tuple[NodeKey | int, int]] = [(key, depth) for key in keys if key in shown]
    hidden = len(keys) - len(visible)
    return [*([(hidden, depth)] if hidden else []), *reversed(visible)]


def _line(node: TreeNode, only: set[str]) -> str:
    first, last = node.intervals[0], node.intervals[-1]
    kinds = [interval.kind for interval in node.intervals]
    states = ", ".join(dict.fromkeys("trained" if kind in _TRAINED else kind.value for kind in kinds))
    who = _readers(node)
    branched = branched_text(node)
    who += f", {branched}" if branched else ""
    return f"{first.start:,}-{last.stop:,} {states} for {who}: {values(node.params, first.start, last.stop, only)}"


def _readers(node: TreeNode) -> str:
    """Return the readers of a node, and those that read it further than others: "trial-0, trial-1, from 6 trial-0"."""
    parts: list[str] = []
    seen: tuple[int, tuple[TrialId, ...]] | None = None
    for interval in node.intervals:
        if (interval.count, interval.named) != seen:
            names = reader_names(interval) if interval.count <= 3 else many(interval.count, "trial")
            parts.append(f"from {interval.start:,} {names}" if parts else names)
        seen = interval.count, interval.named
    return ", ".join(parts)


def _cut_right(words: str) -> str:
    """Cut a line at the width of a terminal, and keep its indentation."""
    bare = words.lstrip(" ")
    indent = len(words) - len(bare)
    return " " * indent + cut(bare, WIDTH - indent)
