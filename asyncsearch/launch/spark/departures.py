"""Executors that Spark decommissions: they get no new tasks, and end after those that run, as a worker does for hours.

So a machine is announced that an administrator takes away, or a cloud that wants its spot instance back. A worker
there is ended at once: its trial goes on elsewhere from its last checkpoint, and the machine need not wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Set
from typing import Any

SETTING = "spark.decommission.enabled"
LOOK_EVERY_S = 2.0
LEAVES = "its executor was decommissioned"


def leaving(context: Any) -> Set[str]:
    """Return the tags of all jobs with a task on an executor that is being decommissioned; none if Spark cannot tell.

    One look for all: some calls of the JVM an executor, and some a job only while an executor leaves. A look for each
    worker over the jobs of all would be W * W calls. The scheduler is asked: the status store learns of tasks late, by
    heartbeats.

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
    for tags, tasks in active_tasks(context):
        if not executors.isdisjoint(_executors_of(tasks)):
            found |= tags
    return found


def active_tasks(context: Any) -> Iterator[tuple[Set[str], Any]]:
    """Yield, for each stage of each active job with tags, these tags and the scheduler's ``TaskSetManager``.

    Args:
        context: the ``SparkContext``, asked over the calling thread's connection.
    """
    scala = context._jsc.sc()
    jobs, scheduler = scala.statusStore(), scala.taskScheduler()
    for number in context.statusTracker().getActiveJobsIds():
        job = jobs.job(number)
        if not (tags := _words(job.jobTags())):
            continue
        for stage in _words(job.stageIds()):
            tasks = scheduler.taskSetManagerForAttempt(int(stage), 0)
            if tasks.isDefined():
                yield tags, tasks.get()


def _executors_of(tasks: Any) -> Iterator[str]:
    """Yield the executors on which tasks of a ``TaskSetManager`` run."""
    infos = tasks.taskInfos().valuesIterator()
    while infos.hasNext():
        info = infos.next()
        if info.running():
            yield str(info.executorId())


def _words(found: Any) -> Set[str]:
    """Return the texts of a collection of Scala by one call; tags and numbers of stages hold no commas."""
    return {word for word in str(found.mkString(",")).split(",") if word}
