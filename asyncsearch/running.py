"""One run of a search: driver, server, launcher and display put together, and taken apart again whatever happens.

The calling thread only shows things and waits, so that Ctrl-C reaches it at once; all clean-up is done by other threads
while it waits, so that a second Ctrl-C cannot skip it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from asyncsearch._version import __version__
from asyncsearch.actions import EndRun
from asyncsearch.driver.journal import Journal
from asyncsearch.driver.loop import Driver, DriverSettings
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
from asyncsearch.events import DriverStarted, RunRequested, StopRequested
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base import Launcher, Preflight
from asyncsearch.report.status import StudyStatus, status_of
from asyncsearch.rpc.messages import Endpoint, LogLine
from asyncsearch.store.base import Store
from asyncsearch.worker.config import WorkerConfig

if TYPE_CHECKING:
    from asyncsearch.rpc.server import SearchServer

_REFRESH_S = 0.5
_INTERRUPT_GRACE_S = 20.0
_STOP_GRACE_S = 15.0


class Watcher(Protocol):
    """What shows a run to people; called from the calling thread only."""

    def update(self, status: StudyStatus) -> None:
        """Show how the study stands."""
        ...

    def log_lines(self, lines: list[tuple[str, LogLine]]) -> None:
        """Show lines that trials printed."""
        ...


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run needs."""

    state: StudyState
    store: Store
    last_record: int
    """Number of the journal's last record."""
    launcher: Launcher
    preflight: Preflight
    worker_config: Callable[[WorkerId, int, Endpoint | None], WorkerConfig]
    """Gives the configuration of a launch of a worker."""
    settings: DriverSettings
    num_trials: int | None
    timeout_s: float | None
    scheduler: str
    """One line, for people."""


def run_search(search: Search, watcher: Watcher) -> EndRun:
    """Run a search to its end, and return how it ended.

    Raises:
        KeyboardInterrupt: the calling thread was interrupted; the results are kept and nothing runs any more.
        Exception: what broke the driver, such as a ``StoreError``.
    """
    run = _Run(search)
    is_interrupted = False
    try:
        is_interrupted = _watch(run, watcher)
    finally:
        _uninterrupted(run.finish)
    _show(run, watcher, search.state)
    if run.driver.failure is not None:
        raise run.driver.failure
    if is_interrupted:
        raise KeyboardInterrupt
    if run.driver.outcome is None:
        raise InternalError("The run ended without an outcome. Please report this with the study's journal.")
    return run.driver.outcome


class _Run:
    """The parts of one run."""

    def __init__(self, search: Search) -> None:
        self.changed = threading.Event()
        self._search = search
        self._started_s = time.monotonic()
        self._server: SearchServer | None = None
        launcher = search.launcher
        self.driver = Driver(
            search.state,
            search.store,
            Journal(search.store, search.state.config.study, search.last_record),
            launch=launcher.launch,
            kill=launcher.kill,
            changed=self.changed.set,
            settings=search.settings,
        )
        try:
            self._begin()
        except BaseException:
            self.finish()
            raise

    def _begin(self) -> None:
        search = self._search
        endpoint = self._serve(search.preflight)
        search.launcher.start(lambda worker, epoch: search.worker_config(worker, epoch, endpoint), self.driver.lost)
        self.driver.post(DriverStarted(__version__))
        self.driver.post(RunRequested(search.num_trials, search.preflight.parallelism))
        if search.timeout_s is not None:
            self.driver.stop_after(search.timeout_s, f"its timeout of {search.timeout_s:g} s has passed")

    def _serve(self, preflight: Preflight) -> Endpoint:
        from asyncsearch.rpc.auth import make_identity
        from asyncsearch.rpc.server import SearchServer

        identity = make_identity()
        server = SearchServer(self.driver, identity)
        port = asyncio.run_coroutine_threadsafe(server.start(preflight.bind), self.driver.loop).result()
        self._server = server
        self.driver.connect(server)
        return identity.endpoint(f"{preflight.host}:{port}")

    def status(self, state: StudyState) -> StudyStatus:
        """Return how the study stands."""
        return status_of(
            state,
            elapsed_s=time.monotonic() - self._started_s,
            store=self._search.store.url,
            scheduler=self._search.scheduler,
        )

    def finish(self) -> None:
        """End the workers, the server and the driver."""
        self._search.launcher.stop(_STOP_GRACE_S if self.driver.failure is None else 0.0)
        if self._server is not None:
            asyncio.run_coroutine_threadsafe(self._server.stop(), self.driver.loop).result()
        self.driver.close()


def _watch(run: _Run, watcher: Watcher) -> bool:
    """Show the run until it ends; return whether it was interrupted.

    The first interrupt asks the search to stop, the second one does not wait for workers any more.
    """
    pressed = answered = 0
    while not run.driver.ended.is_set():
        try:
            if answered < pressed:
                answered += 1
                run.driver.post(StopRequested("it was interrupted"))
                run.driver.give_up_after(_INTERRUPT_GRACE_S if answered == 1 else 0.0)
            run.changed.wait()
            run.changed.clear()
            _show(run, watcher, None)
            run.driver.ended.wait(_REFRESH_S)
        except KeyboardInterrupt:
            pressed += 1
            run.changed.set()
    return pressed > 0


def _show(run: _Run, watcher: Watcher, state: StudyState | None) -> None:
    lines = []
    while run.driver.logs.shown:
        lines.append(run.driver.logs.shown.popleft())
    if lines:
        watcher.log_lines(lines)
    watcher.update(run.driver.call(run.status) if state is None else run.status(state))


def _uninterrupted(function: Callable[[], None]) -> None:
    """Call a function in another thread and wait for it, whatever interrupts the wait."""
    done = threading.Event()
    errors: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=call, name="asyncsearch-finish", daemon=True).start()
    while not done.is_set():
        try:
            done.wait()
        except KeyboardInterrupt:
            continue
    if errors:
        raise errors[0]
