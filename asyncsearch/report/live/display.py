"""The display of a running search: a live table in a notebook, quiet lines elsewhere.

Rule: called from the main thread only, so that a notebook puts all output into the cell that runs.
There are no widgets and, except on a terminal, no escape sequences, so the output is the same in JupyterLab, VS Code,
papermill, a spark-submit log and a pipe.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.report.formatting import printable
from asyncsearch.report.live.lines import short_line
from asyncsearch.report.live.shown_logs import LinePrinter
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.table import html, table
from asyncsearch.rpc.messages import LogLine

_log = logging.getLogger(__name__)

KINDS = ("auto", "notebook", "plain", "none")
_TERMINAL_EVERY_S = 5.0
_FILE_EVERY_S = 15.0
_NOTEBOOK_LINES = 5_000
AFTER_S = 0.5
"""Time after which a step is announced: what is over sooner needs no words."""


class Display(abc.ABC):
    """Shows one run."""

    _lines: LinePrinter | None = None
    """Chooses among the lines that trials print; None if none are shown."""
    _status: StudyStatus | None = None
    """As last updated; None before, and once it is closed."""

    is_shown = True
    """Whether the user is to be told what is being done."""
    cell: object = None
    """The run of a notebook's cell that has the study's table among its outputs; None if there is none."""

    @property
    def shows_lines(self) -> bool:
        """Whether lines that trials print are shown."""
        return self._lines is not None

    def begin(self, sentence: str) -> None:
        """Show the sentence with which a run begins."""
        say(printable(sentence))

    def warn(self, sentences: Sequence[str]) -> None:
        """Show notes to the user."""
        for sentence in sentences:
            say(f"note: {printable(sentence)}")

    @abc.abstractmethod
    def update(self, status: StudyStatus) -> None:
        """Show the state of the study, if an update is due."""

    def log_lines(self, lines: Sequence[tuple[str, LogLine]]) -> None:
        """Show lines that trials printed: (name of the trial, line)."""
        if self._lines is not None:
            self._print("\n".join(self._lines.chosen(lines, self._status.store if self._status is not None else "")))

    def _print(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        """Show the last status in full. May be called again, and before anything was shown."""
        if self._status is not None:
            self._print(table(self._status))
            self.cell = running_cell()
        self._status = None


def open_display(kind: str = "auto", *, logs: bool = False) -> Display:
    """Return the display for where this process runs.

    Args:
        kind: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
        logs: whether to show the lines that trials print.

    Raises:
        UsageError: there is no such kind, or this is no notebook.
    """
    ipython = shell_of(kind)
    if kind == "none":
        return Quiet()
    if ipython is not None and kind in ("auto", "notebook"):
        return Notebook(ipython.display.display, logs=logs)
    if kind == "auto" and on_terminal():
        return Terminal(logs=logs)
    return Plain(logs=logs)


def shell_of(kind: str) -> Any:
    """Return IPython for a kind of display, if this process is a Jupyter kernel, else None.

    Raises:
        UsageError: there is no such kind, or this is no notebook.
    """
    if kind not in KINDS:
        raise UsageError(f"display={kind!r} is unknown. Use one of {', '.join(map(repr, KINDS))}.")
    ipython = notebook_shell()
    if kind == "notebook" and ipython is None:
        raise UsageError("display='notebook' needs a Jupyter kernel, and this process is none. Use display='auto'.")
    return ipython


class Quiet(Display):
    """Shows nothing; notes go to the log."""

    is_shown = False

    def begin(self, sentence: str) -> None:
        pass

    def warn(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            _log.warning("%s", sentence)

    def update(self, status: StudyStatus) -> None:
        pass


class Plain(Display):
    """Prints a line now and then, and the table at the end."""

    def __init__(
        self, *, logs: bool, every_s: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Print a line every ``every_s`` seconds at most; by default less often into a file than on a terminal."""
        self._every_s = every_s if every_s is not None else _TERMINAL_EVERY_S if _is_terminal() else _FILE_EVERY_S
        self._lines = LinePrinter(clock) if logs else None
        self._clock = clock
        self._due_s = clock()

    def update(self, status: StudyStatus) -> None:
        self._status = status
        if status.trials and self._clock() >= self._due_s:
            self._due_s = self._clock() + self._every_s
            say(short_line(status))


