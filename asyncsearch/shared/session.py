"""A driver's session in a folder that several studies share: it claims, reads, publishes and holds.

    Assign ──> claim its nodes ──> hold, read the facts ──> nothing new: to the worker
                    │                     └──> Learned, WorkRefused: some of it is already known
                    └── busy ──> WorkRefused, then poll every second ──> Learned ..., NodeFreed

Rule 1: one thread accesses the folder, in the order of the requests: a node is not released after a new lease has been
granted it, and earlier publications are visible to the next driver that claims the node.
Rule 2: only reports in the study's own journal are published.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from asyncsearch.actions import AddLane, Assign, CutWork, ExtendWork, SaveAt, StopTraining, lanes_given
from asyncsearch.engine.affected import is_outdated, is_stale
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import may_pass
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    Learned,
    LearnedPacked,
    NodeFreed,
    Outcome,
    Reported,
    TrainingEnded,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.rpc.redelivery import Backoff
from asyncsearch.shared.folder import NodeFacts
from asyncsearch.shared.membership import FolderAnswer, FolderMembership, Publication, UnpublishedReports

LaneAction = AddLane | StopTraining | SaveAt | CutWork | ExtendWork
"""An action that concerns one lane of a lease."""
WorkerAction = Assign | LaneAction
"""An action that a worker carries out."""

_LOOK_S = 1.0
"""Seconds between polls of nodes in which others train."""
_HOLD_S = 1.0
"""Seconds between a change and the write of the study's hold."""
_RENEWALS = 4
"""Heartbeats within the lease of a claim."""


