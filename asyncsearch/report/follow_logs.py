"""The output of a trial as it is written: a second process polls the store and does not disturb the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from asyncsearch.actions import EndRun, MoveTrial
from asyncsearch.events import DriverStarted, RunRequested
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.opening import read_records
from asyncsearch.store.base_store import Store
from asyncsearch.store.logs.reader import LogReader

_SHORTEST_S, _LONGEST_S = 0.5, 5.0
_LAST_LINES_S = 2.0


def follow(store: Store, trial: TrialId, wait: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Yield the lines of a trial's log until the trial or the run has ended, or no driver has the study open.

    Polls twice a second while there are new lines, and ever less often, down to every 5 seconds, while there are none.
    """
    progress = _Progress(store, trial)
    log = LogReader(store, trial_name(trial))
    pause_s = _SHORTEST_S
    while True:
        is_over = progress.is_over()
        if is_over:
            # The driver writes lines a moment later than it records that the trial has ended.
            wait(_LAST_LINES_S)
        new = 0
        for line in log.lines():
            new += 1
            yield line
        if is_over:
            if log.unread:
                yield f"... {log.unread} ..."
            return
        pause_s = _SHORTEST_S if new else min(2 * pause_s, _LONGEST_S)
        wait(pause_s)


class _Progress:
    """Reads new records of the journal, and knows whether more lines can follow."""

    def __init__(self, store: Store, trial: TrialId) -> None:
        self._store, self._trial = store, trial
        self._last = 0
        self._is_running = self._has_ended = False

    def is_over(self) -> bool:
        for record in read_records(self._store, skip=self._last):
            self._last = record.n
            if isinstance(record.event, DriverStarted | RunRequested):
                self._is_running = isinstance(record.event, RunRequested)
            for action in record.actions:
                if isinstance(action, EndRun):
                    self._is_running = False
                elif isinstance(action, MoveTrial) and action.trial == self._trial:
                    self._has_ended = action.to.is_finished
        return self._has_ended or not self._is_running or not self._store.is_locked()
