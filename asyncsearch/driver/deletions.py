"""Deletes the checkpoints that the engine gives up, where no other study can read them.

In a shared folder a study deletes nothing itself: ``shared.session`` writes down the ones that it still needs, and
``shared.cleaning`` deletes the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from asyncsearch.actions import AddLane, Assign, ExtendWork, lanes_given
from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.session import LaneAction, WorkerAction
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)


class CheckpointDeletions:
    """Deletions in a thread of their own, and the work that waits for them. Called in the driver's thread.

    Work waits while a checkpoint is deleted in a node in which it saves: its own checkpoint could be deleted too.
    """

    def __init__(
        self,
        state: StudyState,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[WorkerAction], None],
        writers: NodeWriters,
    ) -> None:
        """Begin without deletions; ``send`` sends an action to a worker."""
        self._state, self._store, self._loop, self._send, self._writers = state, store, loop, send, writers
        writers.take_over(state)
        # Not the thread of snapshots and logs: work may wait for a deletion, and must not wait for those.
        self._thread = ThreadPoolExecutor(1, "asyncsearch-deletions")
        self._deleting: defaultdict[NodeKey, int] = defaultdict(int)
        """How many checkpoints of a node are being deleted."""
        self._waiting: dict[int, list[WorkerAction]] = {}
        """By lease: work that waits for a deletion, and the later decisions about it."""
        self._attempts: dict[CheckpointRef, int | None] = dict.fromkeys(state.references)
        """The attempt that alone has committed a checkpoint; None where the store is to be asked for all versions."""

    def note(self, event: AnyEvent) -> None:
        """Note the committer of a checkpoint: where that is known, the store is not asked what to delete."""
        self._writers.note(event)
        if isinstance(event, CheckpointCommitted):
            attempt = self._attempt_of(event)
            known = self._attempts.setdefault(event.checkpoint, attempt)
            if known != attempt:
                self._attempts[event.checkpoint] = None

    def _attempt_of(self, event: CheckpointCommitted) -> int | None:
        """Return the attempt by whose number a commit can be found; None for a gang's, which may consist of shards."""
        return event.lease.number + event.lane if self._state.gang is None else None

    def delete(self, checkpoint: CheckpointRef) -> None:
        """Delete a checkpoint."""
        self._deleting[checkpoint.node] += 1
        self._thread.submit(self._try_delete, checkpoint, self._attempts.pop(checkpoint, None))

    def drop_late(self, event: CheckpointCommitted) -> None:
        """Delete a checkpoint that was committed after the end of its training, where nobody needs it or trains there.

        Else it would stay until the end of the run, unknown to the engine and so to its quota.
        """
        node = event.checkpoint.node
        trains = any(stage.node == node for one in self._state.attempts.values() for stage in one.batch.stages)
        if event.checkpoint not in self._state.references and not trains:
            self.note(event)
            self.delete(event.checkpoint)

    def admit(self, action: Assign | AddLane) -> None:
        """Send work, or a lane, to a worker as soon as no deletion endangers its checkpoints."""
        if isinstance(action, AddLane) and self.delay(action):
            return  # the work that it joins waits
        for given in lanes_given(action):
            self._writers.begin(given.attempt, (stage.node for stage in given.lane.stages))
        if self._is_endangered(action):
            self._waiting[lanes_given(action)[0].attempt] = [action]
        else:
            self._send(action)

    def delay(self, action: LaneAction) -> bool:
        """Keep an action until the worker has its lane; return False if the worker has it already."""
        number = action.lease.number + action.lane
        if isinstance(action, ExtendWork):
            self._writers.begin(number, (stage.node for stage in action.stages))
        waiting = self._waiting.get(number, self._waiting.get(action.lease.number))
        if waiting is not None:
            waiting.append(action)
        return waiting is not None

    def close(self) -> None:
        """Wait for all deletions."""
        self._thread.shutdown(wait=True)

    def _is_endangered(self, action: WorkerAction) -> bool:
        if not self._deleting:
            return False
        return any(stage.node in self._deleting for given in lanes_given(action) for stage in given.lane.stages)

    def _try_delete(self, checkpoint: CheckpointRef, attempt: int | None) -> None:
        try:
            if attempt is None:
                self._store.delete(checkpoint)
            else:
                self._store.delete_of(attempt, checkpoint)
        except Exception as error:
            self._writers.doubt(checkpoint.node)
            _log.warning("Checkpoint %s could not be deleted: %s. The next run sweeps it.", checkpoint, error)
        self._loop.call_soon_threadsafe(self._deleted, checkpoint.node)

    def _deleted(self, node: NodeKey) -> None:
        self._deleting[node] -= 1
        if self._deleting[node]:
            return
        del self._deleting[node]
        for number, actions in list(self._waiting.items()):
            if not any(map(self._is_endangered, actions)):
                del self._waiting[number]
                if number in self._state.attempts:  # else its worker was lost meanwhile
                    for action in actions:
                        self._send(action)
