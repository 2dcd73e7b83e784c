"""Spark jobs that last until they are cancelled, and what is done once they run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

_PATIENCE_S = 300.0


def long_job(session: Any) -> None:
    """Run a job of many short tasks, without Python on the executors."""
    session.range(0, 4000, 1, 4000).selectExpr("java_method('java.lang.Thread', 'sleep', 50L) AS slept").collect()


def jobs_with_tasks(context: Any) -> int:
    """Return how many jobs have a task that runs now."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = [[tracker.getStageInfo(stage) for stage in job.stageIds] for job in jobs if job is not None]
    return sum(any(stage is not None and stage.numActiveTasks > 0 for stage in one) for one in stages)


def when(condition: Callable[[], object], do: Callable[[], object]) -> list[str]:
    """Do something once a condition holds, in another thread, and return what goes wrong there."""
    failures: list[str] = []

    def watch() -> None:
        deadline = time.monotonic() + _PATIENCE_S
        try:
            while not condition():
                assert time.monotonic() < deadline, "it never came to that"
                time.sleep(0.02)
        except Exception as error:
            failures.append(repr(error))
        do()

    threading.Thread(target=watch, daemon=True).start()
    return failures
