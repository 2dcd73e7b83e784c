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
from asyncsearch.ids import TrialId
from asyncsearch.journal.format import Record
from asyncsearch.report.tree.drawing import draw
from asyncsearch.report.tree.reading import read_tree
from asyncsearch.report.tree.sentences import savings
from asyncsearch.report.tree.svg import Drawing
from asyncsearch.report.tree.text import text_tree
from asyncsearch.report.tree.view import TreeView
from asyncsearch.sequences.notebook_svg import notebook_html
from asyncsearch.trial import TrialState

_OVER = {state.words for state in TrialState if state.is_finished}
"""The words for trials that train no further."""


class Tree:
    """What is trained, and for which trials: notebooks show it, ``print`` prints it, ``save`` writes the picture."""

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

    ``is_running``: whether a run is in progress. ``best``: the best trial; None: the one with the best last value.

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
