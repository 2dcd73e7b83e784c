"""When a study was searched, and for how long, so that it can be said long after its runs. Pure."""

from __future__ import annotations

import msgspec


class RunTimes(msgspec.Struct):
    """The times of a study's runs. Moments are the driver's clock, in seconds since 1970.

    The duration of a run is the time from its request to its end in the journal, wherever it is shown: the start and
    the end of workers before and after are no part of it.
    """

    began_s: float | None = None
    """When the run in progress began. None if none is in progress."""
    seen_s: float = 0.0
    """The last report or decision: a run whose driver died has lasted until then."""
    done_before: int = 0
    """Amount of work that had been begun before the run in progress."""
    ended_s: float | None = None
    """When the last run ended. None if none has. A run that had nothing to do changes nothing."""
    total_s: float | None = 0.0
    """Duration of all runs together. None if it is unknown, since older versions did not note it."""
    runs: int = 0
    """How many runs ``total_s`` counts."""
    last_s: float | None = None
    """Duration of the last of these runs. None if it is unknown, or there was none."""

    def begin(self, now: float, done: int) -> None:
        """Begin a run; ``done`` is the amount of work begun so far: a number that only grows."""
        self.began_s, self.seen_s, self.done_before = now, now, done

    def end(self, now: float, done: int) -> None:
        """End the run in progress, if there is one."""
        began_s, self.began_s = self.began_s, None
        if began_s is None or done == self.done_before:
            return
        self.ended_s = now
        self.last_s = now - began_s
        self.runs += 1
        if self.total_s is not None:
            self.total_s += now - began_s

    @property
    def elapsed_s(self) -> float | None:
        """Duration of the run in progress up to its last report or decision. None if no run is in progress."""
        return None if self.began_s is None else self.seen_s - self.began_s
