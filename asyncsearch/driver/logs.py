"""The ways of the lines that trials print: into the store's logs, and to whoever watches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from asyncsearch.driver.log_backlog import LogBacklog, LogBounds
from asyncsearch.errors import StoreError
from asyncsearch.ids import worker_name
from asyncsearch.rpc.messages import LogLine, LogLines
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)
_MAX_SHOWN = 2_000
_BLOCK_BYTES = 4 << 20
"""About the most that is appended at once."""
_NOTE_AFTER_S, _END_S = 2.0, 60.0
"""Times after which the end of a run says that it waits for its logs, and gives them up."""


class LogSink:
    """Collects lines in the loop thread; a thread of its own appends them to the store, those of all trials at once.

    One round of writing at a time: lines that come meanwhile wait, within bounds, for the next.
    """

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        *,
        bounds: LogBounds | None = None,
        executor: Executor | None = None,
        say: Callable[[str], None] = _log.warning,
    ) -> None:
        """Begin; nothing is made in the store before a trial prints.

        Args:
            store: of the study.
            loop: whose thread calls the methods.
            bounds: how many lines are kept of too many; None for the usual number.
            executor: one thread, which writes; None for a new one.
            say: takes sentences for the user.
        """
        self._store, self._loop, self._say = store, loop, say
        self._writer = store.open_log()
        self._executor = executor or ThreadPoolExecutor(1, "asyncsearch-logs")
        self._guard = threading.Lock()
        """Held while the backlog is used."""
        self._backlog = LogBacklog(bounds)
        self._timer: asyncio.TimerHandle | None = None
        self._round: Future[None] | None = None
        """The round of writing that runs."""
        self._writers: dict[str, int] = {}
        """Trial -> number of the attempt whose lines came last."""
        self._is_refused = False
        """Whether the last write failed, which is told once."""
        self._is_closed = False
        self.shown: deque[tuple[str, LogLine]] = deque(maxlen=_MAX_SHOWN)
        """The newest lines with the name of their trial, for the display to take from the left; the oldest fall off."""

    def take(self, trial: str, batch: LogLines, start: int = 0) -> None:
        """Take a batch in; ``start``: units that were trained when the attempt began whose lines these are."""
        lines = []
        number = batch.lease.number + batch.lane
        if (last := self._writers.get(trial)) != number:
            self._writers[trial] = number
            if start or last is not None:
                where = worker_name(batch.lease.worker)
                lines.append(f"... {f'goes on from unit {start:,}' if start else 'begins again'} on {where} ...")
        if batch.left_out:
            lines.append(f"... {batch.left_out} lines were left out here: they came faster than they can be kept ...")
        for line in batch.lines:
            text = _one_line(line.text)
            lines.append(f"{line.time_s:.3f} {'E' if line.is_stderr else 'O'} {text}")
            self.shown.append((trial, line if text is line.text else LogLine(line.time_s, text, line.is_stderr)))
        self._add(trial, lines)

    def note(self, trial: str, text: str) -> None:
        """Put a line of our own into a trial's log."""
        self._add(trial, [f"... {_one_line(text)} ..."])

    async def close(self) -> None:
        """Write the pending lines and none that come now; say so if it takes long, and which are lost if it fails."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        with self._guard:
            self._backlog.end()
        last = asyncio.wrap_future(self._executor.submit(self._write_last), loop=self._loop)
        try:
            if not (await asyncio.wait([last], timeout=_NOTE_AFTER_S))[0]:
                self._say(f"The run is over; the last lines of its logs are being written to {self._store.shown} ...")
                await asyncio.wait([last], timeout=_END_S - _NOTE_AFTER_S)
            if not last.done():
                self._say(
                    f"The last lines of the logs were not written within {_END_S:.0f} s, so they are lost; the results "
                    "are in the journal, which is complete."
                )
        finally:
            self._executor.shutdown(wait=False)

    def _add(self, trial: str, lines: list[str]) -> None:
        if self._is_closed:
            return
        with self._guard:
            for line in lines:
                self._backlog.add(trial, line)
        self._schedule(self._writer.interval_s)

    def _schedule(self, delay_s: float) -> None:
        if self._timer is None and self._round is None and not self._is_closed:
            self._timer = self._loop.call_later(delay_s, self._begin_round)

    def _begin_round(self) -> None:
        self._timer = None
        self._round = self._executor.submit(self._write)
        self._round.add_done_callback(self._tell_end)

    def _tell_end(self, done: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: the run did not wait for this round
            self._loop.call_soon_threadsafe(self._end_round, done)

    def _end_round(self, done: Future[None]) -> None:
        self._round = None
        if (error := done.exception()) is not None:
            _log.error("The logs of the trials were not written", exc_info=error)
        if self._backlog or self._is_refused:
            self._schedule(self._writer.interval_s)
        elif self._writer.due_in_s < math.inf:
            self._schedule(max(self._writer.due_in_s, self._writer.interval_s))

    # The thread of the logs, from here on.

    def _write(self) -> None:
        """Append the lines that wait, behind those that could not be written before."""
        try:
            self._writer.write_again()
            while True:
                with self._guard:
                    self._backlog.stored_bytes = self._writer.stored_bytes
                    lines = self._backlog.drain(_BLOCK_BYTES)
                if not lines:
                    break
                self._writer.write(lines)
            self._writer.close_if_due()
            self._is_refused = False
        except (StoreError, OSError) as error:
            if not self._is_refused:
                _log.warning("The logs of the trials could not be written: %s", error)
            self._is_refused = True

    def _write_last(self) -> None:
        self._write()
        try:
            self._writer.close()
        except (StoreError, OSError) as error:  # its lines are durable
            _log.info("The last segment of the logs could not be closed: %s", error)


def _one_line(text: str) -> str:
    """Return a text without line breaks: a second line could be taken for that of another time or trial."""
    return text if "\n" not in text and "\r" not in text else " ".join(text.splitlines())
