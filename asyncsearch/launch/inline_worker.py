"""A worker without processes: the work of agent and runner in one thread."""

from __future__ import annotations

import bdb
import copy
import os
import socket
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch.actions import AddLane, Assign, CutWork, DismissWorker, SaveAt, StopTraining
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.outputs import MAX_BACKLOG
from asyncsearch.agent.transfers import Fetched, Published, Transferred, Uploaded, Waiting
from asyncsearch.agent.trial_folders import TrialFolders
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.events import Outcome
from asyncsearch.ids import Lease
from asyncsearch.launch.base_launcher import Post
from asyncsearch.launch.inline_interrupts import InterruptedPack, NoInterrupts
from asyncsearch.launch.inline_link import DirectLink
from asyncsearch.launch.shown_failures import ShownFailures
from asyncsearch.old_pickles import loads
from asyncsearch.rpc.messages import DriverMessage, GangNote, Heartbeat, Hello, Refused, StoreTokens, WorkerMessage
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.device import device_name
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.packs.pack_timing import PackHistory
from asyncsearch.runner.packs.packed_training import run_pack
from asyncsearch.runner.process.process_state import SignalState
from asyncsearch.runner.process.spawned_children import sending_copies
from asyncsearch.runner.protocol import Ended, Folder, FolderWanted, PackFindings, Train
from asyncsearch.runner.training import context_of, run_training
from asyncsearch.trainable import Trainer, TrainFunction, TrialContext, TrialStopped, as_function, trainer_class_of

_LOOK_S = 0.1
"""Time between two looks for messages while the store is waited for."""


