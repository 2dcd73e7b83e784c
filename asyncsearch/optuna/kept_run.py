"""One run of asyncsearch that serves one ``optimize`` after the other: between two of them its workers wait.

    caller's thread: optimize ──> StudyAnswerer <── questions of workers :the run's own threads

Each of its trials asks to begin as soon as a worker is free, and is answered where an ``optimize`` has a trial for it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import msgspec

from asyncsearch.actions import AnyAction, MoveTrial
from asyncsearch.driver.interrupts import interrupts_to
from asyncsearch.driver.questions import Response, Unasked
from asyncsearch.driver.threads import next_of
from asyncsearch.errors import TrialsFailedError
from asyncsearch.events import AnyEvent
from asyncsearch.ids import Lease, TrialId, trial_name
from asyncsearch.optuna.answering import StudyAnswerer
from asyncsearch.optuna.beginnings import Beginnings
from asyncsearch.optuna.messages import BEGIN, ValueCodec
from asyncsearch.programs.endless_run import EndlessRun
from asyncsearch.report.live.display import Display
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.trial import TrialState

_OVER = "the workers are let go"
_UNENDED = (TrialState.RUNNING, TrialState.WAITING)
_LAST_STATUS_S = 1.0
"""How long an ``optimize`` waits for the status with its last trial."""


class _Held(NamedTuple):
    """A trial that has asked to begin, and waits for an ``optimize``."""

    lease: Lease
    content: bytes
    later: Future[Response]


class KeptRun(EndlessRun):
    """The run, and who answers its trials: the ``optimize`` that is served at present."""

    def __init__(self, key: tuple[Any, ...], parallelism: int | None, kept_s: float) -> None:
        super().__init__(key, parallelism, kept_s)
        self.inbox: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        """What the calling thread is to do. None means to look."""
        self._lock = threading.RLock()
        self._present: StudyAnswerer | None = None
        self.beginnings = Beginnings()
        """Of the trials of all calls of ``optimize``."""
        self._held: dict[TrialId, _Held] = {}
        self._running: set[TrialId] = set()
        """The trials of the present ``optimize`` that the engine has not seen end."""
        self._given = self._given_before = 0
        """How many trials have begun, and how many of them before the present ``optimize``."""
        self._over = ""
        """Why trials are sent away. Empty while they wait."""
        self._begun_s = 0.0
        self._status: StudyStatus | None = None

    def post(self, call: Callable[[], object]) -> None:
        self.inbox.put(call)

    def note_end(self) -> None:
        self.inbox.put(None)

    def serve(self, answerer: StudyAnswerer, display: Display) -> None:
        """Let the trials of one ``optimize`` run, until it is done. Called in the thread that shows it.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; the run has ended.
            Exception: what broke the run.
        """
        self.display, self._status, self._begun_s = display, None, time.monotonic()
        with interrupts_to(self._press):
            with self._lock:
                self._given_before = self._given
                self._present, answerer.beginnings = answerer, self.beginnings
                self._give()
            while not (self.is_ended or self._is_done):
                self._show_next()
                if self.interrupts.count:
                    self._send_away("the search was interrupted")
            with self._lock:
                self._present = None
            if self.is_ended:
                self._show_all()
                raise self.error or TrialsFailedError("The workers have ended before the search.")
            self._show_end()

    def close(self, *, now: bool = False) -> None:
        self._send_away(_OVER)
        if now:
            self.interrupts.add()
        while not self.is_ended:
            next_of(self.inbox)
        self.join()

    @property
    def _is_done(self) -> bool:
        with self._lock:
            return self._present is not None and self._present.is_done and not self._running

    # What is shown

    def show(self, status: StudyStatus, *, is_last: bool = False) -> None:
        """Show a status without the trials that wait."""
        with self._lock:
            waiting = {trial_name(trial) for trial in self._held}
            wanted = None if self._present is None else self._present.n_trials
        running = 0 if is_last else status.counts.get(TrialState.RUNNING, 0) - len(waiting)
        counts = {**status.counts, TrialState.RUNNING: running}
        self._status = status
        shown = msgspec.structs.replace(
            status,
            counts={state: count for state, count in counts.items() if count > 0},
            rows=tuple(
                [row for row in status.rows if row.name not in waiting and not (is_last and row.state in _UNENDED)]
            ),
            num_trials=None if wanted is None else self._given_before + wanted,
            elapsed_s=time.monotonic() - self._begun_s,
        )
        if is_last:
            ended = {"workers_wanted": 0, "workers_had": status.workers_wanted, "num_trials": None}
            shown = msgspec.structs.replace(shown, **ended)
        self.display.update(shown)

    def _show_next(self, timeout_s: float | None = None) -> None:
        do = next_of(self.inbox, timeout_s)
        if do is not None:
            do()

    def _show_all(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._show_next(0.0)

    def _show_end(self) -> None:
        """Show the status with the last trial, as of a run that has ended."""
        self._show_all()
        if not self.display.is_shown:
            return
        wakeups, until_s = self.interrupts.wakeups, time.monotonic() + _LAST_STATUS_S
        with contextlib.suppress(queue.Empty):
            while not self._has_all_ends and not self.is_ended:
                for wakeup in wakeups:  # the run asks for its status now, and not half a second later
                    wakeup.set()
                self._show_next(until_s - time.monotonic())
        for wakeup in wakeups[1:]:
            wakeup.clear()
        if self._status is not None:
            self.show(self._status, is_last=True)

    @property
    def _has_all_ends(self) -> bool:
        """Whether the last status knows the end of each trial that has begun."""
        if self._status is None:
            return False
        return sum(count for state, count in self._status.counts.items() if state not in _UNENDED) >= self._given

    # driver.questions.Answerer

    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response | Future[Response]:
        with self._lock:
            if content.startswith(BEGIN):
                return self._begin(trial, lease, content)
            if self._present is None:
                error = RuntimeError("This trial has failed: its worker seemed lost, or its study has ended.")
                return Response(ValueCodec().dumps(["error", error]))
            return self._settled(self._present.answer(trial, lease, content))

    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        with self._lock:
            for action in actions:
                if isinstance(action, MoveTrial):
                    self._running.discard(action.trial)
                    if action.to is not TrialState.RUNNING:
                        self._held.pop(action.trial, None)
            if self._present is not None:
                self._present.followed(event, actions)
                self._give()
            begun = self.beginnings.questions(actions)
            unasked = [Unasked(trial, lease, self._begin(trial, lease, content)) for trial, lease, content in begun]
            self._look()
            return Response(enough=self._over, unasked=unasked)

    # All that follows is called with the lock

    def _begin(self, trial: TrialId, lease: Lease, content: bytes) -> Response | Future[Response]:
        if self._over:
            return Response(ValueCodec().dumps(["unwanted", self._over]), enough=self._over)
        if self._present is not None and (trial in self._running or self._present.wants_more):
            self._given += trial not in self._running
            self._running.add(trial)
            return self._settled(self._present.answer(trial, lease, content))
        later: Future[Response] = Future()
        self._held[trial] = _Held(lease, content, later)
        self._look()
        return later

    def _give(self) -> None:
        """Let trials begin that wait."""
        while self._held and self._present is not None and self._present.wants_more and not self._over:
            trial = next(iter(self._held))
            held = self._held.pop(trial)
            answered = self._begin(trial, held.lease, held.content)
            assert isinstance(answered, Response)
            held.later.set_result(answered)

    def _settled(self, answered: Response) -> Response:
        """Return an answer that does not end the run: it is the ``optimize`` that may have enough.

        What it has to say is said by this ``optimize``: the run shows its news each half second, perhaps after it.
        """
        if notice := answered.notice:
            self.inbox.put(lambda: self.display.warn([notice]))
        self._look()
        return answered._replace(enough=self._over, notice="")

    def _look(self) -> None:
        """Wake the calling thread once it has nothing more to wait for: for each answer it would cost as much again."""
        if self._is_done:
            self.inbox.put(None)

    def _send_away(self, reason: str) -> None:
        with self._lock:
            self._over = self._over or reason
            content = ValueCodec().dumps(["unwanted", self._over])
            while self._held:
                _, held = self._held.popitem()
                held.later.set_result(Response(content, enough=self._over))

    def _press(self) -> None:
        self.interrupts.add()
        self.inbox.put(None)
