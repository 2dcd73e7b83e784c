"""The display of a driver in a task of the cluster, as one small file of the store that the client reads repeatedly.

The file has the newest status, the sentences of the run, and the last lines that trials printed: its size does not grow
with the search, a client that was away reads on, and one that comes later sees what there is to see. The driver writes
it at most twice a second, and every few seconds in any case, which tells that it is alive.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from asyncsearch.errors import StoreError
from asyncsearch.launch.remote.meeting import FOLDER
from asyncsearch.report.live.display import Display
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.rpc.messages import LogLine
from asyncsearch.store.base_store import Store

BOARD, STOP = f"{FOLDER}/board.bin", f"{FOLDER}/stop"
WRITTEN_EVERY_S = 0.5
ALIVE_EVERY_S = 3.0
_MOST_NOTES, _MOST_LINES, _MOST_CHARS = 200, 1_000, 100_000


class Numbered(msgspec.Struct, frozen=True):
    """A sentence of the run or a printed line, numbered from 1 in the order in which they were shown."""

    number: int
    note: str = ""
    trial: str = ""
    """Whose line it is; empty for a sentence."""
    line: LogLine | None = None


class Ending(msgspec.Struct, frozen=True):
    """How a driver has ended."""

    kind: str = ""
    """Name of the error, of ``asyncsearch.errors`` or else; empty if there was none."""
    words: str = ""
    is_interrupted: bool = False


class Board(msgspec.Struct, frozen=True):
    """The content of the file."""

    attempt: str
    """Names the task in which the driver runs."""
    beat: int
    """How often it was written."""
    shown: tuple[Numbered, ...] = ()
    status: StudyStatus | None = None
    is_over: bool = False
    """Whether nothing comes any more."""
    ending: Ending | None = None
    """How the driver has ended, for a client that its task cannot tell; None if it goes on, or was lost."""


_BOARD = msgspec.msgpack.Decoder(Board)


def read_board(store: Store) -> Board | None:
    """Return the content of the file; None if there is none that can be read."""
    found = store.read(BOARD)
    try:
        return None if found is None else _BOARD.decode(found)
    except msgspec.MsgspecError:  # half of a file, or one of another version
        return None


class BoardDisplay(Display):
    """The driver's side: takes what a display shows, and writes it in a thread of its own."""

    def __init__(self, store: Store, attempt: str, *, logs: bool, is_shown: bool, stop: Callable[[], None]) -> None:
        """Begin to write.

        Args:
            attempt: names this driver.
            logs: whether the client shows lines of trials.
            is_shown: whether it shows anything.
            stop: called once the client wants this driver to stop, again for each of its wishes.
        """
        self.is_shown = is_shown
        self._store, self._attempt, self._logs, self._stop = store, attempt, logs, stop
        self._guard = threading.Lock()
        self._notes: deque[Numbered] = deque(maxlen=_MOST_NOTES)
        self._printed: deque[Numbered] = deque(maxlen=_MOST_LINES)
        self._number = self._beat = 0
        self._newest: StudyStatus | None = None
        self._ending: Ending | None = None
        self._has_news = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write_on, name="asyncsearch-board", daemon=True)
        self._thread.start()

    def begin(self, sentence: str) -> None:
        """The client has said it."""

    def warn(self, sentences: Sequence[str]) -> None:
        with self._guard:
            for sentence in sentences:
                self._number += 1
                self._notes.append(Numbered(self._number, note=sentence))
                self._has_news = True

    def update(self, status: StudyStatus) -> None:
        with self._guard:
            self._newest, self._has_news = status, True

    def log_lines(self, lines: Sequence[tuple[str, LogLine]]) -> None:
        if self._logs:
            with self._guard:
                for trial, line in lines:
                    self._number += 1
                    self._printed.append(Numbered(self._number, trial=trial, line=line))
                    self._has_news = True

    def close(self) -> None:
        """The last status is written by ``end``: a run says more after it has closed its display."""

    def end(self, ending: Ending | None = None) -> None:
        """Write the last state, and no more."""
        self._ending = ending
        self._over.set()
        self._thread.join()

    def _write_on(self) -> None:
        silent_s, is_over = ALIVE_EVERY_S, False
        while not is_over:
            is_over = self._over.wait(WRITTEN_EVERY_S)
            silent_s += WRITTEN_EVERY_S
            with contextlib.suppress(StoreError):  # it is away for the moment, and the driver waits for it
                if self._store.read(STOP) == self._attempt.encode():
                    self._store.remove(STOP)
                    self._stop()
                if self._has_news or is_over or silent_s >= ALIVE_EVERY_S:
                    self._write(is_over)
                    silent_s = 0.0

    def _write(self, is_over: bool) -> None:
        with self._guard:
            self._beat += 1
            self._has_news = False
            shown = sorted([*self._notes, *_last(self._printed)], key=lambda one: one.number)
            board = Board(self._attempt, self._beat, tuple(shown), self._newest, is_over, self._ending)
        self._store.write(BOARD, msgspec.msgpack.encode(board))


def _last(lines: Sequence[Numbered]) -> list[Numbered]:
    """Return the last lines that fit."""
    room, found = _MOST_CHARS, []
    for one in reversed(lines):
        room -= len(one.line.text) if one.line is not None else 0
        if room < 0:
            break
        found.append(one)
    return found


class BoardReader:
    """The client's side: shows on its own display what is new."""

    def __init__(self, store: Store, display: Display) -> None:
        self._store, self._display = store, display
        self._seen = ("", 0)
        """The attempt and the number of the last line shown."""
        self.last: Board | None = None

    def look(self, driver: str) -> bool:
        """Show the news, and return whether a driver has written since the last look.

        Args:
            driver: its name; what another one has left there is not shown.

        Raises:
            StoreError: the store cannot be read.
        """
        board = read_board(self._store)
        if board is None or board.attempt != driver:
            return False
        before, self.last = self.last, board
        if before is not None and (before.attempt, before.beat) == (board.attempt, board.beat):
            return False
        attempt, number = self._seen
        first = number + 1 if attempt == board.attempt else 1
        new = [one for one in board.shown if one.number >= first]
        if new:
            self._show(new, first)
            self._seen = board.attempt, new[-1].number
        if board.status is not None:
            self._display.update(board.status)
        return True

    def _show(self, new: Sequence[Numbered], first: int) -> None:
        left_out = new[-1].number - first + 1 - len(new)
        if left_out:
            self._display.warn([f"{left_out:,} lines came faster than they are read; `asyncsearch logs` has them all."])
        lines: list[tuple[str, LogLine]] = []
        for one in new:
            if one.line is not None:
                lines.append((one.trial, one.line))
                continue
            if lines:
                self._display.log_lines(lines)
                lines = []
            self._display.warn([one.note])
        if lines:
            self._display.log_lines(lines)
