"""How often a launch of a worker calls Spark's Java process: each call takes time of the driver's interpreter."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from asyncsearch.launch.spark.session import Spark
from tests.spark.cluster import spark_session

pytestmark = pytest.mark.spark
MOST_CALLS = {"anywhere": 43, "at a place": 49}
"""Of a launch, after the first one: for its thread, names, rows and job. Objects that are freed do not count."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session("local[2]") as made:
        yield made


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    from py4j.clientserver import ClientServerConnection

    found: Counter[str] = Counter()
    send = ClientServerConnection.send_command

    def counted(self: Any, command: str, *rest: Any, **options: Any) -> Any:
        if not command.startswith("m\n"):
            found[command] += 1
        return send(self, command, *rest, **options)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    return found


def launch(spark: Spark, places: list[str]) -> list[int]:
    found: list[int] = []

    def run() -> None:
        found.extend(spark.run(first, 1, tags=("run", "job"), description="a worker", is_barrier=False, places=places))

    thread: threading.Thread = spark.thread(run, "launch")
    thread.start()
    thread.join()
    return found


def first(rows: Iterable[int]) -> list[int]:
    return list(rows)


@pytest.mark.parametrize("place", MOST_CALLS)
def test_a_launch_takes_few_calls_of_the_jvm(session: Any, calls: Counter[str], place: str) -> None:
    spark = Spark(session.sparkContext)
    spark.inherit()
    places = ["executor_host_1"] if place == "at a place" else [""]
    assert launch(spark, places) == [0]
    calls.clear()
    assert launch(spark, places) == [0]
    assert calls.total() <= MOST_CALLS[place], "\n".join(command.replace("\n", " ") for command in calls.elements())
