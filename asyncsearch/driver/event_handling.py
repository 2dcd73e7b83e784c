"""The handling of events: each is decided on and written; what was decided is carried out once it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from asyncsearch.driver.commits import Commits
from asyncsearch.driver.dispatcher import Dispatcher
from asyncsearch.driver.incoming import EventInbox, Incoming, Received, TrueSizes
from asyncsearch.driver.losses import loss_in
from asyncsearch.driver.promises import Promises
from asyncsearch.driver.timeouts import Timeouts
from asyncsearch.engine.affected import is_stale
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import judged_after
from asyncsearch.events import AnyEvent, PackMeasured, Reported, TrainingEnded, WorkerLost
from asyncsearch.rpc.messages import Judged
from asyncsearch.shared.pack_times import PackExchange
from asyncsearch.shared.session import SharingSession


class EventHandling:
    """Passes events to the engine, and its decisions to the parts of the driver. Called in the driver's thread."""

    def __init__(
        self,
        state: StudyState,
        clock: Callable[[], float],
        incoming: Incoming,
        sizes: TrueSizes,
        commits: Commits,
        dispatcher: Dispatcher,
        timeouts: Timeouts,
        promises: Promises,
        packs: PackExchange,
        sharing: SharingSession | None,
        say: Callable[[str], None],
    ) -> None:
        """Begin; ``clock``: seconds since 1970; ``say``: tells the user; the others are the driver's parts."""
        self._state, self._clock, self._say = state, clock, say
        self._incoming, self._sizes, self._commits = incoming, sizes, commits
        self._dispatcher, self._timeouts, self._promises = dispatcher, timeouts, promises
        self._packs, self._sharing = packs, sharing
        self._now = 0.0

    async def handle_all(self, batch: Sequence[AnyEvent | Received], inbox: EventInbox) -> None:
        """Handle what was waiting; what is left if this is broken off goes back into the inbox."""
        for number, item in enumerate(batch):
            if isinstance(item, Received):
                event = self._incoming.event_in(item)
            else:
                event = None if is_stale(self._state, item) else item
            if event is not None and self._sizes.is_to_be_compared(event):
                try:
                    event = await self._sizes.compared(event)
                except asyncio.CancelledError:  # the rest is handled at the end
                    inbox.put_back(batch[number:])
                    raise
            # Also what was refused or is stale: a message that is never acknowledged is sent again for ever.
            if isinstance(item, Received):
                self._commits.receive((item.worker, item.epoch), item.number)
            if event is not None:
                self._handle(event)
            if isinstance(item, Received) and isinstance(event, Reported) and event.is_awaited:
                self._commits.answer((item.worker, item.epoch), _answer(self._state, event))

    def _handle(self, event: AnyEvent) -> None:
        loss = None
        if isinstance(event, WorkerLost):
            self._dispatcher.forget(event)
            loss = loss_in(self._state, event)
        elif isinstance(event, TrainingEnded):
            self._timeouts.end_lane(event)
            loss = loss_in(self._state, event)
        self._promises.before(event)
        self._dispatcher.admission.note(event)
        now = self._time()
        self._commits.add(event, handle(self._state, event, now), now)
        if isinstance(event, PackMeasured):
            self._packs.note(event)
        if isinstance(event, TrainingEnded):
            self._timeouts.end_stop(event.lease)
        self._dispatcher.gangs.end_those_over(self._state, event)
        if loss is not None:
            self._say(loss.sentence(self._state))

    def _time(self) -> float:
        """Return the time of the journal, which a correction of the system's clock cannot turn back."""
        self._now = max(self._now, self._clock())
        return self._now

    async def commit(self) -> None:
        """Make the records durable, and then acknowledge their messages and carry out their actions."""
        # What is sent before it is durable would be decided anew, perhaps otherwise, after a crash of this process.
        durable = await self._commits.commit()
        for (worker, epoch), number in durable.acknowledged.items():
            self._dispatcher.transport.acknowledge(worker, epoch, number)
        for action in durable.actions:
            self._dispatcher.carry_out(action)
        for (worker, epoch), answer in durable.answers:
            self._dispatcher.transport.send(worker, epoch, answer)
        self._dispatcher.gangs.end_those_late(self._state)
        if self._sharing is not None:
            self._sharing.durable()


def _answer(state: StudyState, report: Reported) -> Judged:
    return Judged(report.lease, report.resource, report.lane, judged_after(state, report))
