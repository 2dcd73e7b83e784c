"""A worker's task of the cluster that meets the driver, serves one launch, and ends with the driver."""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
from collections.abc import Callable

from asyncsearch.actions import DismissWorker
from asyncsearch.agent.config import DriverStream, WorkerConfig
from asyncsearch.errors import DisconnectedError
from asyncsearch.launch.remote.launcher import with_keys
from asyncsearch.launch.remote.meeting import BUNDLE, MeetingLine, launch_file, meet
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)
_MOST_CHARS = 2_000
_GONE = "its driver is gone"


class MetDriver:
    """Gives a task its configuration, and runs its agent: one object, for one task."""

    def __init__(self, store: bytes) -> None:
        """Prepare what the client pickles; ``store`` is pickled already, since Spark has a pickler of its own."""
        self._store = store
        self._line: MeetingLine | None = None

    def received(self) -> WorkerConfig | None:
        """Wait for a launch, and return its configuration; None if the run is over, or no driver comes."""
        store: Store = pickle.loads(self._store)  # noqa: S301 - of this task's closure
        try:
            self._line, assigned = meet(store)
        except DisconnectedError as error:
            _log.info("%s", error)
            return None
        try:
            data = None if assigned.is_over else store.read(launch_file(assigned.worker, assigned.epoch))
            bundle = None if assigned.is_over else store.read(BUNDLE)
        except BaseException:
            self._line.close()
            raise
        if data is None or bundle is None:  # the run is over, or ends just now
            self._line.close()
            return None
        # Written by the driver into the store whose bundle workers unpickle anyhow.
        return with_keys(pickle.loads(data), store, bundle)  # noqa: S301

    def run(self, config: WorkerConfig) -> str:
        """Run the agent, tell the driver the reason of its end, and return that."""
        from asyncsearch.agent.agent import run_agent

        line = self._line
        assert line is not None
        try:
            reason = run_agent(config, connect=_Stream(line).connect)
            with contextlib.suppress(OSError):  # the driver is gone
                line.send(reason)
            return reason
        except Exception as error:
            with contextlib.suppress(OSError):
                line.send(f"its task failed: {error}"[:_MOST_CHARS])
            raise
        finally:
            self.leave()

    def leave(self) -> None:
        """End the meeting, which tells the driver that this task is gone."""
        if self._line is not None:
            self._line.close()


class _Stream:
    """Connects the agent to the driver's server, and ends the agent when the driver's task is gone.

    An agent would look for its driver for half a minute, and keep the slot that another driver is waiting for.
    """

    def __init__(self, line: MeetingLine) -> None:
        self._line = line

    def connect(
        self,
        endpoint: Endpoint | None,
        hello: Hello,
        *,
        deliver: Callable[[DriverMessage], None],
        closed: Callable[[Exception | None], None],
        reconnect_s: float,
    ) -> DriverStream:
        from asyncsearch.rpc.client import Connection

        assert endpoint is not None

        def watch() -> None:
            with contextlib.suppress(OSError):
                self._line.receive()
            # First, so that no message is waited for.
            deliver(DismissWorker(hello.worker, hello.epoch, _GONE, is_unheard=True))
            closed(None)

        threading.Thread(target=watch, name="asyncsearch-driver-watch", daemon=True).start()
        return Connection(endpoint, hello, deliver=deliver, closed=closed, reconnect_s=reconnect_s)
