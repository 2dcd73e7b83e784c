"""The state of a store that cannot be used, and the sentences in which the driver says so."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from asyncsearch.engine.liveness import Outages
from asyncsearch.errors import StoreError
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.rpc.redelivery import Backoff

_log = logging.getLogger(__name__)
Worker = tuple[WorkerId, int]
"""One launch of a worker: its number and epoch."""
JOURNAL: Worker = (WorkerId(-1), 0)
"""Stands for the journal, among the workers that wait for the store."""
FOLDER: Worker = (WorkerId(-2), 0)
"""Stands for the folder that studies share."""
SILENT = "It does not answer."
_NAMES = {JOURNAL: "The journal", FOLDER: "The driver"}
_AGAIN_S = 60.0
"""A worker that can and cannot use the store by turns is told of once in so many seconds."""


class StoreWaits:
    """The workers that wait for the store, and the sentences about it for the user. Called in the driver's thread."""

    def __init__(self, store: str, timeout_s: float, voices: Callable[[], int] = lambda: 2) -> None:
        """Begin with a store that can be used.

        Args:
            store: its name for people.
            timeout_s: how long a run waits for it.
            voices: returns how many workers speak for themselves.
        """
        self._store, self._voices = store, voices
        self.notices: deque[str] = deque(maxlen=100)
        """Sentences for the display, which takes them from the left."""
        self.changed = asyncio.Event()
        """Set when the journal need not be waited for any longer."""
        self._outages: Outages[Worker] = Outages(timeout_s, _NAMES)
        self._delays = Backoff()
        self._shown = ""
        """The last answer of the store."""
        self._shown_s: dict[Worker, float] = {}
        """When it was told of each worker."""
        self._is_shown = False

    def began(self, key: Worker, error: str, now: float) -> None:
        """Note that a worker, or the journal, waits for the store: told once, and again once it is known why."""
        error = error if error.endswith((".", "!", "?")) else f"{error}."
        is_first = self._outages.began(key, error, now, self._enough)
        if not is_first and (self._shown != SILENT or error == SILENT):
            return
        self._shown = error
        self._is_shown = key in _NAMES or not is_first or now >= self._shown_s.get(key, -_AGAIN_S) + _AGAIN_S
        if not self._is_shown:
            return
        self._shown_s[key] = now
        who = _NAMES.get(key) or worker_name(key[0])
        meanwhile = "reports wait in the workers" if key == JOURNAL else "training goes on as far as it can"
        self.say(
            f"{who} cannot use the store: {error} Nothing is lost, and {meanwhile}; it is tried again for "
            f"{self._outages.timeout_s:g} s (checkpoints=Checkpoints(store_timeout=...)), then the run ends."
        )

    def ended(self, key: Worker, now: float) -> bool:
        """Note that a worker, or the journal, waits no longer; return whether it did wait."""
        was_waiting = self._outages.is_waiting(key)
        seconds = self._outages.ended(key, now, self._enough)
        if key == JOURNAL:
            self._delays.reset()
        if seconds is not None and self._is_shown:
            self.say(f"Nothing waits for the store any more, after {seconds:.0f} s.")
        return was_waiting

    def is_waiting(self, key: Worker) -> bool:
        """Return whether a worker, or the journal, waits."""
        return self._outages.is_waiting(key)

    def next_deadline(self) -> float | None:
        """Return the time at which waiting ends, or None."""
        return self._outages.next_deadline()

    def next_try_s(self) -> float:
        """Return the delay before the journal is written again."""
        return self._delays.next_s()

    def answer_in_vain(self, now: float) -> str:
        """Return the answer of the store if the run has waited long enough for it; empty if it has not."""
        return self._outages.expired(now)

    def alone(self, now: float) -> dict[Worker, str]:
        """Return the workers that have waited in vain while others did not, each with its answer.

        A worker speaks for itself until another one waits too, or the driver itself does.
        """
        return self._outages.alone(now)

    @property
    def is_agreed(self) -> bool:
        """Whether the store is to blame."""
        return self._outages.is_agreed

    @property
    def timeout_s(self) -> float:
        """How long a run waits."""
        return self._outages.timeout_s

    @property
    def _enough(self) -> int:
        """How many workers must wait for the store to be to blame."""
        return max(1, min(2, self._voices()))

    @property
    def vain(self) -> str:
        """How long the run waited."""
        return f"the store could not be used for {self._outages.timeout_s:g} s"

    def final_error(self, reason: str, error: object = "") -> StoreError:
        """Return the error of a run whose journal cannot be written; the reason says why it waits no longer."""
        words = str(error)
        if words and not words.endswith("."):
            words += "."
        return StoreError(
            f"The journal cannot be written, and {reason}{f': {words}' if words else '.'} All that was acknowledged "
            "is in the store, and what was not is trained again: mend the store, then continue by "
            f"Study.resume({self._store!r})."
        )

    def say(self, sentence: str) -> None:
        """Give a sentence to the user."""
        _log.info("%s", sentence)
        self.notices.append(sentence)
