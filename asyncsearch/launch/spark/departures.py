"""Executors that Spark decommissions: they get no new tasks, and end after those that run, as a worker does for hours.

So a machine is announced that an administrator takes away, or a cloud that wants its spot instance back. A worker
there is ended at once: its trial goes on elsewhere from its last checkpoint, and the machine need not wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Set
from typing import Any

from asyncsearch.launch.spark import job_tasks

SETTING = "spark.decommission.enabled"
LOOK_EVERY_S = 2.0
LEAVES = "its executor was decommissioned"


def leaving(context: Any) -> Set[str]:
    """Return the tags of all jobs with a task on an executor that is being decommissioned; empty: Spark cannot tell.

    One look for all: some calls of the JVM an executor, and some a job only while an executor leaves.

    Args:
        context: the ``SparkContext``, asked over the calling thread's connection.
    """
    with contextlib.suppress(
        Exception
    ):  # an internal name of Spark has changed, a job has just ended, or Spark is gone
        scala = context._jsc.sc()
        if executors := _leaving_executors(scala):
            return _tags_on(context, executors)
    return frozenset()


def _leaving_executors(scala: Any) -> Set[str]:
    scheduler = scala.taskScheduler()
    names = [name for name in str(scala.getExecutorIds().mkString(",")).split(",") if name]
    return {name for name in names if scheduler.getExecutorDecommissionState(name).isDefined()}


def _tags_on(context: Any, executors: Set[str]) -> Set[str]:
    found: set[str] = set()
    for tags, tasks in job_tasks.active(context):
        if not executors.isdisjoint(job_tasks.executors_of(tasks)):
            found |= tags
    return found
