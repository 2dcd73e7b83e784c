"""The deadlines of a run: silent workers are lost, late trials fail, and waiting for a store has an end.

Nothing polls: one timer of the loop is set to the earliest deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from asyncsearch.driver.alarms import Alarm
from asyncsearch.driver.store_waits import JOURNAL, StoreWaits, Worker
from asyncsearch.engine.liveness import Deadlines, Liveness
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, StopRequested, TrainingEnded, TrialTimedOut, WorkerLost
from asyncsearch.ids import Lease

STOP_S = 20.0
"""How long workers may take to stop after the store was waited for in vain."""
STALLED_S = 1.0
"""Delay of a timer that tells that this process stood still, as after SIGSTOP."""


class Timeouts:
    """The deadlines of workers, trials and the store. Called in the driver's thread.

    They use the loop's clock: a system clock that is set, or jumps after a suspension, would make workers lost.
    """

    def __init__(
        self,
        state: StudyState,
        waits: StoreWaits,
        settings: DriverSettings,
        loop: asyncio.AbstractEventLoop,
        *,
        post: Callable[[AnyEvent], None],
        changed: Callable[[], None],
    ) -> None:
        """Begin without deadlines.

        Args:
            post: sends an event to the engine.
            changed: called after each change that a display may show.
        """
        self._state, self._waits, self._loop = state, waits, loop
        self._post, self._changed = post, changed
        self._trial_timeout_s = settings.trial_timeout_s
        self._liveness: Liveness[Worker] = Liveness(settings.lease_timeout_s)
        self._deadlines: Deadlines[tuple[Lease, int | None]] = Deadlines()
        """By lease, and by the number of a lane that joined later."""
        self._stop_s = settings.stop_timeout_s
        self._stops: Deadlines[Worker] = Deadlines()
        """Of workers that are to stop all that they train."""
        self._stopping: dict[Worker, tuple[Lease, float]] = {}
        """The lease that each is to stop, and since when: else its messages would put its deadline off for ever."""
        self._alarm = Alarm(loop, self._on_timer)
        self.is_stop_sent = False
        """Whether the run was asked to end because of its store."""

    def seen(self, worker: Worker) -> None:
        """Note a sign of life of a worker."""
        self._liveness.seen(worker, self._loop.time())

    def forget(self, worker: Worker) -> None:
        """Watch a worker no longer."""
        self._liveness.forget(worker)
        self._stopping.pop(worker, None)
        self._stops.call_off(worker)
        self.note_outage(worker, "")

    def begin_attempt(self, lease: Lease, joined: int | None = None) -> None:
        """Begin the time of a lease, or of a lane that joined it, if trials have a limit."""
        if self._trial_timeout_s is not None:
            self._deadlines.set((lease, joined), self._loop.time() + self._trial_timeout_s)
            self.arm()

    def end_attempt(self, lease: Lease, joined: int | None = None) -> None:
        """End the time of a lease, or of a lane that joined it."""
        self._deadlines.call_off((lease, joined))

    def end_lane(self, end: TrainingEnded) -> None:
        """End the time of a lane that joined, or that of its lease with the last of those that came with it."""
        ended = self._state.attempt(end.lease, end.lane)
        if ended is not None and ended.has_joined:
            self.end_attempt(end.lease, end.lane)
            return
        others = [one for one in self._state.attempts_under(end.lease) if one is not ended and not one.has_joined]
        if ended is None or not any(one.is_training for one in others):
            self.end_attempt(end.lease)

    def begin_stop(self, lease: Lease, *, is_refused: bool = False) -> None:
        """Begin the time in which a worker has to end a lease that it was refused, or whose lanes are all to stop."""
        training = [attempt for attempt in self._state.attempts_under(lease) if attempt.end is None]
        if not training or not (is_refused or all(attempt.is_stop_sent for attempt in training)):
            return
        launch = (lease.worker, lease.epoch)
        if is_refused and launch in self._stopping and self._stopping[launch][0] == lease:
            return
        self._stopping[launch] = lease, self._loop.time()
        self._stops.set(launch, self._loop.time() + self._stop_s)
        self.arm()

    def end_stop(self, lease: Lease) -> None:
        """End that time once no lane of the lease trains any more."""
        if all(attempt.end is not None for attempt in self._state.attempts_under(lease)):
            self._stopping.pop((lease.worker, lease.epoch), None)
            self._stops.call_off((lease.worker, lease.epoch))

    def note_outage(self, key: Worker, error: str) -> None:
        """Note that a worker, or the journal, waits for the store; or, without an error, that it waits no longer."""
        now = self._loop.time()
        if error:
            self._waits.began(key, error, now)
        elif self._waits.ended(key, now):
            self._renew_attempts(key)
        self.arm()
        self._changed()

    def arm(self) -> None:
        """Let the timer fire no later than the earliest deadline; one that fires too early is set again."""
        waits = None if self.is_stop_sent else self._waits.next_deadline()
        due = [
            when
            for when in (
                self._liveness.next_deadline(),
                self._deadlines.next_deadline(),
                self._stops.next_deadline(),
                waits,
            )
            if when is not None
        ]
        self._alarm.set_by(min(due, default=None))

    def close(self) -> None:
        """Cancel the timer."""
        self._alarm.cancel()

    def give_up(self) -> None:
        """Count every worker as lost, so that a run ends although some do not answer."""
        for slot in self._state.pool.alive():
            self._post(WorkerLost(slot.worker, slot.epoch, "it did not stop in time"))

    def _on_timer(self, due_s: float) -> None:
        now = self._loop.time()
        if now - due_s > STALLED_S:
            self._listen_again(now)
        for (worker, epoch), silence_s in self._liveness.overdue(now):
            self._liveness.forget((worker, epoch))
            self._post(WorkerLost(worker, epoch, f"it was silent for {silence_s:.0f} s"))
        for lease, joined in self._deadlines.expired(now):
            if self._waits.is_waiting((lease.worker, lease.epoch)) or self._waits.is_waiting(JOURNAL):
                self._deadlines.set((lease, joined), now + (self._trial_timeout_s or 0.0))  # no trial's own time
            else:
                self._post(TrialTimedOut(lease, joined))
        for launch in self._stops.expired(now):
            _, since_s = self._stopping.get(launch, (None, now))
            may_wait = self._waits.is_waiting(launch) and now < since_s + self._waits.timeout_s
            if may_wait or self._waits.is_waiting(JOURNAL):
                self._stops.set(launch, now + self._stop_s)  # it may have stopped, and nobody has read it
            else:
                self._post(WorkerLost(*launch, f"it did not stop within {self._stop_s:g} s"))
        if not self.is_stop_sent and (error := self._waits.answer_in_vain(now)):
            self._end_wait(error, now)
        self.arm()

    def _end_wait(self, error: str, now: float) -> None:
        """End the run, whose store was waited for in vain; or the workers that alone cannot use it."""
        for (worker, epoch), answer in self._waits.alone(now).items():
            self.note_outage((worker, epoch), "")
            self._post(WorkerLost(worker, epoch, f"{self._waits.vain} by it alone: {answer}"))
        if self._waits.is_agreed:
            self.is_stop_sent = True
            self._post(StopRequested(f"{self._waits.vain}: {error}", "StoreError"))
            self._loop.call_later(STOP_S, self.give_up)

    def _listen_again(self, now: float) -> None:
        """Give workers and attempts a whole lease again: their messages of the meantime are not read yet."""
        self._liveness.renew(now)
        for key in self._deadlines.expired(now):
            self._deadlines.set(key, now + self._liveness.timeout_s)
        for worker in self._stops.expired(now):
            self._stops.set(worker, now + self._liveness.timeout_s)

    def _renew_attempts(self, key: Worker) -> None:
        """Give the trials that waited for the store their whole time again."""
        limit = self._trial_timeout_s
        for attempt in self._state.attempts.values() if limit is not None else ():
            lease = attempt.lease
            if attempt.is_training and key in (JOURNAL, (lease.worker, lease.epoch)):
                joined = attempt.lane if attempt.has_joined else None
                self._deadlines.set((lease, joined), self._loop.time() + (limit or 0.0))


class DriverSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the driver; those of the engine are in ``EngineConfig``. Times are in seconds."""

    lease_timeout_s: float = 30.0
    """Silence after which a worker loses its leases."""
    trial_timeout_s: float | None = None
    """Time after which an attempt fails; None for no limit."""
    snapshot_every: int = 50_000
    """Records between two snapshots."""
    stop_timeout_s: float = 60.0
    """Time that a worker has to end a stopped training, though it gives signs of life; then it counts as lost."""
    store_timeout_s: float = 600.0
    """Time for which the run waits for a store that it cannot use."""
    store_silent_s: float = 10.0
    """Time after which a write to the journal that has no answer counts as waiting for the store."""
    release_idle_s: float | None = None
    """Time after which a worker without a use gives its slot back until there is work for it. None for never."""
