"""The questions of trials reach their answerer only behind the seal of their launch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch.actions import AnyAction, StopTraining
from asyncsearch.driver.questions import Questions, Received, Response, Unasked
from asyncsearch.errors import UnauthenticatedError
from asyncsearch.events import AnyEvent, Outcome, Reported, TrainingEnded, WorkerLost
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.rpc.messages import Heartbeat, TrialAnswer, TrialQuestion
from asyncsearch.runner.protocol import UNASKED
from asyncsearch.runner.seal import Seal, launch_key

SECRET, LEASE = b"s" * 32, Lease(7, WorkerId(2), 3)
WORKER = (LEASE.worker, LEASE.epoch)


class Answerer:
    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.may_answer = threading.Semaphore(10)

    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response:
        self.may_answer.acquire(timeout=60)
        self.asked.append(content)
        return Response(b"answer to " + content, {"said": content.decode()})

    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        return Response(unasked=[Unasked(TrialId(0), LEASE, Response(b"begun", {"begun": 0}))])


class Driver:
    """The loop of a driver in a thread, whose questions are answered."""

    def __init__(self) -> None:
        self.answerer = Answerer()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        attempt = SimpleNamespace(end=None, trial=TrialId(0))
        state: Any = SimpleNamespace(attempt=lambda lease, lane: attempt)
        self.sent: list[TrialAnswer] = []
        self.posted: list[Any] = []
        self.has_posted = threading.Condition()
        self.questions = Questions(
            state,
            self.answerer,
            SECRET,
            self.loop,
            post=self.post,
            send=lambda worker, epoch, message: self.sent.append(message),  # type: ignore[arg-type]
            say=lambda sentence: None,
            fail=lambda error: None,
        )
        self.thread.start()

    def post(self, item: Any) -> None:
        with self.has_posted:
            self.posted.append(item)
            self.has_posted.notify()

    def wait_for_posted(self, count: int) -> None:
        with self.has_posted:
            assert self.has_posted.wait_for(lambda: len(self.posted) == count, 60)

    def close(self) -> None:
        self.questions.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    if made.thread.is_alive():
        made.close()


def said(number: int, content: bytes, *, is_awaited: bool = False) -> tuple[Received, TrialQuestion]:
    """Return a message of the worker, and the question in it."""
    question = TrialQuestion(LEASE, number, content, is_awaited)
    return Received(*WORKER, number, question), question


def word(number: int) -> tuple[Received, TrialQuestion]:
    return said(number, Seal(launch_key(SECRET, *WORKER)).closed(number, b"this"))


def test_a_question_with_the_seal_of_its_launch_is_answered_under_it(driver: Driver) -> None:
    seal = Seal(launch_key(SECRET, *WORKER))
    assert driver.questions.take(*said(1, seal.closed(1, b"this"), is_awaited=True)) is None
    driver.close()
    (answer,) = driver.sent
    assert driver.answerer.asked == [b"this"]
    assert seal.opened(1, answer.content) == b"answer to this"
    with pytest.raises(UnauthenticatedError):
        seal.opened(2, answer.content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"this",
        Seal(b"").closed(1, b"this"),
        Seal(launch_key(SECRET, LEASE.worker, LEASE.epoch + 1)).closed(1, b"this"),
        Seal(launch_key(SECRET, *WORKER)).closed(2, b"this"),
        Seal(launch_key(SECRET, *WORKER), is_driver=True).closed(1, b"this"),
    ],
    ids=["nothing", "no seal", "no key", "another launch", "another number", "an answer"],
)
def test_a_question_without_the_seal_of_its_launch_reaches_nobody(driver: Driver, content: bytes) -> None:
    assert "no seal of its launch" in str(driver.questions.take(*said(1, content, is_awaited=True)))
    driver.close()
    assert driver.answerer.asked == []
    assert driver.sent == []


def test_a_trial_is_told_of_its_beginning_unasked_and_under_the_seal(driver: Driver) -> None:
    driver.questions.follow(Reported(LEASE, 1, {}), [StopTraining(LEASE, "any decision")])
    driver.questions.durable()
    driver.wait_for_posted(1)
    (told,) = driver.sent
    assert Seal(launch_key(SECRET, *WORKER)).opened(told.number, told.content) == b"begun"
    assert told.number == UNASKED
    assert driver.posted[0].event.facts == {"begun": 0}


def test_the_end_of_a_trial_waits_for_the_facts_of_its_last_word(driver: Driver) -> None:
    other = Received(WorkerId(3), 1, 9, Heartbeat())
    end = Received(*WORKER, 5, TrainingEnded(LEASE, Outcome.RETURNED, 0))
    loss = WorkerLost(*WORKER, "its process has ended")
    driver.answerer.may_answer = threading.Semaphore(0)
    assert not driver.questions.holds(end)
    assert driver.questions.take(*(last_word := word(1))) is None
    assert [driver.questions.holds(one) for one in (end, loss, other)] == [True, True, False]
    driver.answerer.may_answer.release()
    driver.wait_for_posted(4)
    facts, *behind = driver.posted
    assert (facts.event.facts, behind) == ({"said": "this"}, [last_word[0], end, loss])
    assert not driver.questions.holds(end)


def test_a_message_waits_for_no_word_that_was_said_after_it(driver: Driver) -> None:
    first, report, second = word(1), Received(*WORKER, 2, Reported(LEASE, 1, {})), word(3)
    driver.answerer.may_answer = threading.Semaphore(0)
    driver.questions.take(*first)
    assert driver.questions.holds(report)
    driver.questions.take(*second)
    driver.answerer.may_answer.release()
    driver.wait_for_posted(3)
    assert driver.posted[1:] == [first[0], report]
    driver.answerer.may_answer.release()
    driver.wait_for_posted(5)
    assert driver.posted[4:] == [second[0]]


def test_words_that_are_answered_late_are_acknowledged_in_their_order(driver: Driver) -> None:
    later: list[Future[Response]] = [Future(), Future()]
    answers = iter(later)
    driver.answerer.answer = lambda *_: next(answers)  # type: ignore[method-assign,assignment]
    words = [word(number) for number in (1, 2)]
    for one in words:
        driver.questions.take(*one)
    end = Received(*WORKER, 3, TrainingEnded(LEASE, Outcome.RETURNED, 0))
    assert driver.questions.holds(end)
    for answer in reversed(later):
        answer.set_result(Response())
    driver.wait_for_posted(3)
    assert driver.posted == [words[0][0], words[1][0], end]


def test_a_word_that_nobody_answers_any_more_is_not_acknowledged(driver: Driver) -> None:
    driver.questions.close()
    assert driver.questions.take(*word(1)) is None
    assert driver.questions.holds(Received(*WORKER, 2, Reported(LEASE, 1, {})))
    driver.close()
    assert driver.posted == []
