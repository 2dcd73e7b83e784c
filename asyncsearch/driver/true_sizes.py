"""The sizes of checkpoints where a quota would act on them: what a worker says of its own is compared with the store.

Else one worker could make the engine give up the checkpoints of all finished trials by a number.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import msgspec

from asyncsearch.engine.state import StudyState
from asyncsearch.errors import StoreError
from asyncsearch.events import AnyEvent, CheckpointCommitted
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)


class TrueSizes:
    """Looks at the store where a commit would exceed the quota. Called in the driver's thread."""

    def __init__(self, state: StudyState, store: Store, silent_s: float) -> None:
        """Begin; a store that does not answer for ``silent_s`` seconds says nothing."""
        self._state, self._store, self._silent_s = state, store, silent_s
        # Of its own: the thread of logs and snapshots may be busy for longer than a decision is to wait.
        self._thread = ThreadPoolExecutor(1, "asyncsearch-sizes")

    def is_to_be_compared(self, event: AnyEvent) -> bool:
        """Return whether an event is a commit that would make the study exceed its quota."""
        usage = self._state.usage
        if not isinstance(event, CheckpointCommitted) or usage.quota_bytes is None:
            return False
        former = usage.sizes.get(event.checkpoint, 0)
        return usage.total_bytes + event.size_bytes - former > usage.quota_bytes

    async def compared(self, event: AnyEvent) -> AnyEvent:
        """Return the event with no more bytes than the store has of its checkpoint."""
        assert isinstance(event, CheckpointCommitted)
        looking = asyncio.get_running_loop().run_in_executor(self._thread, stored_bytes, self._store, event.checkpoint)
        try:
            stored = await asyncio.wait_for(looking, self._silent_s)
        except (StoreError, OSError, TimeoutError) as error:
            _log.warning("The size of a checkpoint could not be read and counts as 0 for quota_bytes: %s", error)
            stored = 0
        return msgspec.structs.replace(event, size_bytes=min(event.size_bytes, stored))

    def close(self) -> None:
        """End the thread, without waiting for a store that does not answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def stored_bytes(store: Store, checkpoint: CheckpointRef) -> int:
    """Return how many bytes the files of a checkpoint's newest version take in a store; 0: it is not there."""
    folder = layout.node_folder(checkpoint)
    files = store.walk(folder)
    versions = layout.versions_of(checkpoint.resource, {name.partition("/")[0] for name in files})
    if not versions:
        return 0
    inside = f"{versions[-1]}/{layout.FILES}/"
    return sum(info.size_bytes for name, info in files.items() if name.startswith(inside))