class InlineWorker:
    """One launch of a worker. All methods are called in the main thread; heartbeats have their own thread."""

    def __init__(self, config: WorkerConfig, post: Post, shown_failures: ShownFailures | None = None) -> None:
        self.key = (config.worker, config.epoch)
        self.end: str | None = None
        """Reason for its end; None: it is running."""
        self._config = config
        self._post = post
        self._shown_failures = shown_failures or ShownFailures()
        self._number = 0
        self.acknowledged = 0
        """Number of the last message that is durable; the driver's thread sets it."""
        self.checkpoints = WorkerCheckpoints(
            config.store,
            self.send,
            self._on_transfer,
            self._on_folder,
            folders=TrialFolders(config.dirs, config.dir_bytes),
            wait=self._wait,
        )
        self._folders: list[Folder] = []
        """The folder from ``checkpoints`` that was wanted last; empty: it waits for a place."""
        self._look_up: Callable[[], None] = lambda: None
        self._fetch_error = ""
        self._waiting: deque[list[LaneRun]] = deque()
        """The lanes of each lease that has not begun, or of what is left of it."""
        self._current: list[LaneRun] = []
        """The lanes that train and have not ended: several if they are a pack."""
        self._joining: list[LaneRun] = []
        """Those of them that have not begun."""
        self._unsent: list[WorkerMessage] = []
        """The end of an interrupted training; sent after the driver has learned of the interrupt."""
        self._packs = PackHistory()
        self._interrupt: BaseException | None = None
        self._dismissal: str | None = None
        self._closed = threading.Event()
        self._pid = os.getpid()
        self._trainable: TrainFunction | Ended = _load(config.bundle)

    def open(self) -> None:
        device = device_name(os.environ.get("CUDA_VISIBLE_DEVICES"))
        hello = Hello(*self.key, uuid.uuid4().hex, socket.gethostname(), os.getpid(), device=device)
        self._post(*self.key, 0, hello)
        threading.Thread(target=self._beat, name="asyncsearch-heartbeat", daemon=True).start()

    def close(self) -> None:
        """Stop the heartbeats, and drop all checkpoints."""
        self._closed.set()
        self.checkpoints.close()

    def take(self, message: DriverMessage) -> None:
        """Carry out an action of the driver; ``train_next`` trains assigned work later."""
        match message:
            case Assign(work=work):
                limits = self._config.log
                runs = [LaneRun(work.lease, number, lane, limits) for number, lane in enumerate(work.lanes)]
                for run in runs:
                    run.measured = work.measured if isinstance(work.measured, tuple) else ()
                    run.is_open = work.is_open is True
                self._waiting.append(runs)
            case AddLane(lease=lease, lane=number, added=lane):
                self._join(LaneRun(lease, number, lane, self._config.log))
            case StopTraining(lease=lease, lane=lane, reason=reason):
                _stop(self._runs_of(lease, lane), reason)
                self.checkpoints.wait_no_longer(self.checkpoints.publishing)
            case SaveAt(lease=lease, lane=lane) | CutWork(lease=lease, lane=lane):
                for run in self._runs_of(lease, lane):
                    run.amendments.append(message)
            case Refused(lease=lease, reason=reason):
                _stop(self._runs_of(lease), reason, is_refused=True)
            case DismissWorker(reason=reason):
                self._dismissal = reason
                _stop(self._runs_of(), reason)
                self.checkpoints.wait_no_longer(self.checkpoints.committing)
            case StoreTokens() | GangNote():  # this process is the driver, and trains alone
                pass
        self._end_if_done()

    def drop(self, reason: str) -> None:
        """End, and send nothing more: the driver considers this launch lost."""
        self.end = reason
        _stop(self._runs_of(), reason, is_refused=True)
        self.checkpoints.wait_no_longer(self.checkpoints.committing)
        self._waiting.clear()

    def train_next(self, look_up: Callable[[], None]) -> bool:
        """Train waiting work, and return whether there was any.

        Args:
            look_up: called after each report; passes on messages that arrived meanwhile.

        Raises:
            KeyboardInterrupt: the user interrupted the training.
        """
        if self._unsent:
            self._send_rest()
            return True
        if self.end is not None or not self._waiting:
            return False
        self._look_up = look_up
        self._current = self._next()
        state = SignalState() if threading.current_thread() is threading.main_thread() else None
        try:
            with sending_copies(self._trainable):
                self._train_current(look_up)
        except BaseException:  # interrupted in our own code
            self._interrupt = self._interrupt or KeyboardInterrupt()
            for run in list(self._current):
                self._tell_end(run, Ended(Outcome.STOPPED, run.resource))
            self._interrupt = None
            raise
        finally:
            if state is not None:
                state.restore()
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise KeyboardInterrupt from interrupt
        return True

    def _train_current(self, look_up: Callable[[], None]) -> None:
        if (kind := self._packable()) is not None and (len(self._current) > 1 or self._current[0].is_open):
            self._train_pack(kind, look_up)
        else:
            (run,) = self._current
            self._tell_end(run, self._train(run, look_up))

    def _next(self) -> list[LaneRun]:
        """Return the lanes that train next: all of a lease if the trainable can train them together, else its first."""
        runs = self._waiting.popleft()
        if self._packable() is not None:
            return runs
        if runs[1:]:
            self._waiting.appendleft(runs[1:])
        return runs[:1]

    def _packable(self) -> type[Trainer] | None:
        """Return the class of the trainer if it trains several together."""
        kind = None if isinstance(self._trainable, Ended) else trainer_class_of(self._trainable)
        return kind if kind is not None and kind.can_pack() else None

    def _join(self, run: LaneRun) -> None:
        """Let a lane join those of its lease that train, or those that wait; else it waits alone."""
        run.is_open = True
        if self._current and self._current[0].lease == run.lease and self._packable() is not None:
            self._current.append(run)
            self._joining.append(run)
            return
        others = next((runs for runs in self._waiting if runs[0].lease == run.lease), None)
        if others is None:
            self._waiting.append([run])
        else:
            others.append(run)

    def _runs_of(self, lease: Lease | None = None, lane: int | None = None) -> list[LaneRun]:
        runs = [*self._current, *(run for lanes in self._waiting for run in lanes)]
        return [run for run in runs if lease in (None, run.lease) and lane in (None, run.number)]

    def _on_transfer(self, done: Transferred) -> None:
        if isinstance(done, Uploaded):
            self.checkpoints.uploaded(done)
        elif isinstance(done, Published):
            self.checkpoints.published(done)
        elif isinstance(done, Waiting):
            self.checkpoints.waiting(done)
        elif isinstance(done, Fetched):
            done.run.load, self._fetch_error = done.path, done.error

    def _on_folder(self, folder: Folder) -> None:
        self._folders.append(folder)

    def give_folder(self, run: LaneRun, wanted: FolderWanted) -> Path:
        """Return the path for a new checkpoint, as soon as there is a place for it.

        Raises:
            StoreError: there is none, and the checkpoint is not needed.
            TrialStopped: the training was stopped meanwhile.
        """
        self._folders.clear()
        self.checkpoints.want(run, wanted)
        while not self._folders and not run.gives_up.is_set():
            due = self.checkpoints.due
            self._wait(run, 0.0 if due is None else due - time.monotonic())
            self.checkpoints.tick(time.monotonic())
        if not self._folders:
            self.checkpoints.give_up()
            raise TrialStopped(run.stop_reason or "it waits for its store no longer")
        return self._folders.pop().checkpoint

    def _wait(self, run: LaneRun, delay_s: float) -> None:
        """Wait for a store that fails, and pass on what the driver says meanwhile."""
        until = time.monotonic() + delay_s
        self._look_up()
        # No event: its own lock may stay held where Ctrl-C interrupts a wait for it.
        while not run.gives_up.is_set() and (rest := until - time.monotonic()) > 0:
            time.sleep(min(rest, _LOOK_S))
            self._look_up()

    def _train(self, run: LaneRun, look_up: Callable[[], None]) -> Ended:
        if isinstance(self._trainable, Ended):
            return self._trainable
        ended = self._fetched(run)
        if ended is not None:
            return ended
        train = _train(run)
        function, link = self._guarded(self._trainable, run), DirectLink(run, self, look_up)
        try:
            return run_training(function, train, link, NoInterrupts(), self._config.metric, self._config.untrusted)
        finally:
            _close_lone_group()

    def _fetched(self, run: LaneRun) -> Ended | None:
        """Fetch the checkpoint of a lane; return its end if it cannot begin."""
        self.checkpoints.fetch(run)
        if run.stop_reason is not None:
            return Ended(Outcome.STOPPED, run.resource)
        return None if run.can_start else Ended(Outcome.FAILED, run.resource, self._fetch_error, "checkpoint")

    def _train_pack(self, kind: type[Trainer], look_up: Callable[[], None]) -> None:
        """Train the lanes of a lease together, and those that join them, and tell the end of each."""
        lanes: dict[int, LaneRun] = {}
        names: dict[int, str] = {}

        def begun() -> dict[int, SearchContext]:
            """Return the trials of the lanes that are to begin now."""
            runs, self._joining = self._joining, []
            ready = [run for run in runs if self._is_ready(run)]
            lanes.update({run.number: run for run in ready})
            together = [run for run in lanes.values() if not run.is_over]
            for run in together if ready else ():
                run.lanes = len(together)
            contexts = {run.number: self._context(run, look_up) for run in ready}
            names.update({number: context.name for number, context in contexts.items()})
            return contexts

        def tell(message: PackFindings | Ended) -> None:
            if isinstance(message, Ended):
                self._shown_in_pack(message, names[message.lane])
                self._tell_end(lanes[message.lane], message)
            elif (run := next((run for run in lanes.values() if not run.is_refused), None)) is not None:
                self.send(message.under(run.lease))

        interrupts, first = InterruptedPack(self._interrupted), self._current[0]
        self._joining = list(self._current)
        metric = self._config.metric
        run_pack(kind, begun(), interrupts, metric, tell, first.measured, begun, self._packs)
        for run in list(self._current):  # Ctrl-C came while it was to begin
            self._tell_end(run, Ended(Outcome.STOPPED, run.resource))

    def _is_ready(self, run: LaneRun) -> bool:
        """Fetch the checkpoint of a lane of a pack, or tell its end if it cannot begin."""
        ended = self._fetched(run)
        if ended is not None:
            self._tell_end(run, ended)
        return ended is None

    def _context(self, run: LaneRun, look_up: Callable[[], None]) -> SearchContext:
        return context_of(_train(run), DirectLink(run, self, look_up), self._config.metric, self._config.untrusted)

    def _interrupted(self, interrupt: BaseException) -> None:
        """Turn the user's interrupt into a stop of the lanes that train."""
        self._interrupt = self._interrupt or interrupt
        _stop(self._current, "it was interrupted")

    def _shown_in_pack(self, ended: Ended, name: str) -> None:
        """Show the exception that ended a lane; it is being handled."""
        error = sys.exception()
        if ended.outcome is Outcome.FAILED and isinstance(error, Exception):
            self._shown_failures.show(name, error)

    def _guarded(self, function: TrainFunction, run: LaneRun) -> TrainFunction:
        """Turn the user's interrupt into a stop of this training, and show an exception where it was raised."""

        def train(trial: TrialContext) -> Any:
            try:
                return function(trial)
            except (KeyboardInterrupt, bdb.BdbQuit) as interrupt:
                self._interrupted(interrupt)
                raise TrialStopped("it was interrupted") from interrupt
            except Exception as error:
                self._shown_failures.show(trial.name, error)
                raise

        train.__wrapped__ = function  # type: ignore[attr-defined]
        return train

    def _tell_end(self, run: LaneRun, ended: Ended) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # a child forked by the user's code returned here, and the search is its parent's
        self._current = [one for one in self._current if one is not run]
        self.checkpoints.forget(run)
        run.resource = max(run.resource, ended.resource)
        self._unsent += run.end(ended.outcome, ended.error, ended.error_kind, ended.unreported)
        if not (self._interrupt is not None and self._unsent):
            self._send_rest()

    def _send_rest(self) -> None:
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self.send(message)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._dismissal is not None and not self._current and not self._waiting and not self._unsent:
            self.end = self.end or f"dismissed: {self._dismissal}"

    def send(self, message: WorkerMessage) -> None:
        self._number += 1
        self._post(*self.key, self._number, message)

    def wait_for_driver(self, run: LaneRun) -> None:
        """Wait while too many messages are not durable, because the journal cannot be written."""
        while self._number - self.acknowledged > MAX_BACKLOG and not run.gives_up.is_set():
            self._wait(run, _LOOK_S)

    def _beat(self) -> None:
        """Send heartbeats, even while the trial waits at a breakpoint."""
        while not self._closed.wait(self._config.heartbeat_s):
            self._post(*self.key, 0, Heartbeat())


def _stop(runs: list[LaneRun], reason: str, *, is_refused: bool = False) -> None:
    for run in runs:
        run.stop_reason = run.stop_reason or reason
        run.gives_up.set()
        run.is_refused |= is_refused


def _train(run: LaneRun) -> Train:
    # Its own, as what a message brings: the function may change its parameters, and the engine has recorded them.
    stages = tuple([msgspec.structs.replace(stage, params=copy.deepcopy(stage.params)) for stage in run.lane.stages])
    return Train(stages, None if run.load is None else str(run.load), place=run.place)


def _close_lone_group() -> None:
    """Leave the user's process as it was: torch allows no second default group."""
    if (module := sys.modules.get("asyncsearch.trainers.torch.gangs.process_groups")) is not None:
        module.close_lone_group()


def _load(bundle: bytes) -> TrainFunction | Ended:
    try:
        return as_function(loads(bundle))
    except Exception as error:
        text = f"{exception_text(error)}\nThe trainable could not be loaded: {error}"
        return Ended(Outcome.FAILED, 0, text, kind_of(error))
