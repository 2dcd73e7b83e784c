"""Why the Spark job of a worker ends: in words for people, and since Spark takes its executor away.

Executors that Spark decommissions get no new tasks, and end after those that run, as a worker does for hours. So a
machine is announced that an administrator takes away, or a cloud that wants its spot instance back. A worker there is
ended at once: its trial goes on elsewhere from its last checkpoint, and the machine need not wait.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Set
from typing import Any

_EXECUTOR_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) exited[^)]*\)(?: Reason: (.*))?")
_TRACEBACK_LINE = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)
_JVM_GONE = ("SparkContext was shut down", "Py4JNetworkError", "Answer from Java side is empty", "Connection refused")
_CANCELLED = ("SPARK_JOB_CANCELLED", "cancelled part of cancelled", "cancelled as part of")
_CRASHED = ("Python worker exited unexpectedly", "Python worker failed to connect back")
_KNOWN = (
    (_JVM_GONE, "Spark's driver is gone: the session was stopped, or its Java process ended"),
    (_CANCELLED, "its Spark job was cancelled"),
    (("SPARK-24942", "BarrierJobRunWithDynamicAllocation"), "dynamic allocation does not allow barrier tasks"),
    (("SPARK-24819", "BarrierJobSlotsNumberCheckFailed"), "the cluster no longer has a task slot"),
    (_CRASHED, "its Python worker process crashed or was killed"),
)


def reason_of(error: BaseException) -> str:
    """Return the reason why the job of a worker failed, in one readable line."""
    text = full_text(error)
    lost = _EXECUTOR_LOST.search(text)
    if lost:
        return f"its executor {lost[1]} was lost: {_of_executor(lost[2] or 'Spark does not say why')}"
    if "Traceback (most recent call last)" in text:
        last = last_line_of_traceback(text)
        if last:
            return f"its task failed: {last}"
    for signs, words in _KNOWN:
        if any(sign in text for sign in signs):
            return words
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return f"its Spark job failed: {first}"


def full_text(error: BaseException) -> str:
    """Return the full message of an exception of py4j or pyspark."""
    java = getattr(error, "java_exception", None)
    return f"{type(error).__name__}: {error}" if java is None else str(java.getMessage())


def last_line_of_traceback(text: str) -> str:
    """Return the line of a Python traceback that names the exception, empty if there is none."""
    python = text[text.index("Traceback (most recent call last)") :] if "Traceback (most" in text else text
    lines = python.split("\n\tat ", 1)[0].split(" SQLSTATE:", 1)[0]
    found = _TRACEBACK_LINE.findall(lines)
    return found[-1].strip() if found else ""


def _of_executor(reason: str) -> str:
    reason = reason.strip().rstrip(".")
    if "137" in reason:
        return f"{reason} (killed; often because memory ran out, see spark.executor.memoryOverhead)"
    return reason


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
