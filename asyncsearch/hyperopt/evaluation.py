"""Hyperopt's loop, for evaluators that ask: it gives points, notes ends, and says when there is enough.

It runs in the thread that called ``fmin``: algo, ``early_stop_fn`` and the progress bar are called there alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import time
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import cloudpickle
import hyperopt

from asyncsearch.driver.interrupts import interruption, interrupts_to
from asyncsearch.driver.threads import next_of
from asyncsearch.errors import TrialsFailedError
from asyncsearch.hyperopt import facts
from asyncsearch.hyperopt.drawn_points import Document, Points, answer_of, finished_only
from asyncsearch.hyperopt.messages import EvaluatorLost, Evaluators, EvaluatorsEnded, PointQuestion, ShowRequest
from asyncsearch.hyperopt.mlflow_runs import ChildRuns
from asyncsearch.hyperopt.objective import PointEnd
from asyncsearch.programs.changes import words_of

_CANCELLED_BY = (TIMEOUT, EARLY) = ("fmin run timeout", "early stopping condition")
"""Reasons by which ``SparkTrials`` cancel what runs, in Hyperopt's words."""
_ADVICE = "the result, {'loss': ..., 'status': STATUS_OK, name: value}, and read trials.results"
_logger = logging.getLogger("hyperopt.fmin")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The arguments of ``fmin`` that say when and how a search goes on."""

    timeout_s: float | None
    loss_threshold: float | None
    goes_on_after_errors: bool
    """Whether a point whose objective raised has failed, and that is all."""
    cancels: bool
    """Whether the end of a search ends the points that run, as of ``SparkTrials``."""
    early_stop_fn: Callable[..., Any] | None
    trials_save_file: str
    retries_lost: bool


class PointEvaluation:
    """One ``fmin`` from its first point to its last."""

    def __init__(
        self, points: Points, evaluators: Evaluators, options: SearchOptions, warn: Callable[..., Any]
    ) -> None:
        self.reason = ""
        """Why no more points were given out before all were. Empty if all were."""
        self.is_cancelled = False
        """Whether the evaluators are to leave what they do."""
        self._points, self._evaluators, self._options, self._warn = points, evaluators, options, warn
        self._running: dict[tuple[Hashable, Hashable], Document] = {}
        self._error: BaseException | None = None
        self._named: set[str] = set()
        self._since_s: float | None = None
        """When the first point was given out, by which the timeout counts: workers take their time to start."""
        self._early_stop_args: Any = []
        self._had_ok = self._ok
        self._done = len(points.finished)
        self._interrupts = 0
        self._bar: Any = None
        self._children = ChildRuns()
        self._calls = 0

    def run(self, progress: Callable[..., Any], total: int) -> None:
        """Evaluate all points.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; what ran is cancelled.
            Exception: what an objective, algo or a callback raised.
        """
        with interrupts_to(self._press), progress(initial=self._done, total=total) as self._bar:
            try:
                self._loop()
            except BaseException:
                self._cancel("the search was broken off")
                raise
        if self._interrupts:
            raise interruption()
        if self._error is not None:
            raise self._error

    def _press(self) -> None:
        self._interrupts += 1
        self._evaluators.inbox.put(None)

    def _loop(self) -> None:
        self._serve()
        while self._running or not (self.reason or self._is_out_of_points):
            self._take()
            if self._interrupts:
                self.reason = self.reason or "it was interrupted"
                self._cancel(self.reason)
            elif self.cancelled_by:
                self._cancel(self.cancelled_by)
            else:
                self._serve()
        if self._error is None and not self._interrupts:  # else they are evaluated by the next ``fmin``, as in Hyperopt
            self._points.cancel_queue(self.reason)

    @property
    def cancelled_by(self) -> str:
        """Why what ran was cancelled, by the rule of ``SparkTrials``. Empty if it was not."""
        return self.reason if self._options.cancels and self.reason in _CANCELLED_BY else ""

    @property
    def _is_out_of_points(self) -> bool:
        return self._points.is_round_over and not self._points.may_draw

    def _take(self) -> None:
        """Take a message, or see that the time is over."""
        try:
            message = next_of(self._evaluators.inbox, self._left_s())
        except queue.Empty:
            self._stop(TIMEOUT)
            return
        match message:
            case PointQuestion(kind="begin"):
                self._evaluators.waiting.append(message)
            case PointQuestion():
                self._answer(message)
            case EvaluatorLost(trial, reason):
                self._lose(trial, reason)
            case EvaluatorsEnded(error):
                self.is_cancelled = True
                raise error or TrialsFailedError("The workers have ended before the search.")
            case ShowRequest(show):
                show()
            case None:
                pass

    def _left_s(self) -> float | None:
        timeout_s = self._options.timeout_s
        if timeout_s is None or self._since_s is None or self.reason:
            return None
        return max(0.0, self._since_s + timeout_s - time.monotonic())

    def _serve(self) -> None:
        """Give points to those who wait."""
        if self._left_s() == 0.0:
            self._stop(TIMEOUT)
        waiting = self._evaluators.waiting
        while waiting and not self.reason:
            if self._points.is_round_over:
                self._calls += self._points.begin_round()
            if self._points.is_round_over:
                return
            asked = waiting.pop(0)
            document, spec = self._points.give()
            self._since_s = self._since_s or time.monotonic()
            self._running[asked.who] = document
            child = self._children.begin(document)
            asked.reply([spec, document, child], facts.begun(document, self._calls))
            self._calls = 0

    def _answer(self, asked: PointQuestion) -> None:
        document = self._running.get(asked.who)
        if document is None:
            asked.reply(
                RuntimeError("This point has failed: its worker seemed lost, or its search has ended."), state="error"
            )
            return
        if asked.kind == "end":
            self._end(asked, document)
            return
        if asked.kind == "refuse":
            self._error = self._error or asked.arguments[0]
            self._stop(f"trial {document['tid']} was refused what it asked for")
        if asked.kind == "changed":
            self._say_changed(*asked.arguments)
        try:
            asked.reply(answer_of(self._points.trials, document, asked.kind, *asked.arguments))
        except Exception as error:  # as in Hyperopt the objective gets it
            asked.reply(error, state="error")

    def _say_changed(self, names: list[str]) -> None:
        """Say, once for each name, what the program will look for in vain."""
        new = [name for name in names if name not in self._named]
        self._named.update(new)
        if new:
            self._warn([words_of(new, _ADVICE)])

    # Ends

    def _end(self, asked: PointQuestion, document: Document) -> None:
        del self._running[asked.who]
        ended: PointEnd = asked.arguments[0]
        if ended.result is not None:
            self._points.succeed(document, ended.result, ended.attachments)
        else:
            assert ended.raised is not None
            _logger.error("job exception: %s", ended.raised.words)
            shown = ended.raised.words
            if self._options.cancels:  # as ``SparkTrials`` have it
                shown = ended.raised.text or "".join(traceback.format_exception(ended.raised.error))
            self._points.fail(document, ended.raised.kind, shown)
        self._children.end(document)
        asked.reply(None, facts.ended(document, ended.attachments), is_durable=True)
        if ended.raised is not None and not self._options.goes_on_after_errors:
            self._error = self._error or ended.raised.exception()
            self._stop(f"trial {document['tid']} has raised {ended.raised.kind}")
            return
        self._after_a_point()

    def _lose(self, trial: Hashable, reason: str) -> None:
        """End what was evaluated by a worker that is gone."""
        waiting = self._evaluators.waiting
        waiting[:] = [asked for asked in waiting if asked.who[0] != trial]
        for who in [who for who in self._running if who[0] == trial]:
            document = self._running.pop(who)
            if self._options.retries_lost:
                self._points.give_again(document)
                continue
            error = TrialsFailedError(f"The worker of trial {document['tid']} was lost: {reason}")
            _logger.error("job exception: %s", error)
            self._points.fail(document, str(type(error)), str(error))
            self._children.end(document)
            if self._options.goes_on_after_errors:
                self._after_a_point()
                continue
            self._error = self._error or error
            self._stop(str(error))

    def _after_a_point(self) -> None:
        """Do the work of Hyperopt after each round."""
        points, options = self._points, self._options
        if points.is_round_over:
            if options.trials_save_file:
                _save(finished_only(points.trials, points.finished), options.trials_save_file)
            if options.early_stop_fn is not None and (not options.cancels or self._ok > self._had_ok):
                self._had_ok = self._ok
                stop, self._early_stop_args = options.early_stop_fn(
                    finished_only(points.trials, points.finished), *self._early_stop_args
                )
                if stop:
                    _logger.info("Early stop triggered. Stopping iterations as condition is reach.")
                    self._stop(EARLY)
            losses = points.losses()
            if losses:
                best = min(losses)
                self._bar.postfix = f"best loss: {best}"
                if options.loss_threshold is not None and best < options.loss_threshold:
                    self._stop(f"the loss {best} is below loss_threshold")
        news = len(points.finished) - self._done
        if news > 0:
            self._bar.update(news)
            self._done += news

    @property
    def _ok(self) -> int:
        return sum(one["result"]["status"] == hyperopt.STATUS_OK for one in self._points.finished)

    def _stop(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _cancel(self, reason: str) -> None:
        """End what runs."""
        self.is_cancelled = self.is_cancelled or bool(self._running or self._interrupts)
        for document in self._running.values():
            self._points.cancel(document, reason)
            self._children.end(document)
        self._running.clear()


def _save(trials: Any, path: str) -> None:
    """Pickle trials into a file, which is whole at any time."""
    written = f"{path}.part"
    with open(written, "wb") as file:
        cloudpickle.dump(trials, file)
    with contextlib.suppress(FileNotFoundError):
        os.replace(written, path)
