"""The supervisor by itself, over a Spark that does what it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, run_agent
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.supervisor import Supervisor
from asyncsearch.launch.spark.task import TaskMode
from tests.launch.tools import PATIENCE_S, Ends, config_for


class FakeSpark:
    """Its jobs run until one is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.on_cancel: Callable[[], None] = lambda: None

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def run(self, *what: Any, **how: Any) -> list[str]:
        assert self.cancelled.wait(PATIENCE_S)
        return ["its job was cancelled"]

    def cancel(self, tag: str) -> None:
        self.on_cancel()
        self.cancelled.set()


def test_launch_that_comes_while_the_others_are_ended_starts_no_job_and_is_told(tmp_path: Path) -> None:
    spark, ends, config = FakeSpark(), Ends(), config_for(tmp_path)
    supervisor = Supervisor(
        cast("Spark", spark),
        agent=run_agent,
        mode=TaskMode.PLAIN,
        study="digits",
        tag="tag",
        start_timeout_s=PATIENCE_S,
        ended=ends,
    )
    spark.on_cancel = lambda: supervisor.launch((WorkerId(1), 2), config)
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config)
    supervisor.stop(0.0)
    assert sorted([ends.next(), ends.next()]) == [(0, 1, "its job was cancelled"), (1, 2, TOO_LATE)]
