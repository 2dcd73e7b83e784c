"""One of several studies that run on one cluster: its thread, its end, and what there is to show of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from asyncsearch.driver.interrupts import Interrupts, interruption
from asyncsearch.driver.threads import Wakeup
from asyncsearch.errors import UsageError
from asyncsearch.report.live.display import Display
from asyncsearch.report.live.lines import continue_command, continue_line, short_line
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.table import StudyRow
from asyncsearch.rpc.messages import LogLine
from asyncsearch.study.found_workers import SharedPlace
from asyncsearch.study.study import Study, run_shown

Thread = Callable[[Callable[[], None], str], threading.Thread]


class Submission(Display):
    """A study that was submitted to a ``Cluster``."""

    def __init__(
        self,
        study: Study,
        place: SharedPlace,
        wakeup: Wakeup,
        *,
        watch: Callable[[Sequence[Submission]], None],
        shown: Sequence[str],
    ) -> None:
        """Begin nothing yet.

        Args:
            study: to be run.
            place: its place on the cluster.
            wakeup: set when it ends.
            watch: waits until some submissions have ended, and shows all of them.
            shown: the notes that hold for all studies, and are not shown for each again.
        """
        self.study = study
        self.error: BaseException | None = None
        """Why it failed; None if it did not, or has not ended."""
        self.is_raised = False
        """Whether its error was raised where it was waited for."""
        self._watch, self._place, self._wakeup, self._shown = watch, place, wakeup, shown
        self._interrupts = Interrupts()
        self._is_running = False
        self._notes: deque[str] = deque()
        self._statuses: deque[StudyStatus] = deque(maxlen=1)
        self._last: StudyStatus | None = None

    @property
    def is_running(self) -> bool:
        """Whether its run has not ended."""
        return self._is_running

    @property
    def workers(self) -> int:
        """How many of the cluster's workers it holds now."""
        return self._place.share.held

    @property
    def result(self) -> Study:
        """The study, once its run has ended.

        Raises:
            UsageError: it has not.
            AsyncSearchError: it failed.
        """
        if self._is_running:
            raise UsageError(f"{self.study.name!r} is still searching: write handle.wait() first.")
        self.raise_error()
        return self.study

    def wait(self) -> Study:
        """Wait until the run has ended, while all studies of the cluster are shown.

        Returns:
            The study.

        Raises:
            AsyncSearchError: it failed.
            KeyboardInterrupt: it was interrupted; its results are kept, and ``run`` continues the search.
        """
        self._watch([self])
        return self.result

    def interrupt(self) -> None:
        """Ask the run to end as Ctrl-C does; its results are kept. A second time its workers are not waited for."""
        self._interrupts.add()

    def start(self, thread: Thread, options: dict[str, Any]) -> None:
        """Run the study in a thread of its own, which ``thread`` makes; ``options`` are those of ``run_shown``."""

        def run() -> None:
            try:
                run_shown(self.study, display=self, interrupts=self._interrupts, place=self._place, **options)
            except BaseException as error:
                self.error = error
            finally:
                self._is_running = False
                self._wakeup.set()

        self._is_running = True
        try:
            thread(run, f"asyncsearch-{self.study.name}").start()
        except Exception as error:  # the machine has no thread to spare, or Spark is gone
            self._is_running, self.error = False, error

    def raise_error(self) -> None:
        """Raise what ended its run, once; nothing if it came to its end."""
        if self.is_raised or self.error is None:
            return
        self.is_raised = True
        if self.was_interrupted:
            raise interruption()
        self.error.add_note(f"This happened in the study {self.study.name!r}, one of several on one cluster.")
        raise self.error

    @property
    def was_interrupted(self) -> bool:
        """Whether it was asked to end."""
        return self._interrupts.count > 0

    def row(self) -> StudyRow:
        """Return its row in the table of all studies."""
        share = self._place.share
        return StudyRow(self.study.name, share.held, share.workers, self._last, is_running=self._is_running)

    def lines(self) -> list[str]:
        """Return the lines to print of it now; called in the main thread."""
        found = [self._notes.popleft() for _ in range(len(self._notes))]
        if self._statuses:
            found.append(f"{self.study.name}: {short_line(self._statuses.pop())}")
        return found

    def notes(self) -> list[str]:
        """Return only the notes, for a display that has a table."""
        self._statuses.clear()
        return self.lines()

    def begin(self, sentence: str) -> None:
        self._notes.append(sentence)

    def warn(self, sentences: Sequence[str]) -> None:
        self._notes.extend(
            f"{self.study.name}: note: {sentence}" for sentence in sentences if sentence not in self._shown
        )

    def update(self, status: StudyStatus) -> None:
        self._last = status
        if status.trials:
            self._statuses.append(status)
        if status.is_unfinished:
            self._notes.append(f"{self.study.name}: {continue_line(status)}\n    {continue_command(status)}")

    def log_lines(self, lines: Sequence[tuple[str, LogLine]]) -> None:
        """Lines of several studies at once are for their logs."""

    def close(self) -> None:
        """The last line stays."""
