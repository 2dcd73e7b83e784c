"""The engine without workers: who asks is one, and what is told is its report.

    ask   ──> a slot for one worker more ──> its work is a trial, or nothing now
    tell  ──> report, and at the trial's target the end of its work and its checkpoint, which the evaluator has

Each call is handled in the caller's thread and durable in the journal when it returns. A trial that was asked for holds
its slot until its work ends, across processes: who opens the study again finds it among those that are evaluated.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from asyncsearch import errors
from asyncsearch._version import __version__
from asyncsearch.actions import AnyAction, Assign, LaunchWorker, StopRun
from asyncsearch.arguments import as_unicode, positive
from asyncsearch.engine.affected import is_stale
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.handling import handle
from asyncsearch.errors import AsyncSearchError, UsageError
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    Consulted,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    ShareChanged,
    TrainingEnded,
    WorkerAttached,
)
from asyncsearch.ids import CheckpointRef, TrialId, trial_name
from asyncsearch.journal.writer import Journal
from asyncsearch.report.live.display import open_display
from asyncsearch.runner.metrics import as_number
from asyncsearch.runner.notes import note_of
from asyncsearch.study.asking.asked_trial import AskedTrial, NextStep
from asyncsearch.study.kept.kept_study import KeptStudy
from asyncsearch.trainable import ReportError
from asyncsearch.trial import TrialState, is_end
from asyncsearch.values import spell

MOST_ASKED = 1_000
"""Trials that may be evaluated at once."""


class AskingSession:
    """A study that is open for asking and telling, by one process at a time; any of its threads may call."""

    def __init__(self, kept: KeptStudy, num_trials: int | None) -> None:
        """Open the study, and let its trials that were asked for be evaluated on.

        Raises:
            StoreLockedError: another process has it open.
        """
        self._ending = ExitStack()
        self._calls = threading.RLock()
        self._now = 0.0
        self._error: tuple[str, str] = "", ""
        """The kind and the words of the error that has ended the run; empty while none has."""
        self.is_closed = False
        self._slots = 0
        """How many trials may be evaluated at once, as the engine was told."""
        self.asked: dict[TrialId, AskedTrial] = {}
        """Those that are being evaluated."""
        try:
            self._open(kept, num_trials)
        except BaseException:
            self._ending.close()
            raise

    def _open(self, kept: KeptStudy, num_trials: int | None) -> None:
        store = kept.store
        store.prepare()
        self._ending.enter_context(store.lock())
        self.state, last = kept.open(open_display("none"))
        self._config = kept.definition.config
        self._journal = Journal(store, self._config.study, last)
        self._ending.callback(self._journal.close)
        evaluated = [trial.id for trial in self.state.trials if trial.state is TrialState.RUNNING]
        reached = [found for number in evaluated if (found := self._reached(number)) is not None]
        self._handle(*reached, DriverStarted(__version__), RunRequested(num_trials, MOST_ASKED, 0))
        for _ in evaluated:  # what had begun comes before anything new
            self._next()

    def _reached(self, number: TrialId) -> CheckpointCommitted | None:
        """Return that an evaluator has what a trial was evaluated for: else these units would count once more."""
        attempt = self.state.open_attempt_of(number)
        if attempt is None or attempt.resource <= attempt.batch.stages[0].start:
            return None
        return CheckpointCommitted(attempt.lease, CheckpointRef(attempt.node_at(attempt.resource), attempt.resource))

    def close(self) -> None:
        """Let another process open the study; what is being evaluated goes on there."""
        with self._calls:
            self.is_closed = True
            self._ending.close()

    def ask(self) -> AskedTrial | None:
        """Return the next trial to evaluate. None if there is none now."""
        with self._calls:
            if len(self.asked) >= MOST_ASKED:
                raise UsageError(f"{MOST_ASKED:,} trials are being evaluated: tell a result of one of them first.")
            given = self._next()
            kind, words = self._error
            if given is None and kind:  # what a rule of the user's raised is no end of the search
                raise getattr(errors, kind, AsyncSearchError)(words)
            return given

    def tell(self, number: TrialId, value: Any, metrics: Mapping[str, Any], resource: int | None) -> NextStep:
        """Tell a result of a trial; see ``AskedTrial.tell``."""
        with self._calls:
            attempt = self._attempt(number)
            trial = self.state.trials[number]
            ends = resource is None and trial.target is None
            at = self._resource(number, resource)
            self._handle(Reported(attempt.lease, at, self._metrics(value, metrics)))
            if trial.state.is_finished:
                self._end(attempt, number, Outcome.STOPPED, at)
            elif ends or at >= attempt.stop:
                is_last = ends or is_end(attempt.stop, self.state.max_resource)
                self._end(attempt, number, Outcome.RETURNED if is_last else Outcome.REACHED, at)
            return self._step(number)

    def fail(self, number: TrialId, reason: str) -> NextStep:
        """Tell that the evaluation of a trial failed; see ``AskedTrial.fail``."""
        with self._calls:
            attempt = self._attempt(number)
            self._end(
                attempt,
                number,
                Outcome.FAILED,
                self.state.trials[number].resource,
                as_unicode(str(reason)) or "it failed",
            )
            return self._step(number)

    def note(self, number: TrialId, key: str, text: object) -> None:
        """Keep a note on a trial; see ``AskedTrial.note``."""
        with self._calls:
            name, written = note_of(key, text)
            self._handle(Consulted(self._attempt(number).lease, {"note": name, "text": written}))

    def _next(self) -> AskedTrial | None:
        self._slots += 1
        launched = [a for a in self._handle(ShareChanged(self._slots)) if isinstance(a, LaunchWorker)]
        given: list[Assign] = []
        for launch in launched:
            attached = WorkerAttached(launch.worker, launch.epoch, platform.node(), os.getpid())
            given += [action for action in self._handle(attached) if isinstance(action, Assign)]
        if not given:
            self._give_back()
            return None
        number = self.state.attempts[given[0].work.lease.number].trials[0]
        trial = self.state.trials[number]
        asked = self.asked[number] = AskedTrial(self, number, trial.params, trial.resource)
        return asked

    def _give_back(self, *more: AnyEvent) -> None:
        self._slots -= 1
        self._handle(ShareChanged(self._slots), *more)

    def _end(self, attempt: Attempt, number: TrialId, outcome: Outcome, at: int, error: str = "") -> None:
        """End the work of a trial; what it was evaluated for stays with the evaluator, as a checkpoint does."""
        is_kept = outcome in (Outcome.REACHED, Outcome.RETURNED) and not attempt.is_spared
        kind = "told" if error else ""
        ended = TrainingEnded(attempt.lease, outcome, at, at if is_kept else None, error, kind)
        checkpoint = CheckpointRef(attempt.node_at(at), at)
        committed = [CheckpointCommitted(attempt.lease, checkpoint)] if is_kept else []
        del self.asked[number]
        self._give_back(ended, *committed)

    def _step(self, number: TrialId) -> NextStep:
        match self.state.trials[number].state:
            case TrialState.RUNNING:
                return NextStep.GO_ON
            case TrialState.COMPLETED:
                return NextStep.COMPLETE
            case TrialState.PAUSED | TrialState.WAITING:
                return NextStep.PAUSE
            case TrialState.STOPPED | TrialState.FAILED:
                return NextStep.STOP

    def _require_open(self) -> None:
        if self.is_closed:  # the store is another process's, and a record written now would leave a gap
            raise UsageError(
                f"{self._config.study!r} was closed since this trial was asked for: write study.tell(7, 0.93), with "
                "the number of the trial, which opens it again."
            )

    def _attempt(self, number: TrialId) -> Attempt:
        self._require_open()
        attempt = self.state.open_attempt_of(number) if number in self.asked else None
        if attempt is None:
            known = ", ".join(map(trial_name, self.asked)) or "none"
            words = "there is no such trial"
            if number < len(self.state.trials):
                trial = self.state.trials[number]
                words = f"it is {trial.state.words}: {trial.reason}"
            raise UsageError(f"{trial_name(number)} is not being evaluated ({words}); those that are: {known}.")
        return attempt

    def _resource(self, number: TrialId, given: int | None) -> int:
        trial = self.state.trials[number]
        done, target = trial.resource, trial.target
        if given is None:
            return done + 1 if target is None else target
        at = positive("resource", given)
        if at <= done:
            raise UsageError(
                f"{trial.name} was told of resource {done} already: write a larger resource=, the next result's."
            )
        if target is not None and at > target:
            raise UsageError(
                f"resource={at} is beyond {target}, up to which {trial.name} is to be evaluated now: tell its result "
                f"there, tell(value, resource={target}), which says whether it goes on."
            )
        return at

    def _metrics(self, value: Any, named: Mapping[str, Any]) -> dict[str, float | str]:
        metric = self._config.metric
        if value is None and not named:
            raise UsageError(f"tell() was called without a result: write tell(0.93), or tell({metric}=0.93).")
        single = {} if value is None else {metric: value}
        given = {**(value if isinstance(value, Mapping) else single), **named}
        if metric not in given:
            raise UsageError(f"tell({given!r}) lacks the study's metric: write {{{metric!r}: ..., ...}}.")
        try:
            return {str(name): spell(as_number(str(name), one)) for name, one in given.items()}
        except ReportError as error:
            raise UsageError(str(error)) from None

    def _handle(self, *events: AnyEvent) -> list[AnyAction]:
        """Decide on events, and return the actions once all are durable.

        After a failure the journal may lack what was decided: the session is closed, and the next one reads it anew.
        """
        self._require_open()
        try:
            return self._decided(events)
        except BaseException:
            with contextlib.suppress(Exception):  # the failure itself says more
                self.close()
            raise

    def _decided(self, events: Sequence[AnyEvent]) -> list[AnyAction]:
        actions: list[AnyAction] = []
        lines = []
        for event in events:
            if is_stale(self.state, event):
                continue
            self._now = max(self._now, time.time())
            decided = handle(self.state, event, self._now)
            lines.append(self._journal.encode(event, decided, self._now))
            actions += decided
        for action in actions:
            if isinstance(action, StopRun) and action.error_kind:
                self._error = action.error_kind, action.reason
        if lines:
            self._journal.append(b"".join(lines))
        return actions
