"""The running tasks of Spark's jobs, as its scheduler knows them: the status store learns of tasks by heartbeats only.

Rule: one look goes once over all jobs. A look for each worker over the jobs of all is W * W calls of the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any


def active(context: Any) -> Iterator[tuple[Set[str], Any]]:
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


def executors_of(tasks: Any) -> Iterator[str]:
    """Yield the executors on which tasks of a ``TaskSetManager`` run."""
    infos = tasks.taskInfos().valuesIterator()
    while infos.hasNext():
        info = infos.next()
        if info.running():
            yield str(info.executorId())


def _words(found: Any) -> Set[str]:
    """Return the texts of a collection of Scala by one call; tags and numbers of stages hold no commas."""
    return {word for word in str(found.mkString(",")).split(",") if word}
