"""A run of asyncsearch that serves one call of a program after the other: between two of them its workers wait.

    caller's thread: optimize, fmin <── what is to be shown, what is asked <── the run's own threads

Each of its trials asks to begin as soon as a worker is free. What it asks, and for how long the question is held, is a
library's own affair; here is what all of them have in common.
"""

from __future__ import annotations

import abc
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from asyncsearch.actions import AnyAction
from asyncsearch.driver.interrupts import Interrupts
from asyncsearch.driver.questions import Response
from asyncsearch.events import AnyEvent
from asyncsearch.ids import Lease, TrialId
from asyncsearch.launch.bundle import Bundle, with_sources
from asyncsearch.report.live.display import Display
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.rpc.messages import LogLine
from asyncsearch.study import study as searches

ENDLESS = 10**9
"""The number of trials of a run that ends otherwise."""


class EndlessRun(abc.ABC):
    """The run, and who answers its trials."""

    display: Display
    """That of the present call."""

    def __init__(self, key: tuple[Any, ...], parallelism: int | None, kept_s: float) -> None:
        """Begin without workers.

        Args:
            key: what its workers have got, to know whether they suit a further call; first whose they are.
            parallelism: how many workers it has. None means one for each slot of the cluster.
            kept_s: how long they wait for a further call.
        """
        self.key, self.parallelism, self.kept_s = key, parallelism, kept_s
        self.is_ended = False
        self.error: BaseException | None = None
        """What has ended it."""
        self.interrupts = Interrupts()
        self._search: searches.Study | None = None
        self._thread: threading.Thread | None = None

    def start(self, search: searches.Study, display: Display) -> None:
        """Start the run, in a thread of its own."""
        self.display, self._search = display, search

        def run() -> None:
            shown = _Relay(self)
            try:
                searches.run_shown(
                    search, ENDLESS, self.parallelism, None, shown, answerer=self, interrupts=self.interrupts
                )
            except BaseException as raised:
                self.error = raised
            self.is_ended = True
            self.note_end()

        self._thread = threading.Thread(target=run, name="asyncsearch-program", daemon=True)
        self._thread.start()

    def suits(self, key: tuple[Any, ...], number: int | None) -> bool:
        """Return whether it can serve a call; see ``waiting_run.taken``."""
        has_enough = self.parallelism is None or (number is not None and self.parallelism >= number)
        return self.key == key and has_enough and not self.is_ended and not self.is_removed

    @property
    def is_removed(self) -> bool:
        """Whether the program has removed the folder of the run, which is its own to remove once a call has ended."""
        store = None if self._search is None else self._search.store
        return store is not None and not store.is_far and not store.entries()

    def let_remove(self, may_be_removed: bool) -> None:
        """Say whether a call of the program is served, for which alone the folder must not be removed."""
        if self._search is not None:
            self._search.store.let_remove(may_be_removed)

    def join(self) -> None:
        """Wait for the thread of a run that has ended."""
        if self._thread is not None:
            self._thread.join()

    @property
    def is_started(self) -> bool:
        """Whether there is a thread to wait for."""
        return self._thread is not None

    def show(self, status: StudyStatus) -> None:
        """Show a status. Called in the thread of the program's call."""
        self.display.update(status)

    @abc.abstractmethod
    def post(self, call: Callable[[], object]) -> None:
        """Have something called in the thread of the program's call."""

    @abc.abstractmethod
    def note_end(self) -> None:
        """Wake the program's call: the run has ended."""

    @abc.abstractmethod
    def close(self, *, now: bool = False) -> None:
        """Let the workers go; ``now``: whatever they do."""

    @abc.abstractmethod
    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response | Future[Response]:
        """Answer a question; see ``driver.questions.Answerer``."""

    @abc.abstractmethod
    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        """Take note of a record; see ``driver.questions.Answerer``."""


class _Relay(Display):
    """Has what the run shows shown by the thread of the program's call."""

    def __init__(self, run: EndlessRun) -> None:
        self._run = run

    @property
    def is_shown(self) -> bool:  # type: ignore[override]  # that of the present display
        return self._run.display.is_shown

    @property
    def shows_lines(self) -> bool:
        return self._run.display.shows_lines

    def begin(self, sentence: str) -> None:
        self._run.post(lambda: self._run.display.begin(sentence))

    def warn(self, sentences: Sequence[str]) -> None:
        if sentences:
            self._run.post(lambda: self._run.display.warn(sentences))

    def update(self, status: StudyStatus) -> None:
        if self.is_shown:
            self._run.post(lambda: self._run.show(status))

    def log_lines(self, lines: Sequence[tuple[str, LogLine]]) -> None:
        self._run.post(lambda: self._run.display.log_lines(lines))

    def close(self) -> None:
        pass  # each call closes its own


def key_of(owner: object, packed: Bundle, parallelism: int | None) -> tuple[Any, ...]:
    """Return all that workers have when they start; where any of it has changed, other workers are needed.

    What else a program says of its workers lets go those that wait: ``programs.workers``.
    """
    sent = hashlib.sha256(with_sources(packed)).digest()
    return owner, sent, parallelism, os.getcwd(), tuple(sys.path), tuple(sorted(os.environ.items()))
