"""The stage tree of a study as a picture and as text: ``study.tree()``, ``asyncsearch tree STORE``.

reading.py  from a journal to a tree           sentences.py  sentences about it
view.py     that tree as a value               intervals.py  the parts of a node
layout.py   lanes                              drawing.py    SVG
text.py     lines for a terminal
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from asyncsearch.errors import NoTrialsError
from asyncsearch.journal.format import Record
from asyncsearch.report.tree.drawing import draw
from asyncsearch.report.tree.reading import read_tree
from asyncsearch.report.tree.sentences import savings
from asyncsearch.report.tree.svg import Drawing
from asyncsearch.report.tree.text import text_tree
from asyncsearch.report.tree.view import TreeView
from asyncsearch.trial import TrialState


class Tree:
    """What is trained, and for which trials: notebooks show it, ``print`` prints it, ``save`` writes the picture."""

    def __init__(self, stages: TreeView, name: str, metric: str, mode: str) -> None:
        self.stages = stages
        """The tree as a value."""
        self.summary = savings(stages)
        """Units requested, units trained, and how many trials a unit serves, in words."""
        self._name, self._metric, self._mode = name, metric, mode

    @cached_property
    def _drawing(self) -> Drawing:
        return draw(self.stages, self._name, self._metric, self._mode)

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
        return f'<div style="overflow-x:auto">{self.svg}</div>'

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
) -> Tree:
    """Return the stage tree of a journal; ``words`` gives what people call a state.

    Raises:
        NoTrialsError: there is no trial yet.
    """
    stages = read_tree(records, metric)
    if not stages.paths:
        raise NoTrialsError(f"{name!r} has no trial yet, so there is no tree to show.")
    for path in stages.paths:
        path.words = words(path.state)
    return Tree(stages, name, metric, mode)
