"""Workers that ask for points: one run of asyncsearch, which stays between two calls of ``fmin`` on the same trials.

    caller's thread: fmin ──> answers   <── inbox <── questions of workers :the run's own threads

Each trial of the run evaluates one point. It asks for it as soon as a worker is free, and is answered when there is
one: so the first point of a further ``fmin`` finds its workers waiting.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from asyncsearch.actions import AnyAction, MoveTrial
from asyncsearch.driver.questions import Response
from asyncsearch.driver.threads import next_of
from asyncsearch.errors import TrialsFailedError
from asyncsearch.events import AnyEvent
from asyncsearch.hyperopt.messages import EvaluatorLost, EvaluatorsEnded, Message, PointQuestion, ShowRequest
from asyncsearch.hyperopt.objective import METRIC, PointObjective
from asyncsearch.ids import Lease, TrialId
from asyncsearch.programs.endless_run import EndlessRun
from asyncsearch.programs.pickles import pickled, unpickled
from asyncsearch.programs.same_line import outlives_failures
from asyncsearch.report.live.display import Quiet
from asyncsearch.report.live.shown_logs import LinePrinter
from asyncsearch.space import Space
from asyncsearch.study import study as searches
from asyncsearch.trial import TrialState

_OVER = "the search has ended"


class LinesDisplay(Quiet):
    """Shows the lines that objectives print, and nothing else."""

    def __init__(self) -> None:
        self._lines = LinePrinter(time.monotonic)


class WorkerPool(EndlessRun):
    """One run whose trials ask for points."""

    def __init__(self, key: tuple[Any, ...], parallelism: int | None, kept_s: float) -> None:
        super().__init__(key, parallelism, kept_s)
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.waiting: list[PointQuestion] = []
        self._known: set[TrialId] = set()
        """The trials that have asked for a point."""
        self._is_closed = False

    def post(self, call: Callable[[], object]) -> None:
        self.inbox.put(ShowRequest(call))

    def note_end(self) -> None:
        self.inbox.put(EvaluatorsEnded(self.error))

    def close(self, *, now: bool = False) -> None:
        self._is_closed = True
        if now:
            # Inline, a press would interrupt this thread, and not the one in which the objective runs.
            with contextlib.suppress(KeyboardInterrupt):
                self.interrupts.add()
            self.interrupts.add()
        waiting, self.waiting = self.waiting, []
        for asked in waiting:
            asked.reply(None, state="over")
        while self.is_started and not self.is_ended:
            match next_of(self.inbox):
                case PointQuestion() as asked:
                    asked.reply(None, state="over")
                case _:
                    pass
        self.join()

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
    outlives_failures(search)
    return search
