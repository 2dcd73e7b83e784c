"""The handling of events: each is decided on and written; what was decided is carried out once it is durable.

People learn of a loss, and of its cost, in a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from asyncsearch.driver.commits import Commits
from asyncsearch.driver.dispatcher import Dispatcher
from asyncsearch.driver.incoming import EventInbox, Incoming, TrueSizes
from asyncsearch.driver.promises import Promises
from asyncsearch.driver.questions import Received, Settled
from asyncsearch.driver.timeouts import Timeouts
from asyncsearch.engine.affected import is_stale, trials_unsaved
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.handling import handle
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import judged_after
from asyncsearch.events import KILLED, AnyEvent, PackMeasured, Reported, TrainingEnded, WorkerLost
from asyncsearch.ids import TrialId, WorkerId, trial_name, worker_name
from asyncsearch.rpc.messages import Judged
from asyncsearch.shared.pack_times import PackExchange
from asyncsearch.shared.session import SharingSession
from asyncsearch.trial import Trial, TrialState


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

    async def handle_all(self, batch: Sequence[AnyEvent | Received | Settled], inbox: EventInbox) -> None:
        """Handle what was waiting; what is left if this is broken off goes back into the inbox."""
        for number, item in enumerate(batch):
            if isinstance(item, Received):
                event = self._incoming.event_in(item)
            elif isinstance(item, Settled):
                self._settle(item)
                continue
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

    def _settle(self, settled: Settled) -> None:
        """Write what a trial was answered, and answer it once that is durable, if it waits for that."""
        if settled.event is not None and not is_stale(self._state, settled.event):
            self._handle(settled.event)
        if settled.answer is not None:
            self._commits.answer(settled.worker, settled.answer)

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


_NAMED = 3
"""Trials of one loss that are named; those of a shared stage may be many."""
_LONGEST_REASON = 1000
"""Characters: enough for a reason with the setting to change, and not for the output of a process."""


class LossNotice(msgspec.Struct, frozen=True):
    """A worker, or the process of a training, that is gone, with the trials that were on it."""

    what: str
    """The loss, in a sentence."""
    trained: dict[TrialId, int]
    """Trial -> resource up to which it had been trained there."""
    worker: WorkerId | None = None
    """The worker that was lost; None if it goes on with another process."""

    def sentence(self, state: StudyState) -> str:
        """Return the loss and its consequences, in the state after it."""
        trials = [state.trials[number] for number in self.trained]
        left = self._not_launched(state)
        parts = [self.what, *_go_on(trials[:_NAMED], self.trained, state), *([left] if left else [])]
        if len(trials) > _NAMED:
            parts.insert(1 + _NAMED, f"So do {len(trials) - _NAMED:,} more that wait for the same training.")
        return " ".join(parts)

    def _not_launched(self, state: StudyState) -> str:
        """Return that the worker is given up; empty if it is not."""
        if self.worker is None or not _goes_on(state):
            return ""
        slot = state.pool.slots[self.worker]
        if slot.state is not SlotState.GONE:
            return ""
        times = "once" if slot.fruitless == 1 else f"{slot.fruitless} times in a row"
        return (
            f"It is not launched again, since it was lost {times} without having finished any training or stored a "
            f"checkpoint; workers left: {len(state.pool.alive())}."
        )


def loss_in(state: StudyState, event: WorkerLost | TrainingEnded) -> LossNotice | None:
    """Return the loss that an event reports; called before the state has handled it."""
    if isinstance(event, WorkerLost):
        attempts = state.attempts_with(event.worker)
        what = f"{worker_name(event.worker)} was lost: {_short(event.reason)}."
        return LossNotice(what, _trained(attempts), event.worker)
    attempt = state.attempt(event.lease, event.lane)
    if event.error_kind != KILLED or attempt is None or attempt.is_closed:
        return None
    trials = [trial.id for trial in trials_unsaved(state, attempt, event)]
    what = (
        f"{_names(trials or [attempt.trial])} lost a process on {worker_name(event.lease.worker)}: "
        f"{_short(event.error.strip().splitlines()[-1] if event.error.strip() else 'it was killed')}."
    )
    return LossNotice(what, dict.fromkeys(trials, max(event.resource, attempt.resource)))


def _trained(attempts: list[Attempt]) -> dict[TrialId, int]:
    return {number: attempt.resource for attempt in attempts for number in attempt.trials}


def _names(trials: list[TrialId]) -> str:
    more = len(trials) - _NAMED
    return ", ".join(map(trial_name, trials[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def _goes_on(state: StudyState) -> bool:
    return state.run is not None and not state.stopping


def _go_on(trials: list[Trial], trained: dict[TrialId, int], state: StudyState) -> Iterator[str]:
    """Yield how each trial goes on."""
    later = "" if _goes_on(state) else " in the next run"
    for trial in trials:
        if trial.state is TrialState.FAILED:
            yield f"{trial.name} has failed: {_short(trial.reason)}."
        elif trial.state in (TrialState.WAITING, TrialState.RUNNING):
            start = 0 if trial.checkpoint is None else trial.checkpoint.resource
            again = trained[trial.id] - start
            where = f"goes on{later} from its checkpoint at {_units(start)}" if start else f"begins again{later}"
            what = f"{_units(again)} {'is' if again == 1 else 'are'}" if again > 0 else "the unit in progress is"
            cost = f"; {what} trained again" if trained[trial.id] > 0 else ""
            yield f"{trial.name} {where}{cost}."


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count:,} units"


def _short(reason: str) -> str:
    """Return the first line of a reason, without its last period: the others are the output of a process."""
    line = next(iter(reason.strip().splitlines()), "nobody says why").rstrip(".")
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."
