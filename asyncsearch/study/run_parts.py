"""The parts of one run: journal, driver, server and launcher put together, and taken apart again whatever happens."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from asyncsearch._version import __version__
from asyncsearch.actions import AnyAction
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.driver.callbacks import Callbacks, TrialCallable
from asyncsearch.driver.loop import Driver
from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.driver.questions import Answerer
from asyncsearch.driver.shared_workers import WorkerShare
from asyncsearch.driver.threads import Wakeup
from asyncsearch.driver.timeouts import DriverSettings
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import BY_RULE
from asyncsearch.errors import StoreError
from asyncsearch.events import AnyEvent, DriverStarted, RunRequested, StopRequested, WorkerAttached
from asyncsearch.ids import WorkerId
from asyncsearch.journal.writer import Journal
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.launch.delegation_tokens import TokenRenewal
from asyncsearch.launch.machine import descriptors
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.status_of import status_of
from asyncsearch.report.time_words import time_line
from asyncsearch.rpc import auth
from asyncsearch.rpc.messages import Endpoint, StoreTokens
from asyncsearch.rpc.reservation import Reservation, connection_limits
from asyncsearch.runner.seal import launch_key
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.shared.pack_times import PackTimes
from asyncsearch.store.base_store import Store
from asyncsearch.study.kept.definition import StudyDefinition
from asyncsearch.time_spent.reading import TimeReader

if TYPE_CHECKING:
    from asyncsearch.rpc.server import SearchServer

_STATUS_SHARE = 0.005
"""Share of the driver's time that statuses may take. With 10^5 trials one takes 70 ms, and all else waits for it."""
_TIMEOUT_GRACE_S = 60.0
"""How long after its timeout a run waits for what workers still save."""
_STOP_GRACE_S = 15.0
_CALLBACKS_S = 600.0
"""How long callbacks are waited for that still have trials to be told of."""
_CALLBACKS_CUT_S = 5.0
"""The same, after an interrupt or an error."""
_LAUNCHED_S = 1.0
"""How long the start of the server waits for the first launch, if that is slow or there is none."""


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
    identity: Future[auth.Identity] | None
    """The driver's proof of identity, which is being made; None if the workers are in this process."""
    worker_store: str
    """URL of the store of the workers' checkpoints."""
    definition: StudyDefinition
    num_trials: int | None
    timeout_s: float | None
    shared: FolderMembership | None = None
    """The folder in which its checkpoints are, if it shares them with other studies."""
    pack_times: Sequence[PackTimes] = ()
    """Where studies of the same code keep how fast packs train."""
    could_pack: bool = False
    """Whether the study might have asked for ``pack=``, and did not."""
    callbacks: Sequence[TrialCallable] = ()
    """Called on the driver with ``study`` and each trial that has ended."""
    study: object = None
    """The study as its user has it."""
    answerer: Answerer | None = None
    """Answers the questions of trials; None if they have none to ask."""
    share: WorkerShare | None = None
    """Its part of the workers that it shares with other studies; None if all are its own."""
    writers: NodeWriters = msgspec.field(default_factory=NodeWriters)
    """What trainings of this run may leave in the store."""


