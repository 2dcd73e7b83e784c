"""The questions of trials reach their answerer only behind the seal of their launch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch.actions import AnyAction
from asyncsearch.driver.questions import Questions, Received, Response
from asyncsearch.errors import UnauthenticatedError
from asyncsearch.events import AnyEvent, Outcome, TrainingEnded
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.rpc.messages import Heartbeat, TrialAnswer, TrialQuestion
from asyncsearch.runner.seal import Seal, launch_key

SECRET, LEASE = b"s" * 32, Lease(7, WorkerId(2), 3)
WORKER = (LEASE.worker, LEASE.epoch)


class Answerer:
    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response:
        self.may_answer.wait(60)
        self.asked.append(content)
        return Response(b"answer to " + content, {"said": content.decode()})

    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        return Response()


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
        self.questions = Questions(
            state,
            self.answerer,
            SECRET,
            self.loop,
            post=self.posted.append,
            send=lambda worker, epoch, message: self.sent.append(message),  # type: ignore[arg-type]
            say=lambda sentence: None,
            fail=lambda error: None,
        )
        self.thread.start()

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


def test_a_question_with_the_seal_of_its_launch_is_answered_under_it(driver: Driver) -> None:
    seal = Seal(launch_key(SECRET, *WORKER))
    assert driver.questions.take(WORKER, TrialQuestion(LEASE, 1, seal.closed(1, b"this"), True)) == ""
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
    assert "no seal of its launch" in driver.questions.take(WORKER, TrialQuestion(LEASE, 1, content, True))
    driver.close()
    assert driver.answerer.asked == []
    assert driver.sent == []


def test_the_end_of_a_trial_waits_for_the_facts_of_its_last_word(driver: Driver) -> None:
    other = Received(WorkerId(3), 1, 9, Heartbeat())
    end = Received(*WORKER, 5, TrainingEnded(LEASE, Outcome.RETURNED, 0))
    last_word = TrialQuestion(LEASE, 1, Seal(launch_key(SECRET, *WORKER)).closed(1, b"this"), False)
    driver.answerer.may_answer.clear()
    assert not driver.questions.holds(end)
    driver.questions.take(WORKER, last_word)
    assert [driver.questions.holds(one) for one in (end, other)] == [True, False]
    driver.answerer.may_answer.set()
    driver.close()
    said, behind = driver.posted
    assert (said.event.facts, behind) == ({"said": "this"}, end)
    assert not driver.questions.holds(end)
