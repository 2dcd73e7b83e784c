"""Whoever waits for an answer of Spark gets it, or is told in time why there is none."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch.errors import ClusterError, NotEnoughSlotsError
from asyncsearch.launch.spark import spark_answers, tag_notes
from asyncsearch.launch.spark.cluster_facts import ExaminedSession
from asyncsearch.launch.spark.connect_server import end_left_queries, server_answer
from asyncsearch.launch.spark.probe import Callback, probe
from asyncsearch.launch.spark.spark_answers import answer_of
from tests.launch.tools import PATIENCE_S
from tests.spark.test_preflight import FakeSpark, check

SILENT = "its server does not answer"


@pytest.fixture
def never() -> Iterator[Callable[[], Any]]:
    """A question that nobody answers."""
    over = threading.Event()
    yield lambda: over.wait(PATIENCE_S)
    over.set()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_answers, "_LOOK_S", 0.001)
    monkeypatch.setattr(spark_answers, "SILENT_FOR_S", 0.0)


class UnheardSpark(FakeSpark):
    """Its tasks never begin."""

    silence = SILENT
    version = "4.3.0"

    def trouble(self) -> str:
        return self.silence

    def thread(self, target: Callable[[], None], name: str) -> Any:
        return threading.Thread(target=lambda: None)


@pytest.mark.usefixtures("impatient")
def test_a_silent_spark_ends_a_wait_in_words(never: Callable[[], Any]) -> None:
    with pytest.raises(ClusterError, match=rf"Nothing has begun: {SILENT}, for 0 s\. See that it runs"):
        answer_of(never, lambda: SILENT)


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_whatever_ends_the_question_ends_the_wait(kind: type[BaseException]) -> None:
    def end() -> None:
        raise kind

    with pytest.raises(kind):
        answer_of(end, lambda: "")


@pytest.mark.usefixtures("impatient")
def test_a_spark_that_answers_in_the_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_answers, "SILENT_FOR_S", PATIENCE_S)
    looks, is_back = iter([SILENT, SILENT, ""]), threading.Event()

    def look() -> str:
        if not (found := next(looks, "")):
            is_back.set()
        return found

    assert answer_of(lambda: is_back.wait(PATIENCE_S), look)


@pytest.mark.usefixtures("impatient")
def test_a_pause_of_a_spark_does_not_count_with_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_answers, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    monkeypatch.setattr(spark_answers, "SILENT_FOR_S", 10.0)
    looks, is_over = iter([SILENT, ""] * 20), threading.Event()

    def look() -> str:
        found = next(looks, None)
        if found is None:
            is_over.set()
        return found or ""

    assert answer_of(lambda: is_over.wait(PATIENCE_S), look)


@pytest.mark.usefixtures("impatient")
def test_the_check_of_the_executors_ends_with_a_silent_spark() -> None:
    spark = UnheardSpark()
    with pytest.raises(ClusterError, match=rf"Nothing has begun: {SILENT}"):
        check(spark)
    assert len(spark.cancelled) == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("silence", [SILENT, ""])
def test_an_examination_says_why_executors_were_not_asked(monkeypatch: pytest.MonkeyPatch, silence: str) -> None:
    spark = UnheardSpark()
    spark.silence = silence
    monkeypatch.setattr("asyncsearch.launch.spark.cluster_facts.join", lambda _: spark)
    with ExaminedSession(timeout_s=0.1) as cluster:
        found = cluster.facts()
    assert (SILENT if silence else "No task slot became free within 0 s for the examination") in found.failure


def test_tasks_without_a_slot_are_cancelled_in_words() -> None:
    spark = UnheardSpark()
    spark.silence = ""
    with pytest.raises(NotEnoughSlotsError, match=r"No task slot became free within 0 s for the test: other jobs"):
        spark_answers.ask_executors(spark, list, 1, what="test", timeout_s=0.0)
    assert len(spark.cancelled) == 1


@pytest.mark.usefixtures("impatient")
def test_a_session_whose_server_is_silent_is_told_of(
    never: Callable[[], Any], unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = SimpleNamespace(endpoint=f"127.0.0.1:{unused_port}")
    session = SimpleNamespace(client=SimpleNamespace(_builder=builder))
    with pytest.raises(ClusterError, match=rf"the Spark Connect server at 127\.0\.0\.1:{unused_port} does not answer"):
        server_answer(session, never, "settings")
    monkeypatch.setattr(tag_notes, "end_tag_of", lambda *_: never())
    end_left_queries(session, b"")  # the search goes on without


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        return int(nobody.getsockname()[1])


def test_a_name_that_nobody_resolves_costs_the_check_seconds(
    monkeypatch: pytest.MonkeyPatch, never: Callable[[], Any]
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.probe.REACHED_WITHIN_S", 0.1)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: [never()][:0])
    [(*_, unreached)] = probe({}, Callback("driver.example", 1, b""))([0])
    assert unreached == "no answer within 0.1 s"