class SharingSession:
    """One driver's session. Its methods are called in the driver's thread; another thread accesses the folder."""

    def __init__(
        self,
        folder: FolderMembership,
        state: StudyState,
        loop: asyncio.AbstractEventLoop,
        *,
        post: Callable[[AnyEvent], None],
        send: Callable[[WorkerAction], None],
        fail: Callable[[BaseException], None],
        waits: Callable[[str], None],
    ) -> None:
        """Begin the session; nothing is written yet.

        Args:
            folder: the folder.
            state: the study's state, for reading only.
            loop: the driver's loop.
            post: sends an event to the engine.
            send: sends an action to a worker.
            fail: called with the error if the folder can no longer be used.
            waits: called with the error when the folder is waited for, and with an empty one when it no longer is.
        """
        self._folder, self._state, self._loop = folder, state, loop
        self._post, self._send, self._fail, self._waits = post, send, fail, waits
        self._gives_up = threading.Event()
        """Set at the end: then the folder is not waited for."""
        # One thread keeps the order of accesses: a hold is written before the nodes of its checkpoints are released.
        self._thread = ThreadPoolExecutor(1, "asyncsearch-shared")
        self._waiting: dict[int, list[WorkerAction]] = {}
        """Actions for leases that no worker has received yet."""
        self._claimed: dict[int, set[NodeKey]] = {}
        """The nodes in which each open attempt still trains."""
        self._unpublished: dict[int, UnpublishedReports] = {}
        self._due: list[Publication] = []
        """Reports to publish once the journal has them."""
        self._bad: set[CheckpointRef] = set()
        """Checkpoints that a worker could not read."""
        self._held: frozenset[CheckpointRef] | None = None
        """The checkpoints in the hold that was written last."""
        self._is_hold_outdated = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_polling = False

    def drop_late(self, event: CheckpointCommitted) -> None:
        """Let a checkpoint be that was committed after the end of its training: others may read it."""

    def note(self, event: AnyEvent) -> None:
        """Handle an event that is not stale, before the engine does."""
        match event:
            case Reported():
                self._unpublished_of(self._state.attempts[event.lease.number + event.lane]).report(event)
            case CheckpointCommitted():
                self._is_hold_outdated = True
                self._bad.discard(event.checkpoint)
                reports = self._unpublished_of(self._state.attempts[event.lease.number + event.lane])
                reports.reach(event.checkpoint)
                self._due += reports.taken()
            case TrainingEnded():
                attempt = self._state.attempts[event.lease.number + event.lane]
                if event.error_kind == "checkpoint" and attempt.batch.load is not None:
                    self._bad.add(attempt.batch.load)
                self._due += self._unpublished_of(attempt).taken(_end_of_function(attempt, event))
            case WorkerLost():
                for attempt in self._state.attempts_with(event.worker):
                    self._due += self._unpublished_of(attempt).taken()
            case Learned():
                self._is_hold_outdated = True
            case _:
                pass

    def durable(self) -> None:
        """Publish the reports that are now in the journal, and release the nodes whose training has ended."""
        due, self._due = self._due, []
        for publication in due:
            self._do(self._folder.publish, publication)
        self._release_trained()
        if self._is_hold_outdated:
            self._set_timer("hold", _HOLD_S, self._hold)
        self._is_hold_outdated = False
        if self._state.busy:
            self._set_timer("look", _LOOK_S, self._look)

    def delete(self, checkpoint: CheckpointRef) -> None:
        """Note that this study needs a checkpoint no longer; another study may."""
        self._is_hold_outdated = True

    def admit(self, action: Assign | AddLane) -> None:
        """Send work, or a lane, to a worker, or the reason for a refusal to the engine."""
        attempts = self._attempts_of(action)
        if not attempts:
            return
        self._waiting[lanes_given(action)[0].attempt] = [action]
        wanted = {attempt.number: [stage.node for stage in attempt.batch.stages] for attempt in attempts}
        self._claimed |= {number: set(nodes) for number, nodes in wanted.items()}
        trials = {number for attempt in attempts for stage in attempt.batch.stages for number in stage.trials}
        paths = {self._state.trials[number].steps for number in sorted(trials)}
        loads = {attempt.number: load for attempt in attempts if (load := attempt.batch.load) is not None}
        packed = tuple(attempt.number for attempt in attempts if attempt.lanes > 1 or attempt.is_open)
        needed = None
        if self._held is None or not self._held.issuperset(loads.values()):
            needed = self._held = frozenset(self._state.references)
        self._set_timer("renew", self._folder.lease_s / _RENEWALS, self._renew)
        then = functools.partial(self._admitted, action)
        self._do(self._folder.claim, wanted, paths, needed, packed, loads, then=then)

    def delay(self, action: LaneAction) -> bool:
        """Keep an action until the worker has its lane. Return False if the worker already has it."""
        waiting = self._waiting.get(action.lease.number + action.lane, self._waiting.get(action.lease.number))
        if waiting is not None:
            waiting.append(action)
        return waiting is not None

    async def close(self) -> None:
        """Publish the remaining reports, write the hold, and release every claim."""
        self._gives_up.set()
        self._cancel_timers()
        due = self._due
        references = frozenset(self._state.references)

        def end() -> None:
            for publication in due:
                self._folder.publish(publication)
            self._folder.hold(references)
            self._folder.close()

        try:
            await self._loop.run_in_executor(self._thread, end)
        finally:
            self._thread.shutdown(wait=True)

    def abandon(self) -> None:
        """End after a failure; claims that cannot be released expire."""
        self._gives_up.set()
        self._cancel_timers()
        self._thread.shutdown(wait=True, cancel_futures=True)
        with contextlib.suppress(Exception):
            self._folder.close()

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _attempts_of(self, action: Assign | AddLane) -> list[Attempt]:
        """Return the open attempts that an action begins."""
        found = [self._state.attempt(given.lease, given.number) for given in lanes_given(action)]
        return [attempt for attempt in found if attempt is not None]

    def _admitted(self, action: Assign | AddLane, answer: FolderAnswer) -> None:
        lease, number = lanes_given(action)[0][:2]
        joined = number if isinstance(action, AddLane) else None
        attempts = self._attempts_of(action)
        if not attempts or (
            joined is not None and lease.number in self._waiting
        ):  # the lease that it was to join is refused
            self._waiting.pop(lease.number + number, None)
            self._release_trained()
            return
        news = self._news(answer)
        if not news and not answer.busy and not any(is_outdated(self._state, attempt) for attempt in attempts):
            for waiting in self._waiting.pop(lease.number + number):
                self._send(waiting)
            return
        for event in news:
            self._post(event)
        others = next(iter(answer.busy.values()), "")
        reason = f"others train it now: {others}" if others else "others have trained some of it before"
        self._post(WorkRefused(lease, reason, tuple(answer.busy), joined))

    def _learned(self, node: NodeKey, found: NodeFacts) -> Learned:
        checkpoints = tuple(at for at in found.checkpoints if CheckpointRef(node, at) not in self._bad)
        if found.packed:
            return LearnedPacked(node, found.reports, found.ended, checkpoints, found.packed)
        return Learned(node, found.reports, found.ended, checkpoints)

    def _news(self, answer: FolderAnswer) -> list[Learned]:
        learned = [self._learned(node, found) for node, found in answer.facts]
        return [event for event in learned if not is_stale(self._state, event)]

    def _look(self) -> None:
        """Poll the progress of other drivers in the nodes that this study waits for."""
        if (nodes := tuple(self._state.busy)) and not self._is_polling:
            self._is_polling = True
            self._do(self._folder.look, nodes, then=self._looked)

    def _looked(self, answer: FolderAnswer) -> None:
        self._is_polling = False
        for event in self._news(answer):
            self._post(event)
        for node, _ in answer.facts:
            if node not in answer.busy:
                self._post(NodeFreed(node))
        if self._state.busy:
            self._set_timer("look", _LOOK_S, self._look)

    def _hold(self) -> None:
        self._held = references = frozenset(self._state.references)
        self._do(self._folder.hold, references)

    def _renew(self) -> None:
        if self._claimed:
            self._do(self._folder.renew)
            self._set_timer("renew", self._folder.lease_s / _RENEWALS, self._renew)

    def _release_trained(self) -> None:
        for number, claimed in list(self._claimed.items()):
            attempt = self._state.attempts.get(number)
            left = claimed & _untrained(attempt) if attempt is not None else set()
            if left != claimed:
                self._claimed[number] = left
                # The hold first: who claims the released node could delete a checkpoint of it that nobody holds yet.
                if "hold" in self._timers:
                    self._timers.pop("hold").cancel()
                    self._hold()
                self._do(self._folder.release, number, claimed - left)
            if attempt is None:
                del self._claimed[number]
                self._unpublished.pop(number, None)
                self._waiting.pop(number, None)

    def _unpublished_of(self, attempt: Attempt) -> UnpublishedReports:
        return self._unpublished.setdefault(attempt.number, UnpublishedReports(attempt))

    def _set_timer(self, name: str, seconds: float, function: Callable[[], None]) -> None:
        def fire() -> None:
            del self._timers[name]
            function()

        if name not in self._timers:
            self._timers[name] = self._loop.call_later(seconds, fire)

    def _do(self, function: Callable[..., object], *args: object, then: Callable[..., None] | None = None) -> None:
        """Call a function in the folder's thread, and then ``then`` with its result in the driver's thread."""

        def work() -> None:
            try:
                result = self._until_done(lambda: function(*args))
            except BaseException as error:
                self._loop.call_soon_threadsafe(self._fail, error)
            else:
                if then is not None:
                    self._loop.call_soon_threadsafe(then, result)

        self._thread.submit(work)

    def _until_done(self, access: Callable[[], object]) -> object:
        """Return the result of an access to the folder, each of which may be repeated; wait while the folder fails."""
        delays, is_waiting = Backoff(), False
        while True:
            try:
                result = access()
            except Exception as error:
                if self._gives_up.is_set() or not may_pass(error):
                    raise
                is_waiting = True
                self._loop.call_soon_threadsafe(self._waits, str(error))
                self._gives_up.wait(delays.next_s())
                continue
            if is_waiting:
                self._loop.call_soon_threadsafe(self._waits, "")
            return result


def _untrained(attempt: Attempt) -> set[NodeKey]:
    """Return the nodes in which an attempt may still train."""
    done = -1 if attempt.committed is None else attempt.committed
    return {stage.node for stage in attempt.batch.stages if stage.stop > done}


def _end_of_function(attempt: Attempt, end: TrainingEnded) -> CheckpointRef | None:
    """Return the point at which the user's function returned by itself, if it did."""
    if end.outcome is not Outcome.RETURNED or attempt.is_closed or end.resource >= attempt.batch.stages[-1].stop:
        return None
    return CheckpointRef(attempt.node_at(end.resource), end.resource)
