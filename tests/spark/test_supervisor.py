"""The supervisor by itself, over a Spark that does what it is told."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, run_agent
from asyncsearch.launch.spark.departures import is_leaving
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.supervisor import Supervisor
from asyncsearch.launch.spark.task import TaskMode
from tests.launch.tools import PATIENCE_S, Ends, config_for


class FakeSpark:
    """Its jobs run until one is cancelled."""

    has_dynamic_allocation = False

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.on_cancel: Callable[[], None] = lambda: None
        self.switched_on: set[str] = set()

    def is_on(self, key: str) -> bool:
        return key in self.switched_on

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def run(self, *what: Any, **how: Any) -> list[str]:
        assert self.cancelled.wait(PATIENCE_S)
        return ["its job was cancelled"]

    def is_running(self, tag: str) -> bool:
        return True

    def cancel(self, tag: str) -> None:
        self.on_cancel()
        self.cancelled.set()


class CrowdedSpark(FakeSpark):
    """Each job runs until it is cancelled or ended; those of the first epoch have slots."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[str, threading.Event] = {}
        self._cancelled: set[str] = set()

    def run(self, *what: Any, tags: tuple[str, ...], **how: Any) -> list[str]:
        assert self._end_of(tags[-1]).wait(PATIENCE_S)
        if tags[-1] in self._cancelled:
            raise RuntimeError("the job was cancelled")
        return ["it ended"]

    def is_running(self, tag: str) -> bool:
        return tag.endswith(".1") and not self._end_of(tag).is_set()

    def cancel(self, tag: str) -> None:
        self._cancelled.add(tag)
        self.end(tag)

    def end(self, tag: str) -> None:
        self._end_of(tag).set()

    def _end_of(self, tag: str) -> threading.Event:
        return self._ends.setdefault(tag, threading.Event())


class Sentences(logging.Handler):
    """What is logged, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self.queue.put(record.getMessage())


class LeavingSpark(CrowdedSpark):
    """The executor of the first worker is decommissioned."""

    def is_leaving(self, tag: str) -> bool:
        return tag.endswith("worker-0.1")


def supervise(spark: FakeSpark, ends: Ends) -> Supervisor:
    return Supervisor(
        cast("Spark", spark),
        agent=run_agent,
        mode=TaskMode.PLAIN,
        study="digits",
        tag="tag",
        start_timeout_s=PATIENCE_S,
        ended=ends,
        spares={},
    )


def test_a_worker_on_a_decommissioned_executor_is_ended_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.departures.LOOK_EVERY_S", 0.001)
    spark, ends, config = LeavingSpark(), Ends(), config_for(tmp_path)
    spark.switched_on = {"spark.decommission.enabled"}
    supervisor = supervise(spark, ends)
    supervisor.start()
    supervisor.launch((WorkerId(1), 1), config)
    supervisor.launch((WorkerId(0), 1), config)
    assert ends.next() == (0, 1, "its executor was decommissioned")
    supervisor.launch((WorkerId(0), 2), config)
    assert ends.is_empty
    spark.end("tag-worker-1.1")
    assert ends.next() == (1, 1, "it ended")
    supervisor.stop(0.0)
    assert ends.next()[:2] == (0, 2)


class Scala:
    """Objects of the JVM, as far as they are asked: jobs with tags, their stages, the executors of their tasks."""

    def __init__(self, jobs: dict[str, list[tuple[str, bool]]], decommissioned: set[str]) -> None:
        self._jobs = list(jobs.items())
        self._decommissioned = decommissioned

    def getActiveJobsIds(self) -> range:
        return range(len(self._jobs))

    def getJobInfo(self, job: int) -> SimpleNamespace:
        return SimpleNamespace(stageIds=[job])

    def job(self, job: int) -> SimpleNamespace:
        return SimpleNamespace(jobTags=lambda: SimpleNamespace(contains=lambda tag: tag == self._jobs[job][0]))

    def taskSetManagerForAttempt(self, stage: int, attempt: int) -> SimpleNamespace:
        tasks = iter(self._jobs[stage][1])
        left = len(self._jobs[stage][1])

        def has_next() -> bool:
            nonlocal left
            left -= 1
            return left >= 0

        def info() -> SimpleNamespace:
            executor, is_running = next(tasks)
            return SimpleNamespace(running=lambda: is_running, executorId=lambda: executor)

        infos = SimpleNamespace(valuesIterator=lambda: SimpleNamespace(hasNext=has_next, next=info))
        return SimpleNamespace(isDefined=lambda: True, get=lambda: SimpleNamespace(taskInfos=lambda: infos))

    def getExecutorDecommissionState(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(isDefined=lambda: name in self._decommissioned)


def test_a_worker_leaves_with_the_executor_of_its_running_task_only() -> None:
    jobs = {"stays": [("1", True)], "leaves": [("2", True)], "was-there": [("2", False), ("1", True)]}
    scala = Scala(jobs, {"2"})
    sc = SimpleNamespace(taskScheduler=lambda: scala, statusStore=lambda: scala)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: sc), statusTracker=lambda: scala)
    assert [tag for tag in jobs if is_leaving(context, tag)] == ["leaves"]


def test_launch_that_comes_while_the_others_are_ended_starts_no_job_and_is_told(tmp_path: Path) -> None:
    spark, ends, config = FakeSpark(), Ends(), config_for(tmp_path)
    supervisor = supervise(spark, ends)
    spark.on_cancel = lambda: supervisor.launch((WorkerId(1), 2), config)
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config)
    supervisor.stop(0.0)
    assert sorted([ends.next(), ends.next()]) == [(0, 1, "its job was cancelled"), (1, 2, TOO_LATE)]


def test_a_replacement_waits_for_its_slot_as_long_as_another_worker_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAIT_LOGGED_AFTER_S", "REPLACED_AFTER_S"):
        monkeypatch.setattr(f"asyncsearch.launch.spark.supervisor.{name}", 0.0)
    spark, ends, config, sentences = CrowdedSpark(), Ends(), config_for(tmp_path), Sentences()
    supervisor = Supervisor(
        cast("Spark", spark),
        agent=run_agent,
        mode=TaskMode.INDEPENDENT,
        study="digits",
        tag="tag",
        start_timeout_s=0.02,
        ended=ends,
        spares={},
    )
    logger = logging.getLogger("asyncsearch.launch.spark.supervisor")
    logger.addHandler(sentences)
    try:
        supervisor.start()
        supervisor.launch((WorkerId(0), 1), config)
        supervisor.launch((WorkerId(1), 1), config)
        spark.end("tag-worker-1.1")
        assert ends.next() == (1, 1, "it ended")
        supervisor.launch((WorkerId(1), 2), config)
        for _ in range(5):
            sentence = sentences.queue.get(timeout=PATIENCE_S)
            assert sentence.startswith("worker-1 epoch 2 waits for a free task slot since ")
            assert sentence.endswith("It waits on, and the other workers train meanwhile.")
        assert ends.is_empty
        spark.end("tag-worker-0.1")
        assert ends.next() == (0, 1, "it ended")
        assert ends.reason() == "it found no free task slot within 0 s", "nothing of the run works any more"
        supervisor.stop(0.0)
    finally:
        logger.removeHandler(sentences)
