"""Spark jobs that last until they are cancelled, what is done once they run, and a search that cancels one."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asyncsearch import MedianStopping, Study, TrialContext, WorkerOptions, choice
from asyncsearch.trial import TrialState

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


def search_with_a_verdict(session: Any, store: Path) -> None:
    """Search with two trials in threads: one of them is stopped while it waits for its job, the other one goes on."""
    has_good, unwound = threading.Event(), threading.Event()
    ends: list[str] = []

    def train(trial: TrialContext) -> None:
        for unit in trial.epochs(state={}):
            if trial.params["x"]:
                if unit == 2:  # its first report is decided by now
                    has_good.set()
                    assert unwound.wait(_PATIENCE_S)
                trial.report(value=float(session.range(unit).count()))
                continue
            assert has_good.wait(_PATIENCE_S)
            trial.report(value=0.0)  # the next unit would wait for its verdict, but this one has a job
            try:
                long_job(session)
                ends.append("it ended by itself")
            finally:
                unwound.set()

    space, stop = {"x": choice(0, 1)}, MedianStopping(max_resource=2, min_trials=1)
    patient = WorkerOptions(stop_grace=_PATIENCE_S)  # nothing but the end of its job ends the wait of a thread
    study = Study(
        train,
        space=space,
        searcher="grid",
        metric="value",
        mode="max",
        scheduler=stop,
        backend="threads",
        store=store,
        workers=patient,
    )
    study.run(parallelism=2, display="none")
    assert ends == []
    bad, good = sorted(study.trials, key=lambda trial: float(trial.params["x"]))
    assert (bad.state, bad.trained, bad.failures) == (TrialState.STOPPED, 1, 0)
    assert (good.state, good.value) == (TrialState.COMPLETED, 2.0)