class RunParts:
    """The parts of one run, which have begun."""

    def __init__(self, search: Search) -> None:
        self.news = Wakeup()
        self.over = Wakeup()
        """Set when the run has ended or was interrupted: then nobody waits for the time to show it again."""
        self.statuses: deque[StudyStatus] = deque(maxlen=1)
        """The newest status that was asked for, for the calling thread to show."""
        self.status_due_s = 0.0
        """When the next one may be asked for, monotonic seconds."""
        self.unshown: Exception | None = None
        """Why it cannot be shown any more; it ends then, and this is raised."""
        self.is_quota_shown = False
        """Whether it was shown that checkpoints take more than the quota."""
        self._search = search
        self._started_s = time.monotonic()
        self._has_begun = False
        self._has_launched = threading.Event()
        """Set once a worker was launched, or the run has ended."""
        self._reservation: Reservation | None = None
        """Keeps the server's ports until it listens."""
        self._server: SearchServer | None = None
        self._tokens: TokenRenewal | None = None
        launcher = search.launcher
        self._time = TimeReader(by_trial=False)
        """What the workers of this run do with their time."""
        self._secret = secrets.token_bytes(32)
        """Of which the keys are made that seal the questions of trials; it stays in this process."""
        self._callbacks = Callbacks(search.callbacks, search.study, search.state, self._say)
        journal = Journal(search.store, search.state.config.study, search.last_record)
        search.store.wait_no_longer()  # from now on the driver decides what waits for it
        self.driver = Driver(
            search.state,
            search.store,
            journal,
            launch=self._launch,
            kill=launcher.kill,
            launches_at_once=search.preflight.launches_at_once,
            changed=self._on_change,
            settings=_settings_of(search),
            shared=search.shared,
            pack_times=search.pack_times,
            follow=self._follow,
            answerer=search.answerer,
            writers=search.writers,
            secret=self._secret,
        )
        try:
            self._begin()
        except BaseException:
            self.finish()
            raise
        self._has_begun = True

    def _begin(self) -> None:
        search, launcher = self._search, self._search.launcher
        identity = endpoint = None
        if launcher.transport is not None:
            self.driver.connect(launcher.transport)
        else:
            identity, endpoint = self._reserve(search.preflight)

        def worker_config(worker: WorkerId, epoch: int) -> WorkerConfig:
            config = search.worker_config(worker, epoch, endpoint and auth.bound(endpoint, worker, epoch))
            return msgspec.structs.replace(config, seal_key=launch_key(self._secret, worker, epoch))

        launcher.start(worker_config, self._lost)
        if search.share is not None:
            search.share.join(self.driver.post)
        self.driver.post(DriverStarted(__version__))
        self._started_s = time.monotonic()  # as the journal counts, or the time at the end would be the shorter one
        share = UNSET if search.share is None else 0
        self.driver.post(RunRequested(search.num_trials, search.preflight.parallelism, share))
        if search.timeout_s is not None:
            self.driver.stop_after(search.timeout_s, self._timeout_words)
            self.driver.give_up_after(search.timeout_s + _TIMEOUT_GRACE_S)
        if identity is None:
            return
        if search.share is None:
            # What the server imports would keep the interpreter from the threads that launch the first worker.
            self._has_launched.wait(_LAUNCHED_S)
            launcher.await_submission(_LAUNCHED_S)
        try:
            self._listen(identity, search.preflight)
        except BaseException as error:
            self.driver.post(StopRequested(f"its server could not start: {error}"))
            self.driver.ended.wait(_STOP_GRACE_S)  # no worker has attached, so only the journal is waited for
            raise

    def _follow(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        self._time.add(now, event, actions)
        if isinstance(event, WorkerAttached):
            self._search.launcher.attached(event.worker, event.epoch)
        self._callbacks.follow(now, event, actions)

    def _say(self, sentence: str) -> None:
        self.driver.notices.append(sentence)
        self.news.set()

    def _launch(self, worker: WorkerId, epoch: int) -> None:
        share = self._search.share
        if share is not None:
            share.launching(worker, epoch)
        try:
            self._search.launcher.launch(worker, epoch)
        except BaseException:
            if share is not None:
                share.ended(worker, epoch)
            raise
        finally:
            self._has_launched.set()

    def _lost(self, worker: WorkerId, epoch: int, reason: str) -> None:
        if self._search.share is not None:
            self._search.share.ended(worker, epoch)
        self.driver.lost(worker, epoch, reason)

    def _reserve(self, preflight: Preflight) -> tuple[auth.Identity, Endpoint]:
        """Return the secrets that workers are launched with, and the address at which the server is going to listen."""
        self._reservation = reservation = Reservation(preflight.bind, preflight.port)
        assert self._search.identity is not None
        identity = self._search.identity.result()
        return identity, identity.endpoint(f"{preflight.host}:{reservation.port}", reservation.spare_port)

    def _listen(self, identity: auth.Identity, preflight: Preflight) -> None:
        """Start the server, whose import takes about as long as the workers take to start meanwhile."""
        from asyncsearch.rpc.server import SearchServer

        assert self._reservation is not None
        self._server = SearchServer(
            self.driver, identity, limits=connection_limits(preflight.parallelism, *descriptors())
        )
        self.driver.connect(self._server)  # first: a worker may attach as soon as the server listens
        self._tokens = TokenRenewal(
            self._search.launcher, self._search.worker_store, self._grant, self.driver.notices.append
        )
        self._tokens.start()
        self._reservation.before_listening()
        starting = self._server.start(preflight.bind, self._reservation.port, self._reservation.spare_port)
        asyncio.run_coroutine_threadsafe(starting, self.driver.loop).result()
        self._reservation.close()

    def _grant(self, file: bytes) -> None:
        assert self._server is not None
        self.driver.loop.call_soon_threadsafe(self._server.grant, StoreTokens(file))

    def _on_change(self) -> None:
        self.news.set()
        if self._search.share is not None:
            self._search.share.observe(self._search.state, is_over=self.driver.ended.is_set())
        if self.driver.ended.is_set():
            self._has_launched.set()
            self.over.set()
            self._search.launcher.wake()

    def request_status(self) -> None:
        """Have the driver put a status into ``statuses`` and ring."""

        def take_status() -> None:
            began_s = time.monotonic()
            self.statuses.append(self.status(self._search.state))
            ended_s = time.monotonic()
            self.status_due_s = ended_s + (ended_s - began_s) / _STATUS_SHARE
            self.news.set()

        self.driver.loop.call_soon_threadsafe(take_status)

    def status(self, state: StudyState) -> StudyStatus:
        """Return the status of the study."""
        search, outcome = self._search, self.driver.outcome
        return status_of(
            state,
            elapsed_s=time.monotonic() - self._started_s,
            store=search.store.shown,
            scheduler=search.definition.scheduler.describe(),
            place=search.preflight.place,
            workers=search.preflight.parallelism,
            num_trials=search.num_trials,
            is_complete=outcome is None or outcome.is_complete,
            could_pack=search.could_pack,
            time_line="" if outcome is None else time_line(self._time.result()),
            ended_by=outcome.reason if outcome is not None and self._is_by_itself(outcome.reason) else "",
        )

    def _is_by_itself(self, reason: str) -> bool:
        """Return whether a run has ended for a reason that was asked for."""
        return reason == self._timeout_words or reason.startswith(BY_RULE)

    @property
    def _timeout_words(self) -> str:
        return f"its timeout of {self._search.timeout_s or 0:g} s has passed"

    def finish(self) -> None:
        """End the workers, the server and the driver."""
        with ExitStack() as ends:  # each of them, whatever the others raise; the last one first
            ends.callback(self.over.close)
            ends.callback(self.news.close)
            ends.callback(self._close_callbacks)
            ends.callback(self.driver.close)
            ends.callback(self._stop_server)
            if self._search.share is not None:
                ends.callback(self._search.share.leave)
            is_orderly = self._has_begun and isinstance(self.driver.failure, StoreError | None)
            self._search.launcher.stop(_STOP_GRACE_S if is_orderly else 0.0)

    def _close_callbacks(self) -> None:
        outcome = self.driver.outcome
        is_orderly = outcome is not None and (outcome.is_complete or self._is_by_itself(outcome.reason))
        self._callbacks.close(_CALLBACKS_S if is_orderly else _CALLBACKS_CUT_S)

    def _stop_server(self) -> None:
        if self._tokens is not None:
            self._tokens.stop()
        if self._reservation is not None:
            self._reservation.close()
        if self._server is not None:
            asyncio.run_coroutine_threadsafe(self._server.stop(), self.driver.loop).result()


def _settings_of(search: Search) -> DriverSettings:
    """Return the settings of the driver. Idle workers stay where nobody else could use their slots.

    On a cluster that studies share, it says how many workers each has.
    """
    settings = search.definition.settings
    if search.preflight.is_elastic and search.share is None:
        return settings
    return msgspec.structs.replace(settings, release_idle_s=None)
