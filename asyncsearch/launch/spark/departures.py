"""Executors that Spark decommissions: they get no new tasks, and end after those that run, as a worker does for hours.

So a machine is announced that an administrator takes away, or a cloud that wants its spot instance back. A worker
there is ended at once: its trial goes on elsewhere from its last checkpoint, and the machine need not wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SETTING = "spark.decommission.enabled"
LOOK_EVERY_S = 2.0
LEAVES = "its executor was decommissioned"


def is_leaving(context: Any, tag: str) -> bool:
    """Return whether a task of the jobs with a tag runs on an executor that is being decommissioned.

    Args:
        context: the ``SparkContext``, asked over the calling thread's connection.
        tag: that of one launch.
    """
    scheduler = context._jsc.sc().taskScheduler()
    try:
        return any(scheduler.getExecutorDecommissionState(name).isDefined() for name in _executors(context, tag))
    except Exception:  # an internal name of Spark has changed, a job has just ended, or Spark is gone
        return False


def _executors(context: Any, tag: str) -> Iterator[str]:
    """Yield the executors on which tasks of the jobs with a tag run."""
    tracker, scala = context.statusTracker(), context._jsc.sc()
    for job in tracker.getActiveJobsIds():
        if not scala.statusStore().job(job).jobTags().contains(tag):
            continue
        for stage in tracker.getJobInfo(job).stageIds:
            tasks = scala.taskScheduler().taskSetManagerForAttempt(stage, 0)
            infos = tasks.get().taskInfos().valuesIterator() if tasks.isDefined() else None
            while infos is not None and infos.hasNext():
                info = infos.next()
                if info.running():
                    yield str(info.executorId())
