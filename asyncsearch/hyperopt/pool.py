"""Workers that ask for points: one run of asyncsearch, which stays between two calls of ``fmin`` on the same trials.

    caller's thread: fmin ──> answers   <── inbox <── questions of workers :the run's own threads

Each trial of the run evaluates one point. It asks for it as soon as a worker is free, and is answered when there is
one: so the first point of a further ``fmin`` finds its workers waiting.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from asyncsearch.actions import AnyAction, MoveTrial
from asyncsearch.driver.interrupts import Interrupts
from asyncsearch.driver.questions import Response
from asyncsearch.driver.threads import next_of
from asyncsearch.errors import TrialsFailedError
from asyncsearch.events import AnyEvent
from asyncsearch.hyperopt.messages import EvaluatorLost, EvaluatorsEnded, Message, PointQuestion, ShowRequest
from asyncsearch.hyperopt.objective import METRIC, PointObjective
from asyncsearch.ids import Lease, TrialId
from asyncsearch.programs.pickles import pickled, unpickled
from asyncsearch.report.live.display import Display, Quiet
from asyncsearch.report.live.shown_logs import LinePrinter
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.rpc.messages import LogLine
from asyncsearch.space import Space
from asyncsearch.study import study as searches
from asyncsearch.trial import TrialState

_ENDLESS = 10**9
"""The number of trials of a run that ends otherwise."""
_OVER = "the search has ended"


class LinesDisplay(Quiet):
    """Shows the lines that objectives print, and nothing else."""

    def __init__(self) -> None:
        self._lines = LinePrinter(time.monotonic)


class RelayedDisplay(Display):
    """Has what a run shows shown by the thread that calls ``fmin``."""

    def __init__(self, shown: Display, inbox: queue.SimpleQueue[Message]) -> None:
        self.is_shown, self._shown, self._inbox = shown.is_shown, shown, inbox

    def begin(self, sentence: str) -> None:
        self._inbox.put(ShowRequest(lambda: self._shown.begin(sentence)))

    def warn(self, sentences: Sequence[str]) -> None:
        if sentences:
            self._inbox.put(ShowRequest(lambda: self._shown.warn(sentences)))

    def update(self, status: StudyStatus) -> None:
        if self.is_shown:
            self._inbox.put(ShowRequest(lambda: self._shown.update(status)))

    def log_lines(self, lines: Sequence[tuple[str, LogLine]]) -> None:
        self._inbox.put(ShowRequest(lambda: self._shown.log_lines(lines)))

    def close(self) -> None:
        self._inbox.put(ShowRequest(self._shown.close))


class WorkerPool:
    """One run whose trials ask for points."""

    def __init__(self, *, bundle: bytes, parallelism: int | None) -> None:
        """Begin without workers.

        Args:
            bundle: what the workers have got, to know whether they suit a further ``fmin``.
            parallelism: how many workers it has; None: one for each slot of the cluster.
        """
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.waiting: list[PointQuestion] = []
        self.bundle, self.parallelism = bundle, parallelism
        self.is_broken = False
        """Whether the run has ended."""
        self._interrupts = Interrupts()
        self._known: set[TrialId] = set()
        """The trials that have asked for a point."""
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self, search: searches.Study, display: Display) -> None:
        """Start the run, in a thread of its own."""
        relayed = RelayedDisplay(display, self.inbox)

        def run() -> None:
            error: BaseException | None = None
            try:
                searches.run_shown(
                    search, _ENDLESS, self.parallelism, None, relayed, answerer=self, interrupts=self._interrupts
                )
            except BaseException as raised:
                error = raised
            self.is_broken = True
            self.inbox.put(EvaluatorsEnded(error))

        self._thread = threading.Thread(target=run, name="asyncsearch-points", daemon=True)
        self._thread.start()

    def close(self, *, now: bool = False) -> None:
        self._is_closed = True
        if now:
            # Inline, a press would interrupt this thread, and not the one in which the objective runs.
            with contextlib.suppress(KeyboardInterrupt):
                self._interrupts.add()
            self._interrupts.add()
        waiting, self.waiting = self.waiting, []
        for asked in waiting:
            asked.reply(None, state="over")
        if self._thread is None:
            return
        while not self.is_broken:
            match next_of(self.inbox):
                case PointQuestion() as asked:
                    asked.reply(None, state="over")
                case _:
                    pass
        self._thread.join()

    # driver.questions.Answerer

    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response | Future[Response]:
        kind, *arguments = unpickled(content)
        self._known.add(trial)
        if self._is_closed and kind == "begin":
            return Response(pickled(["over", None]), enough=_OVER)
        later: Future[Response] = Future()

        def reply(
            value: Any, facts: dict[str, Any] | None = None, *, state: str = "ok", is_durable: bool = False
        ) -> None:
            enough = _OVER if state == "over" else ""
            try:
                content = pickled([state, value])
            except Exception as error:  # what was asked for holds what cannot be pickled
                content = pickled(["error", RuntimeError(f"{type(error).__name__}: {error}")])
            later.set_result(Response(content, facts, is_durable, enough))

        self.inbox.put(PointQuestion((trial, lease.number), kind, arguments, reply))
        return later

    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        for action in actions:
            if not isinstance(action, MoveTrial):
                continue
            if action.to is TrialState.FAILED and action.trial not in self._known and not self._is_closed:
                words = f"The objective could not be run on a worker: {action.detail or action.reason}"
                self.inbox.put(EvaluatorsEnded(TrialsFailedError(words)))
            self.inbox.put(EvaluatorLost(action.trial, action.reason))
        return Response(enough=_OVER if self._is_closed else "")


def search_of(objective: PointObjective, store: str, backend: Any) -> searches.Study:
    """Return the search whose trials evaluate points."""
    search = searches.Study(
        objective,
        space=Space.open(),
        metric=METRIC,
        mode="min",
        share=False,
        store=store,
        name=objective.__name__,
        backend=backend,
    )
    # What a failure means is the program's to say; a trial that is lost before it has begun is given to another worker.
    search.config = msgspec.structs.replace(search.config, ends_on_failures=False)
    runnable = search._described("run")
    runnable.definition = msgspec.structs.replace(runnable.definition, config=search.config)
    return search
