"""Tests of the stopwatch of a training."""

from __future__ import annotations

from msgspec import UNSET

from asyncsearch.events import Spent
from asyncsearch.runner.stopwatch import TRAINING, Stopwatch


class Clock:
    """Tells the time that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_fast_reports_leave_out_the_next_one_tells() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    watch.switch(TRAINING)
    told = []
    for millisecond in range(1, 41):
        clock.now = millisecond / 1000
        told.append(watch.news(is_urgent=millisecond == 33))
    given = {place + 1: spent.training for place, spent in enumerate(told) if isinstance(spent, Spent)}
    assert 33 in given  # a verdict is awaited there, and may be the last that is heard of it
    assert all(abs(millisecond - training) <= 1 for millisecond, training in given.items())
    assert 3 <= len(given) <= 5
    assert told[0] is UNSET
    assert watch.read().training == 40
