"""The points of one ``fmin``: drawn by the program's own algo, in the order and with the numbers that Hyperopt has.

Hyperopt works in rounds: it fills a queue of ``max_queue_len`` new documents, evaluates them, and looks whether to go
on. Here a round begins as soon as no document of the one before is left to be given out. With one worker that is the
same, and algo is called with the same trials and seeds.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, NamedTuple

import hyperopt
import numpy as np
from hyperopt.base import (
    JOB_STATE_CANCEL,
    JOB_STATE_DONE,
    JOB_STATE_ERROR,
    JOB_STATE_NEW,
    JOB_STATE_RUNNING,
    spec_from_misc,
)
from hyperopt.utils import coarse_utcnow

from asyncsearch.errors import UsageError

_FINISHED = (JOB_STATE_DONE, JOB_STATE_ERROR, JOB_STATE_CANCEL)
Document = dict[str, Any]


class AlgoSeeds(NamedTuple):
    """The seeds that algo gets, one for each call: of a ``Generator``, or of a ``RandomState`` as in older programs."""

    rstate: Any

    def next(self) -> Any:
        """Return the next seed."""
        most = 2**31 - 1
        return self.rstate.integers(most) if hasattr(self.rstate, "integers") else self.rstate.randint(most)


def require_rstate(rstate: Any) -> AlgoSeeds:
    """Return the seeds of what a program gives as ``rstate``.

    Raises:
        UsageError: it draws no numbers.
    """
    if isinstance(rstate, bool) or not (hasattr(rstate, "integers") or isinstance(rstate, np.random.RandomState)):
        raise UsageError(f"rstate={rstate!r} draws no numbers: write rstate=np.random.default_rng(42).")
    return AlgoSeeds(rstate)


class Points:
    """The points of one ``fmin``, and what became of them."""

    def __init__(
        self, trials: Any, domain: Any, algo: Any, draws: AlgoSeeds, *, max_evals: int, max_queue_len: int
    ) -> None:
        trials.refresh()
        self.trials = trials
        self.wanted = max_evals - len(trials)
        """How many points are drawn, at most."""
        self.drawn = 0
        self.finished: list[Document] = [one for one in trials._dynamic_trials if one["state"] == JOB_STATE_DONE]
        """In the order in which they came to their ends."""
        self._domain, self._algo, self._draws = domain, algo, draws
        self._max_queue_len = max(1, max_queue_len)
        self._queue = deque(one for one in trials._dynamic_trials if one["state"] == JOB_STATE_NEW)
        self._is_exhausted = False

    @property
    def is_round_over(self) -> bool:
        """Whether all documents of the present round are given out."""
        return not self._queue

    @property
    def to_be_given(self) -> int:
        """How many points there are at most."""
        return len(self._queue) + max(0, self.wanted)

    @property
    def may_draw(self) -> bool:
        """Whether another round is to begin."""
        return self.drawn < self.wanted and not self._is_exhausted

    def begin_round(self) -> int:
        """Let algo draw until the queue is full; return how often it was called."""
        calls = 0
        while len(self._queue) < self._max_queue_len and self.may_draw:
            number = min(self._max_queue_len - len(self._queue), self.wanted - self.drawn)
            new_ids = self.trials.new_trial_ids(number)
            self.trials.refresh()
            calls += 1
            documents = self._algo(new_ids, self._domain, self._seen_by_algo(), self._draws.next())
            assert len(new_ids) >= len(documents)
            if not documents:
                self._is_exhausted = True
                break
            before = len(self.trials._dynamic_trials)
            self.trials.insert_trial_docs(documents)
            self.trials.refresh()
            self._queue.extend(self.trials._dynamic_trials[before:])
            self.drawn += len(documents)
        return calls

    def _seen_by_algo(self) -> Any:
        """Return the trials; ATPE, which reads the loss of each of them, gets those that have one."""
        if getattr(self._algo, "__module__", "") == "hyperopt.atpe":
            return finished_only(self.trials, self.finished)
        return self.trials

    def give(self) -> tuple[Document, dict[str, Any]]:
        """Return the next document of the round, which runs now, and its point."""
        document = self._queue.popleft()
        document["state"] = JOB_STATE_RUNNING
        document["book_time"] = document["refresh_time"] = coarse_utcnow()
        return document, spec_from_misc(document["misc"])

    def give_again(self, document: Document) -> None:
        """Put a document whose worker was lost in front of the others."""
        document["state"] = JOB_STATE_NEW
        self._queue.appendleft(document)

    def succeed(self, document: Document, result: dict[str, Any], attachments: dict[str, Any]) -> None:
        """End a document whose objective has returned."""
        document["state"], document["result"] = JOB_STATE_DONE, result
        kept = hyperopt.Trials.trial_attachments(self.trials, document)
        for name, value in attachments.items():
            kept[name] = value
        self._end(document)

    def fail(self, document: Document, kind: str, words: str) -> None:
        """End a document whose objective has raised, or whose worker was lost."""
        document["state"], document["misc"]["error"] = JOB_STATE_ERROR, (kind, words)
        self._end(document)

    def cancel(self, document: Document, reason: str) -> None:
        """End a document that was not evaluated to its end."""
        document["state"], document["misc"]["error"] = JOB_STATE_CANCEL, ("cancelled", reason)
        self._end(document)

    def cancel_queue(self, reason: str) -> None:
        """End the documents that were not given out."""
        while self._queue:
            self.cancel(self._queue.popleft(), reason)

    def _end(self, document: Document) -> None:
        document["refresh_time"] = coarse_utcnow()
        if document["state"] == JOB_STATE_DONE:
            self.finished.append(document)
        self.trials.refresh()

    def losses(self) -> list[float]:
        """Return the losses of all trials that have one, whatever their status."""
        found = [one["result"].get("loss") for one in self.finished]
        return [loss for loss in found if loss is not None and not np.isnan(loss)]


def finished_only(trials: Any, finished: list[Document]) -> Any:
    """Return a view of trials that has those that have ended alone, the last one to end last.

    What looks at the last document, as ``no_progress_loss`` does, sees each document once.
    """
    seen = copy.copy(trials)
    failed = [one for one in trials._dynamic_trials if one["state"] in _FINISHED and one["state"] != JOB_STATE_DONE]
    seen._dynamic_trials, seen._ids = [*failed, *finished], set(trials._ids)
    seen.refresh()
    return seen


def answer_of(trials: Any, document: Document, question: str, *arguments: Any) -> Any:
    """Return the answer to a question of an objective about the trials, or about its own document."""
    match question:
        case "trials":
            return trials._dynamic_trials
        case "attachments":
            return trials.attachments
        case "attachment":
            kept = hyperopt.Trials.trial_attachments(trials, document)
            return [kept[arguments[0]]] if arguments[0] in kept else None
        case "checkpoint":
            document["result"] = arguments[0]
        case "inject":
            return hyperopt.Ctrl(trials, document).inject_results(*arguments)
        case _:
            pass  # what was told needs no answer
    return None


def cancel_left(trials: Any) -> None:
    """Cancel documents that ran under a driver that is no more: nobody evaluates them."""
    for document in trials._dynamic_trials:
        if document["state"] == JOB_STATE_RUNNING:
            document["state"], document["misc"]["error"] = JOB_STATE_CANCEL, ("cancelled", "its driver has ended")
    trials.refresh()