class Terminal(Display):
    """Keeps the table at the bottom of a terminal, redrawn in place; the lines of trials scroll by above it."""

    def __init__(
        self,
        *,
        logs: bool,
        size: Callable[[], os.terminal_size] = shutil.get_terminal_size,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fit the table into a terminal of ``size()``, so that the next one can be drawn over it."""
        self._size = size
        self._lines = LinePrinter(clock) if logs else None
        self._height = 0

    def update(self, status: StudyStatus) -> None:
        self._status = status
        if status.trials:
            self._print("")

    def close(self) -> None:
        if self._status is not None:
            say(f"{over(self._height)}{table(self._status)}")
        self._status, self._height = None, 0

    def _print(self, text: str) -> None:
        """Print lines above the table, and draw it again."""
        width, height = self._size()
        status = table(self._status) if self._status is not None and self._status.trials else ""
        rows = [row[: width - 1] for row in status.splitlines()][: height - 1]
        up, self._height = over(self._height), len(rows)
        say(up + "\n".join(part for part in (text, "\n".join(rows)) if part))


class Notebook(Display):
    """One table in the cell, updated in place; the lines of trials come below it."""

    def __init__(self, show: Callable[..., Any], *, logs: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """Show through IPython's ``display``, or a function like it."""
        self._output = CellOutput(show)
        self._shown = ""
        self._lines = LinePrinter(clock, most=_NOTEBOOK_LINES) if logs else None

    def update(self, status: StudyStatus) -> None:
        self._status = status
        page = html(status)
        if page == self._shown:
            return
        self._shown = page
        if self._output.update(page, table(status)):
            self.cell = running_cell()

    def begin(self, sentence: str) -> None:
        """The table says it."""

    def close(self) -> None:
        """The table stays as it was last updated."""


class CellOutput:
    """One output of a notebook's cell, updated in place."""

    def __init__(self, show: Callable[..., Any]) -> None:
        self._show = show
        self._handle: Any = None

    def update(self, page: str, text: str) -> bool:
        """Show a page of HTML, and a text where there is none; return whether it is the first one."""
        data = {"text/html": page, "text/plain": text}
        if self._handle is None:
            self._handle = self._show(data, raw=True, display_id=True)
            return True
        self._handle.update(data, raw=True)
        return False


def over(height: int) -> str:
    """Return the escape sequence that moves up by some lines of a terminal, and clears from there."""
    return f"\x1b[{height}A\x1b[J" if height else ""


def say(text: str) -> None:
    """Print lines to the present ``sys.stdout``, which a notebook replaces.

    Characters that it cannot encode are escaped. If it cannot be written to (a closed pipe, a full disk), the lines are
    dropped: a search does not end because nobody reads its output.
    """
    out = sys.stdout
    if not text or out is None:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it was closed, or is one that cannot be flushed
        try:
            out.write(f"{text}\n")
        except UnicodeEncodeError:
            encoding = getattr(out, "encoding", None) or "ascii"
            out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        out.flush()


def in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel."""
    return notebook_shell() is not None


def running_cell() -> object:
    """Return the identity of the run of the present cell, unlike its earlier runs; None if this is no kernel."""
    ipython = notebook_shell()
    if ipython is None:
        return None
    shell = ipython.get_ipython()
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)()
    return parent.get("header", {}).get("msg_id") or getattr(shell, "execution_count", None)


def on_terminal() -> bool:
    """Return whether output goes to a terminal that can draw in place."""
    return _is_terminal() and os.environ.get("TERM", "dumb") != "dumb"


def _is_terminal() -> bool:
    is_terminal = getattr(sys.stdout, "isatty", None)  # an object of the program's may only write
    return is_terminal is not None and bool(is_terminal())


def notebook_shell() -> Any:
    """Return IPython if this process is a Jupyter kernel, else None. A kernel has imported it already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    is_kernel = any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)
    return ipython if is_kernel else None


@contextlib.contextmanager
def announced(sentence: str, after_s: float = AFTER_S) -> Iterator[None]:
    """Print a sentence if what is done inside the ``with`` takes longer than ``after_s``.

    It goes to the standard error, so that a command's output stays what it is, and in a notebook to the cell.
    """
    timer = threading.Timer(after_s, _announce, (sentence,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _announce(sentence: str) -> None:
    out = sys.stdout if in_notebook() else sys.stderr
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or there is none
        out.write(f"{sentence}\n")
        out.flush()
