"""Spark jobs that last until they are cancelled, and what is done once they run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

_PATIENCE_S = 300.0


def long_job(session: Any) -> None:
    """Run a job of many tasks, without Python on the executors."""
    session.range(0, 900, 1, 900).selectExpr("java_method('java.lang.Thread', 'sleep', 500L) AS slept").collect()


def jobs_with_tasks(context: Any) -> int:
    """Return how many jobs that go on have had tasks: in turn, the second would wait for the end of the first."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = [[tracker.getStageInfo(stage) for stage in job.stageIds] for job in jobs if job is not None]
    return sum(any(stage is not None and stage.numCompletedTasks > 0 for stage in one) for one in stages)


def press_ctrl_c_when(condition: Callable[[], object]) -> list[str]:
    """Interrupt the calling thread, the main one, once a condition holds, and return what goes wrong there."""
    failures: list[str] = []
    main = threading.get_ident()

    def watch() -> None:
        deadline = time.monotonic() + _PATIENCE_S
        try:
            while not condition():
                assert time.monotonic() < deadline, "it never came to that"
                time.sleep(0.02)
        except Exception as error:
            failures.append(repr(error))
        signal.pthread_kill(main, signal.SIGINT)  # that thread itself: it may wait in a system call

    threading.Thread(target=watch, daemon=True).start()
    return failures
