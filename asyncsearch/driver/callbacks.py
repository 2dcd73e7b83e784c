"""The user's callbacks: called with each trial that has ended, one at a time, in a thread of their own.

    record of an end ──> a copy of the trial ──> queue ──> thread: callback(study, trial)

The driver never waits for a callback, and an exception of one ends no search: it is told in words.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from asyncsearch.actions import AnyAction, MoveTrial
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UsageError
from asyncsearch.events import AnyEvent
from asyncsearch.trial import Trial

TrialCallable = Callable[[Any, Trial], object]
"""Gets the study and a trial that has ended."""


class Callbacks:
    """Calls them for the trials that end in one run. ``follow`` is called in the driver's thread."""

    def __init__(
        self, callbacks: Sequence[TrialCallable], study: object, state: StudyState, say: Callable[[str], None]
    ) -> None:
        """Begin; ``state``: for reading in the driver's thread only; ``say``: tells the user a sentence."""
        self._callbacks, self._study, self._state, self._say = tuple(callbacks), study, state, say
        self._queue: queue.SimpleQueue[Trial | None] = queue.SimpleQueue()
        self._shown_kinds: set[tuple[int, str]] = set()
        """Which callback raised which kind of exception: each is told once."""
        self._failures = 0
        self._thread: threading.Thread | None = None

    def follow(self, _now: float, _event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        """Let the callbacks be called for the trials that a record has ended."""
        for action in actions if self._callbacks else ():
            if isinstance(action, MoveTrial) and action.to.is_finished:
                self._put(self._state.trials[action.trial])

    def close(self, patience_s: float) -> None:
        """Wait until they have been called for all trials, for so long at most, and say what is missing."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(patience_s)
        if self._thread.is_alive():
            left = sum(1 for _ in iter(self._taken, None))
            self._say(f"A callback has not returned within {patience_s:g} s; {left} more trials were not told to them.")
        if self._failures > len(self._shown_kinds):
            self._say(f"Callbacks raised {self._failures:,} times in all; each kind of exception was told once.")

    def _put(self, trial: Trial) -> None:
        own = {} if trial.value is None else {self._state.config.metric: trial.value}
        if self._thread is None:
            # A daemon: a callback that hangs keeps no interpreter from its end.
            self._thread = threading.Thread(target=self._run, name="asyncsearch-callbacks", daemon=True)
            self._thread.start()
        self._queue.put(trial.seen_in(trial.words, own | self._state.latest.of(trial.id)))

    def _taken(self) -> Trial | None:
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None

    def _run(self) -> None:
        while (trial := self._queue.get()) is not None:
            for place, callback in enumerate(self._callbacks):
                try:
                    callback(self._study, trial)
                except BaseException as error:
                    self._failures += 1
                    kind = place, type(error).__name__
                    if kind not in self._shown_kinds:
                        self._shown_kinds.add(kind)
                        self._say(_words(callback, trial, error))


def _words(callback: TrialCallable, trial: Trial, error: BaseException) -> str:
    name = getattr(callback, "__qualname__", type(callback).__name__)
    place, found = "", error.__traceback__
    while found is not None:
        place, found = f', in "{found.tb_frame.f_code.co_filename}", line {found.tb_lineno}', found.tb_next
    what = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    return f"The callback {name} raised {what}{place}, after {trial.name}; the search goes on, and so do the callbacks."


def callbacks_of(given: object) -> tuple[TrialCallable, ...]:
    """Return the callbacks of a run.

    Raises:
        UsageError: they are no functions of a study and a trial.
    """
    found = (given,) if callable(given) else tuple(given) if isinstance(given, list | tuple) else None
    if found is None or not all(callable(one) and not isinstance(one, type) for one in found):
        raise UsageError(
            f"callbacks={given!r} must be functions of a study and a trial: write callbacks=[show], with "
            "`def show(study, trial): print(trial)`."
        )
    return found
