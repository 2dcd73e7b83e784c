"""Where the lines that trials print go: into the store's logs, and to whoever watches."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import Executor

from asyncsearch.errors import StoreError, may_pass
from asyncsearch.ids import worker_name
from asyncsearch.rpc.messages import LogLine, LogLines
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)
_MAX_SHOWN = 10_000


class LogSink:
    """Collects lines in the loop thread; writes them to the store in another, grouped by trial."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._store, self._loop, self._executor = store, loop, executor
        self._interval_s = store.log_interval_s
        self._pending: dict[str, list[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writers: dict[str, int] = {}
        """Trial -> number of the attempt whose lines came last."""
        self._held: dict[str, list[str]] = {}
        """Lines that could not be written; the executor's own."""
        self._is_refused = False
        """Whether the last write failed, which is told once."""
        self._is_closed = False
        self.shown: deque[tuple[str, LogLine]] = deque(maxlen=_MAX_SHOWN)
        """The newest lines with the name of their trial, for the display to take from the left; the oldest fall off."""

    def take(self, trial: str, batch: LogLines, start: int = 0) -> None:
        """Take a batch in; ``start``: units that were trained when the attempt began whose lines these are."""
        lines = self._pending.setdefault(trial, [])
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
        self._schedule()

    def note(self, trial: str, text: str) -> None:
        """Put a line of our own into a trial's log."""
        self._pending.setdefault(trial, []).append(f"... {_one_line(text)} ...")
        self._schedule()

    def close(self) -> None:
        """Write what is pending, behind all that was before it, and nothing that comes now: the executor is to end."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._flush()

    def _schedule(self) -> None:
        if self._timer is None and not self._is_closed:
            self._timer = self._loop.call_later(self._interval_s, self._flush)

    def _flush(self) -> None:
        self._timer = None
        pending, self._pending = self._pending, {}
        self._executor.submit(self._write, pending)

    def _write(self, pending: dict[str, list[str]]) -> None:
        """Write what is pending, behind what could not be written before; in the executor's thread."""
        held, self._held = self._held, {}
        for trial, lines in pending.items():
            held.setdefault(trial, []).extend(lines)
        for trial, lines in held.items():
            try:
                self._store.append_log(trial, lines)
                self._is_refused = False
            except (StoreError, OSError) as error:
                if may_pass(error):
                    self._held[trial] = lines[-_MAX_SHOWN:]
                if not self._is_refused:
                    _log.warning("The log of %s could not be written: %s", trial, error)
                self._is_refused = True


def _one_line(text: str) -> str:
    """Return a text without line breaks: a second line could be taken for that of another time or trial."""
    return text if "\n" not in text and "\r" not in text else " ".join(text.splitlines())
