"""Threads of this process that evaluate points, for objectives that need what cannot be sent to a worker."""

from __future__ import annotations

import queue
import threading
from typing import Any

import hyperopt

from asyncsearch.driver.threads import next_of
from asyncsearch.hyperopt.messages import EvaluatorsEnded, Message, PointQuestion
from asyncsearch.hyperopt.objective import PointEnd
from asyncsearch.hyperopt.worker_trials import in_thread
from asyncsearch.programs.raised import Raised


class ThreadEvaluators:
    """Threads that ask for points as workers do, with the program's own trials at hand."""

    def __init__(self, domain: Any, trials: Any, parallelism: int) -> None:
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.waiting: list[PointQuestion] = []
        self._domain, self._trials = domain, trials
        self._threads = [
            threading.Thread(target=self._evaluate, args=(number,), name=f"asyncsearch-point-{number}", daemon=True)
            for number in range(parallelism)
        ]
        for thread in self._threads:
            thread.start()

    def close(self, *, now: bool = False) -> None:
        waiting, self.waiting = self.waiting, []
        for asked in waiting:
            asked.reply(None, state="over")
        if now:
            return  # a thread cannot be ended; it is a daemon, and is answered no more
        left = len(self._threads)
        while left:
            match next_of(self.inbox):
                case PointQuestion() as asked:
                    asked.reply(None, state="over")
                case EvaluatorsEnded():
                    left -= 1
                case _:
                    pass
        for thread in self._threads:
            thread.join()

    def _evaluate(self, number: int) -> None:
        in_thread.is_evaluating = True
        turn = 0
        while (point := self._ask(number, turn, "begin")) is not None:
            spec, document, _child = point
            try:
                result = self._domain.evaluate(spec, hyperopt.Ctrl(self._trials, document))
                ended = PointEnd(result, {}, None)
            except Exception as error:
                ended = PointEnd(None, {}, Raised(str(type(error)), str(error), "", error))
            self._ask(number, turn, "end", ended)
            turn += 1
        self.inbox.put(EvaluatorsEnded(None))

    def _ask(self, number: int, turn: int, kind: str, *arguments: Any) -> Any:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def reply(value: Any, _facts: Any = None, *, state: str = "ok", is_durable: bool = False) -> None:  # noqa: ARG001  # nothing is lost here
            answers.put(value if state == "ok" else None)

        self.inbox.put(PointQuestion((number, turn), kind, list(arguments), reply))
        return answers.get()
