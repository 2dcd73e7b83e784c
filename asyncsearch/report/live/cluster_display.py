"""Shows the studies of one cluster: a table in place on a terminal and in a notebook, lines elsewhere."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from asyncsearch.report.formatting import printable
from asyncsearch.report.live.display import CellOutput, on_terminal, over, say, shell_of
from asyncsearch.report.live.table import StudyRow, cluster_table


class Shown(Protocol):
    """A study, as far as it is shown."""

    def lines(self) -> list[str]:
        """Return its notes, and its status in one line if that is new."""

    def notes(self) -> list[str]:
        """Return its notes only."""

    def row(self) -> StudyRow:
        """Return its row of the table."""


class ClusterDisplay:
    """Shows nothing. Called from the main thread only."""

    def say(self, text: str) -> None:
        """Show a note that holds for all studies."""

    def show(self, studies: Sequence[Shown], workers: int) -> None:
        """Show the studies of a cluster of so many workers."""
        for study in studies:
            study.lines()


class PlainCluster(ClusterDisplay):
    """Prints lines that name their study."""

    def say(self, text: str) -> None:
        say(text)

    def show(self, studies: Sequence[Shown], workers: int) -> None:
        for line in (line for study in studies for line in study.lines()):
            say(line)


class TableCluster(ClusterDisplay):
    """Keeps one table in place, below the notes."""

    def __init__(self, draw: Callable[[str, str], None]) -> None:
        """Draw with a function of (notes, table)."""
        self._draw, self._shown = draw, ""

    def say(self, text: str) -> None:
        self._draw(text, self._shown)

    def show(self, studies: Sequence[Shown], workers: int) -> None:
        notes = "\n".join(line for study in studies for line in study.notes())
        table = printable(cluster_table([study.row() for study in studies], workers))
        if notes or table != self._shown:
            self._shown = table
            self._draw(notes, table)


def cluster_display(kind: str) -> ClusterDisplay:
    """Return the display for where this process runs.

    Args:
        kind: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.

    Raises:
        UsageError: there is no such kind, or this is no notebook.
    """
    shell = shell_of(kind)
    if kind == "none":
        return ClusterDisplay()
    if kind != "plain" and shell is not None:
        return TableCluster(_InNotebook(shell.display.display))
    return TableCluster(_OnTerminal()) if kind == "auto" and on_terminal() else PlainCluster()


class _OnTerminal:
    """Draws the table over the one before."""

    def __init__(self) -> None:
        self._height = 0

    def __call__(self, notes: str, table: str) -> None:
        say(over(self._height) + "\n".join(part for part in (notes, table) if part))
        self._height = len(table.splitlines())


class _InNotebook:
    """Updates one output of the cell; notes come below it."""

    def __init__(self, show: Callable[..., Any]) -> None:
        self._output = CellOutput(show)

    def __call__(self, notes: str, table: str) -> None:
        self._output.update(f"<pre>{html.escape(table)}</pre>", table)
        say(notes)
