"""Silence is counted while the driver listens, and only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from asyncsearch.driver.settings import DriverSettings
from asyncsearch.driver.store_waits import JOURNAL, StoreWaits, Worker
from asyncsearch.driver.timeouts import Timeouts
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Outcome, TrainingEnded, TrialTimedOut, WorkerLost
from asyncsearch.ids import Lease, WorkerId
from tests.engine.test_joins import played
from tests.engine.tools import make_state

W0 = (WorkerId(0), 1)
LEASE = Lease(1, WorkerId(0), 1)


class Timer:
    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due, self.call, self.is_cancelled = due, call, False

    def when(self) -> float:
        return self.due

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """A loop whose time is set by the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, call))
        return self.timers[-1]

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        return self.call_at(self.now + delay, call)

    def go_to(self, now: float) -> None:
        """Let time pass; all timers that are due fire at its end, as after a stop of the process."""
        self.now = now
        due = [timer for timer in self.timers if timer.due <= now]
        self.timers = [timer for timer in self.timers if timer.due > now]
        for timer in due:
            if not timer.is_cancelled:
                timer.call()


class Watched:
    """Timeouts, and what they have posted."""

    def __init__(self, state: StudyState | None = None, **settings: Any) -> None:
        self.events: list[AnyEvent] = []
        self.loop = Loop()
        loop: Any = self.loop
        options = DriverSettings(lease_timeout_s=30.0, **settings)
        state = state or make_state()
        waits = StoreWaits("store", 600.0, lambda: state.voices)
        self.notices = waits.notices
        self.timeouts = Timeouts(state, waits, options, loop, post=self.events.append, changed=lambda: None)
        self.timeouts.seen(W0)
        self.timeouts.arm()


def test_a_worker_that_is_silent_while_the_driver_listens_is_lost() -> None:
    watched = Watched()
    watched.loop.go_to(30.1)
    assert watched.events == [WorkerLost(*W0, "it was silent for 30 s")]


@pytest.mark.parametrize("stopped_s", [40.0, 4000.0])
def test_a_driver_that_was_stopped_loses_no_worker_for_it(stopped_s: float) -> None:
    watched = Watched()
    watched.loop.go_to(stopped_s)
    assert watched.events == [], "what the worker has sent meanwhile is not read yet"
    watched.timeouts.seen(W0)
    watched.loop.go_to(stopped_s + 29.0)
    assert watched.events == []


def test_a_worker_dead_while_the_driver_was_stopped_is_lost_a_lease_later() -> None:
    watched = Watched()
    watched.loop.go_to(4000.0)
    watched.loop.go_to(4030.1)
    assert watched.events == [WorkerLost(*W0, "it was silent for 30 s")]


def test_an_attempt_overdue_while_the_driver_was_stopped_is_not_failed() -> None:
    watched = Watched(trial_timeout_s=10.0)
    watched.timeouts.begin_attempt(LEASE)
    watched.loop.go_to(4000.0)
    assert watched.events == []
    watched.timeouts.seen(W0)
    watched.loop.go_to(4030.1)
    assert TrialTimedOut(LEASE) in watched.events


PACK = Lease(0, WorkerId(0), 1)
JOINED = 4
"""Number of the lane that joined the pack."""


def timed_out_at(now: float, *waiting: Worker) -> list[AnyEvent]:
    """Return which times are over for a pack and a lane that joined it, if a store is waited for from 5 s to 9 s."""
    watched = Watched(played().state, trial_timeout_s=10.0)
    watched.timeouts.begin_attempt(PACK)
    watched.timeouts.begin_attempt(PACK, JOINED)
    for at, error in ((5.0, "no space left"), (9.0, "")):
        watched.loop.go_to(at)
        for worker in waiting:
            watched.timeouts.note_outage(worker, error)
    for at in (10.5, now):
        watched.loop.go_to(at)
    return watched.events


@pytest.mark.parametrize("waits", [W0, JOURNAL])
def test_those_that_waited_for_the_store_have_their_whole_time_again(waits: Worker) -> None:
    assert timed_out_at(18.5, waits) == []
    assert set(timed_out_at(19.5, waits)) == {TrialTimedOut(PACK), TrialTimedOut(PACK, JOINED)}


@pytest.mark.parametrize("waiting", [[], [(WorkerId(1), 1)]])
def test_the_time_of_those_that_did_not_wait_goes_on(waiting: list[Worker]) -> None:
    assert set(timed_out_at(10.6, *waiting)) == {TrialTimedOut(PACK), TrialTimedOut(PACK, JOINED)}


def test_a_lane_that_has_ended_gets_no_time_when_the_store_answers_again() -> None:
    player = played()
    for lane in range(3):
        player.tell(TrainingEnded(PACK, Outcome.REACHED, 2, 2, lane=lane))
    watched = Watched(player.state, trial_timeout_s=10.0)
    watched.timeouts.begin_attempt(PACK, JOINED)
    watched.timeouts.note_outage(W0, "no space left")
    watched.timeouts.note_outage(W0, "")
    watched.loop.go_to(10.5)
    assert watched.events == [TrialTimedOut(PACK, JOINED)]
