"""The tasks of the workers, kept alive by the client: one that ends is run again, for whichever launch comes next."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from asyncsearch.launch.base_launcher import RemoteTasks
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)

_QUICK_S = 3.0
"""A task that ends sooner has served nobody, and the next one waits the longer the more of them there were."""
_LONGEST_WAIT_S = 30.0
_SENT_HOME_S = 3.0
"""How long the next task waits behind one that the driver has sent home: it ends itself then, as a rule."""
_ENDED_WITHIN_S = 1.0
"""Time that tasks have to end by themselves once the run is over: those that served had ended before the driver."""
_CANCEL_AGAIN_S = 2.0
DISMISSED = "dismissed"
"""Begin of the reason of an agent that was dismissed."""
_CANCELLED_WITHIN_S = 30.0


class KeptWorkers:
    """So many tasks, as long as there is a driver for them."""

    def __init__(
        self,
        tasks: RemoteTasks,
        store: Store,
        count: int,
        thread: Callable[[Callable[[], None], str], threading.Thread],
    ) -> None:
        """Begin nothing yet."""
        self._tasks, self._store, self._thread = tasks, store, thread
        self._count = count
        self._changed = threading.Condition()
        self._is_wanted = self._is_over = self._has_threads = False
        self._present: dict[str, float] = {}
        """Tag -> monotonic time of its begin, of the tasks that run, or wait for a slot."""

    def begin(self) -> None:
        """Keep them from now on."""
        with self._changed:
            if self._is_wanted or self._is_over:
                return
            self._is_wanted = True
            self._changed.notify_all()
            if self._has_threads:
                return
            self._has_threads = True
        for number in range(self._count):
            self._thread(lambda number=number: self._keep(number), f"asyncsearch-worker-{number}").start()  # type: ignore[misc]

    def slotless(self, since_s: float) -> int:
        """Return how many tasks have waited for a slot for so many seconds, as far as the cluster tells."""
        with self._changed:
            old = [tag for tag, began_s in self._present.items() if time.monotonic() - began_s > since_s]
        return sum(not self._tasks.is_running(tag) for tag in old)

    def pause(self) -> None:
        """Begin no task until ``begin``; those that run end by themselves, as there is no driver."""
        with self._changed:
            self._is_wanted = False
            self._changed.notify_all()

    def stop(self) -> None:
        """Wait for the ends of all tasks, and cancel those that do not end by themselves."""
        with self._changed:
            self._is_wanted, self._is_over = False, True
            self._changed.notify_all()
            if self._changed.wait_for(lambda: not self._present, _ENDED_WITHIN_S):
                return
        until_s = time.monotonic() + _CANCELLED_WITHIN_S
        while time.monotonic() < until_s:
            with self._changed:
                left = set(self._present)
            for tag in left:
                self._tasks.cancel(tag)
            with self._changed:
                if self._changed.wait_for(lambda: not self._present, _CANCEL_AGAIN_S) or self._tasks.trouble():
                    return

    def _keep(self, number: int) -> None:
        quick = run = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._is_over)
                if self._is_over:
                    return
                run += 1
                tag = f"worker-{number}.{run}"
                self._present[tag] = began_s = time.monotonic()
            try:
                reason = self._tasks.work(self._store, tag)
            except BaseException as error:
                reason = self._tasks.why_lost(error)
            quick = quick + 1 if time.monotonic() - began_s < _QUICK_S else 0
            pause_s = min(_LONGEST_WAIT_S, 0.5 * 2**quick) if quick > 1 else 0.0
            if not reason or reason.startswith(DISMISSED):
                pause_s = max(pause_s, _SENT_HOME_S)
            with self._changed:
                del self._present[tag]
                self._changed.notify_all()
                _log.debug("The task %s has ended: %s", tag, reason)
                self._changed.wait_for(lambda: not self._is_wanted, pause_s)
