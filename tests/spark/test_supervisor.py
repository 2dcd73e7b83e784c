"""The supervisor by itself, over a Spark that does what it is told."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, cast

import pytest

from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, run_agent
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.supervisor import Supervisor
from asyncsearch.launch.spark.task import TaskMode
from tests.launch.tools import PATIENCE_S, Ends, config_for


class FakeSpark:
    """Its jobs run until one is cancelled."""

    has_dynamic_allocation = False
    is_one_process = False
    has_broadcasts = True
    tells_departures = False
    tells_slots = True
    refuses_barriers = False
    is_gone = False

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.on_cancel: Callable[[], None] = lambda: None

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def run(self, *what: Any, **how: Any) -> list[str]:
        assert self.cancelled.wait(PATIENCE_S)
        return ["its job was cancelled"]

    def running(self) -> Set[str] | None:
        return None

    def trouble(self) -> str:
        return ""

    def departures(self) -> Mapping[str, str]:
        return {}

    def emptiest(self) -> str:
        return ""

    def cancel(self, tag: str) -> None:
        self.on_cancel()
        self.cancelled.set()


class CrowdedSpark(FakeSpark):
    """Each job runs until it is cancelled or ended; those of the first epoch have slots."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[str, threading.Event] = {}
        self._cancelled: set[str] = set()
        self.looks = 0

    def run(self, *what: Any, tags: tuple[str, ...], **how: Any) -> list[str]:
        assert self._end_of(tags[-1]).wait(PATIENCE_S)
        if tags[-1] in self._cancelled:
            raise RuntimeError("the job was cancelled")
        return ["it ended"]

    def running(self) -> Set[str]:
        self.looks += 1
        return {tag for tag in list(self._ends) if tag.endswith(".1") and not self._end_of(tag).is_set()}

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

    def departures(self) -> Mapping[str, str]:
        return {"tag-worker-0.1": "its executor was decommissioned", "another-run": "its executor was decommissioned"}


class SlowlyLookedAtSpark(CrowdedSpark):
    """A look at the executors takes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def departures(self) -> Mapping[str, str]:
        self.begun.release()
        assert self.may_end.acquire(timeout=PATIENCE_S)
        return {}


class SilentSpark(FakeSpark):
    """Its server is gone: no job begins, and none ends."""

    def trouble(self) -> str:
        return "its server does not answer"

    def running(self) -> Set[str]:
        return frozenset()

    def cancel(self, tag: str) -> None:
        self.on_cancel()


class GoneSpark(SilentSpark):
    """Nobody listens where its server was."""

    is_gone = True


class AwaySpark(SilentSpark):
    """Its server comes back after some looks."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = iter(range(5))
        self.is_back = threading.Event()

    def trouble(self) -> str:
        if next(self._looks, None) is not None:
            return super().trouble()
        self.is_back.set()
        return ""


