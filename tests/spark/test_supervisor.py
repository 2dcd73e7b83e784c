"""The supervisor by itself, over a Spark that does what it is told."""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, run_agent
from asyncsearch.launch.spark.handover import Receiver
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.supervisor import Supervisor
from asyncsearch.launch.spark.task import NOT_NEEDED, TaskMode, spare_task
from tests.launch.tools import PATIENCE_S, Ends, config_for


class FakeSpark:
    """Its jobs run until one is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.on_cancel: Callable[[], None] = lambda: None
        self.tasks: queue.Queue[Any] = queue.Queue()
        """What was submitted."""
        self.threads: queue.Queue[threading.Thread] = queue.Queue()
        """Those of its jobs."""
        self.is_broken = False
        """Whether its jobs fail at once."""

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        made = threading.Thread(target=target, name=name, daemon=True)
        if name != "asyncsearch-spark":
            self.threads.put(made)
        return made

    def run(self, what: Any, *more: Any, **how: Any) -> list[str]:
        self.tasks.put(what)
        if what.func is cast("Any", spare_task(run_agent, "")).func:
            # What it does without Spark and without an agent.
            if self.is_broken:
                raise RuntimeError("the executor is gone")
            data = Receiver(what.args[1]).receive()
            return [repr(pickle.loads(data)) if data else NOT_NEEDED]
        assert self.cancelled.wait(PATIENCE_S)
        return ["its job was cancelled"]

    def cancel(self, tag: str) -> None:
        self.on_cancel()
        self.cancelled.set()


def supervise(spark: FakeSpark, ends: Ends) -> Supervisor:
    return Supervisor(
        cast("Spark", spark),
        agent=run_agent,
        mode=TaskMode.INDEPENDENT,
        study="digits",
        tag="tag",
        start_timeout_s=PATIENCE_S,
        ended=ends,
    )


def test_launch_that_comes_while_the_others_are_ended_starts_no_job_and_is_told(tmp_path: Path) -> None:
    spark, ends, config = FakeSpark(), Ends(), config_for(tmp_path)
    supervisor = supervise(spark, ends)
    spark.on_cancel = lambda: supervisor.launch((WorkerId(1), 2), config)
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config)
    supervisor.stop(0.0)
    assert sorted([ends.next(), ends.next()]) == [(0, 1, "its job was cancelled"), (1, 2, TOO_LATE)]


def test_a_job_that_was_submitted_before_gets_the_first_launch_and_the_next_one_a_job_of_its_own(
    tmp_path: Path,
) -> None:
    spark, ends, config = FakeSpark(), Ends(), config_for(tmp_path)
    supervisor = supervise(spark, ends)
    supervisor.start()
    supervisor.warm_up(1)
    spare = spark.tasks.get(timeout=PATIENCE_S)
    supervisor.launch((WorkerId(0), 3), config)
    assert ends.next() == (0, 3, repr(config))
    supervisor.launch((WorkerId(1), 1), config)
    assert spark.tasks.get(timeout=PATIENCE_S).func is not spare.func
    supervisor.stop(0.0)
    assert ends.next() == (1, 1, "its job was cancelled")


def test_a_job_that_no_launch_needed_ends_by_itself_and_nobody_is_told(tmp_path: Path) -> None:
    spark, ends = FakeSpark(), Ends()
    supervisor = supervise(spark, ends)
    supervisor.start()
    supervisor.warm_up(2)
    folder = Path(spark.tasks.get(timeout=PATIENCE_S).args[1]).parent
    assert folder.stat().st_mode & 0o077 == 0, "another user could ask for the keys of the run"
    supervisor.stop(0.0)
    assert not spark.cancelled.is_set()
    assert not folder.exists()
    assert ends.is_empty


def test_a_job_that_failed_before_its_launch_is_replaced_by_one_of_the_launch_itself(tmp_path: Path) -> None:
    spark, ends, config = FakeSpark(), Ends(), config_for(tmp_path)
    spark.is_broken = True
    supervisor = supervise(spark, ends)
    supervisor.start()
    supervisor.warm_up(1)
    spark.threads.get(timeout=PATIENCE_S).join()
    supervisor.launch((WorkerId(0), 1), config)
    spark.cancelled.set()
    assert ends.next() == (0, 1, "its job was cancelled")
    supervisor.stop(0.0)
