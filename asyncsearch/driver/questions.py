"""The questions of trials, and the one who answers them: another library's sampler, pruner and study, for example.

    question ──> Questions ──> Answerer, in a thread of its own, one at a time ──> fact into the journal, answer

A question counts only behind the seal of its launch (``runner.seal``), and an answer goes out behind one.
An answerer may keep a question and answer it later, as where a worker waits for something to do.

What a trial says without awaiting an answer may be its last word, with its end, or the loss of its worker, right behind
it: these wait here until its facts have come. They wait for no word that was said after them, so that a trial which
never pauses delays nothing for ever.

An answer that the driver has sent and not written yet is lost with the driver, and the trial that got it is, too: so it
waits for the disk only where the answerer says that it must not be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import msgspec

from asyncsearch.actions import AnyAction
from asyncsearch.driver.store_waits import Worker
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UnauthenticatedError
from asyncsearch.events import AnyEvent, Consulted, EnoughTrials, WorkerLost
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.rpc.messages import DriverMessage, TrialAnswer, TrialQuestion, WorkerMessage
from asyncsearch.runner.notes import note_in
from asyncsearch.runner.protocol import UNASKED, parts_of
from asyncsearch.runner.seal import Seal, launch_key

_UNANSWERED = "it asks the driver, and nobody there answers"


class Response(NamedTuple):
    """The answer to a question."""

    content: bytes = b""
    facts: dict[str, Any] | None = None
    """What the journal keeps of it, JSON values. None if there is nothing to keep, as of a question that only reads."""
    is_durable: bool = False
    """Whether the answer waits until the facts are in the journal."""
    enough: str = ""
    """Why the run is to begin no more trials. Empty if it goes on."""
    notice: str = ""
    """A sentence for the user. Empty if there is none."""
    unasked: Sequence[Unasked] = ()
    """What trials that are assigned now are to know at their beginning: they wait for it, and do not ask."""


class Unasked(NamedTuple):
    """The answer to a question that a trial would begin with."""

    trial: TrialId
    lease: Lease
    answer: Response | Future[Response]


class Answerer(Protocol):
    """Answers the questions of trials. All its methods are called in one thread, one after another."""

    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response | Future[Response]:
        """Answer a question, now or later; an exception ends the run, and is raised by it."""

    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        """Take note of a record of the journal; of what is returned ``enough`` and ``unasked`` count."""


class Received(msgspec.Struct, frozen=True):
    """A numbered message of a worker."""

    worker: WorkerId
    epoch: int
    number: int
    message: WorkerMessage


class _Asked(NamedTuple):
    """A question, whole and behind its seal."""

    received: Received | None
    """The message with its last part. None if nobody has asked."""
    question: TrialQuestion
    trial: TrialId
    content: bytes

    @property
    def worker(self) -> Worker:
        return self.question.lease.worker, self.question.lease.epoch


class Settled(msgspec.Struct, frozen=True):
    """An answer, on its way into the journal."""

    worker: Worker
    event: Consulted | None
    answer: TrialAnswer | None
    """To be sent once the event is durable. None if it was sent, or is not awaited."""


class Questions:
    """Passes questions on, and answers back. Called in the driver's thread, except ``_answer`` and ``_note``."""

    def __init__(
        self,
        state: StudyState,
        answerer: Answerer | None,
        secret: bytes,
        loop: asyncio.AbstractEventLoop,
        *,
        post: Callable[[AnyEvent | Settled | Received], None],
        send: Callable[[WorkerId, int, DriverMessage], None],
        say: Callable[[str], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """Begin without questions.

        Args:
            state: of the study, for reading only.
            answerer: answers them. None if they are refused.
            secret: of which the keys of all launches are made.
            loop: the driver's.
            post: puts an item before the engine.
            send: sends a message to a worker.
            say: tells the user a sentence.
            fail: ends the run by an error.
        """
        self._state, self._answerer, self._secret, self._loop = state, answerer, secret, loop
        self._post, self._send, self._say, self._fail = post, send, say, fail
        self._parts: dict[tuple[Lease, int], list[bytes]] = {}
        """What has come of questions whose rest is still to come."""
        self._behind: dict[Worker, deque[_Asked | Received | WorkerLost]] = {}
        """What a worker has said from its first word on that is not settled, in its order: to acknowledge a message
        is to acknowledge those before it."""
        self._unnoted: list[tuple[AnyEvent, Sequence[AnyAction]]] = []
        """Records that are being written."""
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, "asyncsearch-answers") if answerer is not None else None

    def take(self, received: Received, part: TrialQuestion) -> str | None:
        """Pass on a question.

        Returns:
            Why its lease is to end. Empty if it goes on. None if the message is posted once it is answered, with what
            the journal keeps of that.
        """
        worker, lease = (received.worker, received.epoch), part.lease
        attempt = self._state.attempt(lease, part.lane)
        if attempt is None or attempt.end is not None or (lease.worker, lease.epoch) != worker:
            return ""
        if self._thread is None and part.has_more:  # a note, which needs no answerer, is in one part
            return _UNANSWERED
        parts = self._parts.setdefault((lease, part.lane), [])
        parts.append(part.content)
        if part.has_more:
            return ""
        del self._parts[lease, part.lane]
        try:
            content = self._seal(worker).opened(part.number, b"".join(parts))
        except UnauthenticatedError as error:
            return str(error)
        if (note := note_in(content)) is not None:
            fact = Consulted(lease, {"note": note[0], "text": note[1]}, part.lane)
            self._post(Settled(worker, fact, None))
            return ""
        if self._thread is None:
            return _UNANSWERED
        asked = _Asked(received, part, attempt.trial, content)
        if not part.is_awaited:
            self._behind.setdefault(worker, deque()).append(asked)
        if not self._is_closed:  # else it is never acknowledged
            self._thread.submit(self._answer, asked)
        return None

    def holds(self, item: Received | WorkerLost) -> bool:
        """Return whether an item waits until what its worker has said before is settled; then it is posted."""
        behind = self._behind.get((item.worker, item.epoch))
        if behind is None:
            return False
        behind.append(item)
        return True

    def follow(self, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        """Let the answerer take note of a record with decisions, once it is durable."""
        if self._thread is not None and actions:
            self._unnoted.append((event, actions))

    def durable(self) -> None:
        """Pass on the records: a program that goes on after them may be killed, and has them all."""
        records, self._unnoted = self._unnoted, []
        for event, actions in records:
            if self._thread is not None and not self._is_closed:
                self._thread.submit(self._note, event, actions)

    def close(self) -> None:
        """Answer no more; what is being answered comes to its end first."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    # The answerer's thread

    def _answer(self, asked: _Asked) -> None:
        assert self._answerer is not None
        try:
            answered = self._answerer.answer(asked.trial, asked.question.lease, asked.content)
        except BaseException as error:
            self._loop.call_soon_threadsafe(self._fail_at, asked, error)
        else:
            self._pass_on(asked, answered)

    def _pass_on(self, asked: _Asked, answered: Response | Future[Response]) -> None:
        if isinstance(answered, Future):
            answered.add_done_callback(lambda done: self._settle_late(asked, done.result()))
        else:
            self._loop.call_soon_threadsafe(self._settle, asked, answered)

    def _settle_late(self, asked: _Asked, answered: Response) -> None:
        """Pass on an answer that was waited for, in whichever thread it came; the run may have ended meanwhile."""
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._settle, asked, answered)

    def _note(self, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        assert self._answerer is not None
        try:
            answered = self._answerer.followed(event, actions)
        except BaseException as error:
            self._loop.call_soon_threadsafe(self._fail, error)
        else:
            for trial, lease, answer in answered.unasked:
                self._pass_on(_Asked(None, TrialQuestion(lease, UNASKED, b""), trial, b""), answer)
            if answered.enough:  # else the loop would wake for nothing
                self._loop.call_soon_threadsafe(self._end_if_enough, answered)

    # The driver's thread

    def _settle(self, asked: _Asked, answered: Response) -> None:
        question, worker = asked.question, asked.worker
        lease, lane = question.lease, question.lane
        event = None if answered.facts is None else Consulted(lease, answered.facts, lane)
        sealed = self._seal(worker).closed(question.number, answered.content) if question.is_awaited else b""
        parts = parts_of(sealed) if question.is_awaited else []
        answers = [TrialAnswer(lease, question.number, part, has_more, lane) for part, has_more in parts]
        last = answers.pop() if answers and answered.is_durable else None
        for answer in answers:
            self._send(*worker, answer)
        self._end_if_enough(answered)
        if answered.notice:
            self._say(answered.notice)
        if event is not None or last is not None:
            self._post(Settled(worker, event, last))
        self._release(asked)

    def _fail_at(self, asked: _Asked, error: BaseException) -> None:
        self._fail(error)
        self._release(asked)

    def _release(self, asked: _Asked) -> None:
        """Post a message that is settled, and what waited for it alone; words may be settled in any order."""
        if asked.received is None:
            return
        if asked.question.is_awaited:
            self._post(asked.received)
            return
        behind = self._behind[asked.worker]
        behind[behind.index(asked)] = asked.received
        while behind and not isinstance(behind[0], _Asked):
            self._post(behind.popleft())  # type: ignore[arg-type]  # tested above
        if not behind:
            del self._behind[asked.worker]

    def _seal(self, worker: Worker) -> Seal:
        return Seal(launch_key(self._secret, *worker), is_driver=True)

    def _end_if_enough(self, answered: Response) -> None:
        if answered.enough:
            self._post(EnoughTrials(answered.enough))