class WithoutBarriersSpark(FakeSpark):
    """Dynamic allocation is on, and the session does not tell."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bool] = []

    def run(self, *what: Any, is_barrier: bool, **how: Any) -> list[str]:
        self.asked.append(is_barrier)
        if is_barrier:
            raise RuntimeError("[SPARK-24942]: Barrier execution mode does not support dynamic resource allocation")
        return ["it ended"]


def supervise(spark: FakeSpark, ends: Ends, mode: TaskMode = TaskMode.PLAIN) -> Supervisor:
    return Supervisor(
        cast("Spark", spark),
        agent=run_agent,
        mode=mode,
        study="digits",
        tag="tag",
        start_timeout_s=PATIENCE_S,
        ended=ends,
        spares={},
    )


def test_a_worker_on_a_decommissioned_executor_is_ended_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.job_ends.DECOMMISSION_LOOK_S", 0.001)
    spark, ends, config = LeavingSpark(), Ends(), config_for(tmp_path)
    spark.tells_departures = True
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


def test_no_kill_and_no_end_waits_for_a_look_and_looks_are_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.job_ends.DECOMMISSION_LOOK_S", 0.0)
    spark, ends, config = SlowlyLookedAtSpark(), Ends(), config_for(tmp_path)
    spark.tells_departures = True
    supervisor = supervise(spark, ends)
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config)
    supervisor.launch((WorkerId(1), 1), config)
    for _ in range(3):
        assert spark.begun.acquire(timeout=PATIENCE_S)
        spark.may_end.release()
    assert spark.begun.acquire(timeout=PATIENCE_S)
    supervisor.kill((WorkerId(0), 1))
    assert ends.next()[:2] == (0, 1)
    supervisor.stop(0.0)
    assert ends.next()[:2] == (1, 1)
    assert not spark.begun.acquire(blocking=False), "a second look had begun"
    spark.may_end.release()


def test_all_launches_that_wait_for_slots_are_looked_at_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.supervisor.WAIT_LOGGED_AFTER_S", 0.0)
    spark, ends, config, workers = CrowdedSpark(), Ends(), config_for(tmp_path), 20
    supervisor = supervise(spark, ends)
    for number in range(workers):
        supervisor.launch((WorkerId(number), 1), config)
        supervisor.launch((WorkerId(number), 2), config)
    supervisor.start()
    for number in range(workers):
        spark.end(f"tag-worker-{number}.1")
    assert {ends.next()[:2] for _ in range(workers)} == {(number, 1) for number in range(workers)}
    supervisor.stop(0.0)
    assert spark.looks <= 1, "each of the others asked for itself"


def test_a_launch_outlasts_a_server_that_is_away_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.supervisor.CANCEL_AGAIN_S", 0.0)
    spark, ends = AwaySpark(), Ends()
    supervisor = supervise(spark, ends)
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config_for(tmp_path))
    assert spark.is_back.wait(PATIENCE_S)
    spark.cancelled.set()
    assert ends.next() == (0, 1, "its job was cancelled"), "by its own end, and not since it was given up"
    supervisor.stop(0.0)


def test_a_refused_barrier_stage_becomes_a_plain_task_once_for_all(tmp_path: Path) -> None:
    spark, ends = WithoutBarriersSpark(), Ends()
    supervisor = supervise(spark, ends, TaskMode.INDEPENDENT)
    supervisor.start()
    for epoch in (1, 2):
        supervisor.launch((WorkerId(0), epoch), config_for(tmp_path))
        assert ends.next() == (0, epoch, "it ended")
    assert spark.asked == [True, False, False]
    supervisor.stop(0.0)


@pytest.mark.parametrize("kind", [GoneSpark, SilentSpark])
def test_a_task_that_had_just_begun_ends_with_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[SilentSpark]
) -> None:
    for name in ("WAIT_LOGGED_AFTER_S", "LOOK_EVERY_S", "CANCEL_AGAIN_S", "SILENT_FOR_S"):
        monkeypatch.setattr(f"asyncsearch.launch.spark.supervisor.{name}", 0.0)
    spark, ends, config = kind(), Ends(), config_for(tmp_path)
    spark.running = lambda: {"tag-worker-0.1", "tag-worker-1.1"}  # type: ignore[method-assign]
    silent, is_cut = spark.trouble, threading.Event()
    spark.trouble = lambda: silent() if is_cut.is_set() else ""  # type: ignore[method-assign]
    supervisor = supervise(spark, ends)
    supervisor.start()
    for worker in (0, 1):
        supervisor.launch((WorkerId(worker), 1), config)
    supervisor.attached((WorkerId(0), 1))
    supervisor._inbox.put(is_cut.set)  # behind it
    ended = {ends.next()[0] for _ in range(1 + spark.is_gone)}
    assert ended == ({0, 1} if spark.is_gone else {1}), "a network that is cut leaves alone who trains"
    supervisor.stop(0.0)
    spark.cancelled.set()


def test_launches_end_in_words_where_spark_answers_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CANCEL_AGAIN_S", "SILENT_FOR_S"):
        monkeypatch.setattr(f"asyncsearch.launch.spark.supervisor.{name}", 0.0)
    spark, ends, config = SilentSpark(), Ends(), config_for(tmp_path)
    supervisor = supervise(spark, ends)
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config)
    assert ends.next() == (0, 1, "its server does not answer")
    supervisor.launch((WorkerId(1), 1), config)
    supervisor.kill((WorkerId(1), 1))
    worker, _, reason = ends.next()
    assert worker == 1
    assert reason.endswith("its server does not answer")
    supervisor.stop(0.0)
    spark.cancelled.set()
    assert ends.is_empty, "each end is reported once"


def test_a_launch_while_the_others_are_ended_starts_no_job_and_learns_it(tmp_path: Path) -> None:
    spark, ends, config = FakeSpark(), Ends(), config_for(tmp_path)
    supervisor = supervise(spark, ends)
    spark.on_cancel = lambda: supervisor.launch((WorkerId(1), 2), config)
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config)
    supervisor.stop(0.0)
    assert sorted([ends.next(), ends.next()]) == [(0, 1, "its job was cancelled"), (1, 2, TOO_LATE)]


def test_a_replacement_waits_for_a_slot_as_long_as_a_worker_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.slots.LOOK_EVERY_S", 0.0)
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


def test_spark_is_not_asked_for_the_slot_of_a_worker_that_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.supervisor.WAIT_LOGGED_AFTER_S", 0.0)
    spark = CrowdedSpark()
    supervisor, heard, unheard = supervise(spark, Ends()), (WorkerId(0), 1), (WorkerId(1), 1)
    supervisor._start_job(heard, config_for(tmp_path))
    supervisor._note_attached(heard)
    supervisor._do_what_is_due()
    assert (supervisor._jobs[heard].due, spark.looks) == (None, 0)
    supervisor._start_job(unheard, config_for(tmp_path))
    supervisor._do_what_is_due()
    assert spark.looks == 1
    for job in supervisor._jobs.values():
        supervisor._cancel(job, "it is over")
