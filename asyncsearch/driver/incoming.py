"""What workers say: refused, taken into the logs, or passed on to the engine."""

from __future__ import annotations

import msgspec

from asyncsearch.driver.dispatcher import Dispatcher
from asyncsearch.driver.logs import LogSink
from asyncsearch.driver.timeouts import Timeouts
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Reported, TrainingEnded
from asyncsearch.ids import WorkerId, trial_name
from asyncsearch.rpc.messages import Heartbeat, Hello, LogLines, StoreOutage, WorkerMessage


class Received(msgspec.Struct, frozen=True):
    """A numbered message of a worker."""

    worker: WorkerId
    epoch: int
    number: int
    message: WorkerMessage


class Incoming:
    """Tells which messages are events. Called in the driver's thread."""

    def __init__(self, state: StudyState, dispatcher: Dispatcher, timeouts: Timeouts, logs: LogSink) -> None:
        self._state, self._dispatcher, self._timeouts, self._logs = state, dispatcher, timeouts, logs

    def event_in(self, received: Received) -> AnyEvent | None:
        """Return the event in a message; log lines are no events, and stale leases are refused."""
        worker, message = (received.worker, received.epoch), received.message
        if isinstance(message, (Hello, Heartbeat)):  # a union of the two would be built for each message
            return None
        if isinstance(message, StoreOutage):
            if self._state.pool.is_current(*worker):
                self._timeouts.note_outage(worker, message.error)
            return None
        attempt = self._state.attempt(message.lease)
        if attempt is None or message.lease.worker != received.worker or message.lease.epoch != received.epoch:
            self._dispatcher.refuse(worker, message.lease, f"{message.lease} is not current any more")
            return None
        needs_training = isinstance(message, (Reported, TrainingEnded))  # commits and lines may follow a lane's end
        if not (attempt.may_report(message.lane) if needs_training else attempt.has_lane(message.lane)):
            self._dispatcher.refuse(worker, message.lease, f"lane {message.lane} of {message.lease} trains no more")
            return None
        if isinstance(message, LogLines):
            self._logs.take(trial_name(attempt.trial), message)
            return None
        return message
