"""Why the Spark job of a worker ends: in words for people, and since Spark takes its executor away.

Executors that Spark decommissions get no new tasks, and end after those that run, as a worker does for hours. So a
machine is announced that an administrator takes away, or a cloud that wants its spot instance back. A worker there is
ended at once: its trial goes on elsewhere from its last checkpoint, and the machine need not wait.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

_EXECUTOR_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) exited[^)]*\)(?: Reason:\s*(.*))?")
_TRACEBACK_LINE = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)
_OWN_ERROR = re.compile(r"^asyncsearch\.errors\.\w+: ")
"""Begin of an error of this package, whose message is a sentence for users."""
_JVM_GONE = ("SparkContext was shut down", "Py4JNetworkError", "Answer from Java side is empty", "Connection refused")
_SESSION_CLOSED = (
    *("SESSION_CLOSED", "SESSION_NOT_FOUND", "SESSION_CHANGED", "NO_ACTIVE_SESSION"),
    *("on closed channel", "Channel closed"),
)
_SESSION_LOST = ("INVALID_HANDLE.SESSION_", "incorrect server side session identifier")
_SERVER_GONE = ("StatusCode.UNAVAILABLE", "RETRIES_EXCEEDED")
_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED", "cancelled part of cancelled", "cancelled as part of")
_CRASHED = ("Python worker exited unexpectedly", "Python worker failed to connect back")
_BARRIER_REFUSED = ("SPARK-24942", "BarrierJobRunWithDynamicAllocation")
_KNOWN = (
    (_SESSION_CLOSED, "the Spark Connect session was closed, by its server or here"),
    (_SERVER_GONE, "the Spark Connect server does not answer"),
    (_JVM_GONE, "Spark's driver is gone: the session was stopped, or its Java process ended"),
    (_CANCELLED, "its Spark job was cancelled"),
    (_BARRIER_REFUSED, "dynamic allocation does not allow barrier tasks"),
    (("SPARK-24819", "BarrierJobSlotsNumberCheckFailed"), "the cluster no longer has a task slot"),
    (_CRASHED, "its Python worker process crashed or was killed"),
)


def is_closed_session(error: BaseException) -> bool:
    """Return whether a query failed because the server has no longer its session of Spark Connect.

    Of a server that has started anew Spark's client says only that there is no session, as of one that was stopped
    here, so its cause is looked at.
    """
    is_one = any(sign in full_text(error) for sign in _SESSION_LOST)
    return is_one or (error.__context__ is not None and is_closed_session(error.__context__))


def refuses_barriers(error: BaseException) -> bool:
    """Return whether a job failed because the cluster, with dynamic allocation, has no barrier stages."""
    text = full_text(error)
    return any(sign in text for sign in _BARRIER_REFUSED)


def reason_of(error: BaseException) -> str:
    """Return the reason why the job of a worker failed, in one readable line."""
    text = full_text(error)
    lost = _EXECUTOR_LOST.search(text)
    if lost:
        return f"its executor {lost[1]} was lost: {_of_executor(lost[2] or 'Spark does not say why')}"
    if "Traceback (most recent call last)" in text:
        last = last_line_of_traceback(text)
        if last:
            return f"its task failed: {_OWN_ERROR.sub('', last)}"
    return _known(text) or f"its Spark job failed: {_first_line(text) or type(error).__name__}"


def query_failure(error: BaseException) -> str:
    """Return why the server of a session gave no answer, in one readable line without its full stop."""
    text = full_text(error)
    return _known(text) or _first_line(text).rstrip(".")


def _known(text: str) -> str:
    return next((words for signs, words in _KNOWN if any(sign in text for sign in signs)), "")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


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


_FOR_MEMORY = ("memory limits", "OOMKilled", "container OOM")
"""In the reasons that YARN and Kubernetes give for a container that took too much memory."""
_SPARKS_ADVICE = re.compile(r"\s*Consider boosting spark\.executor\.memoryOverhead\.?")


def _of_executor(reason: str) -> str:
    reason = _SPARKS_ADVICE.sub("", reason.strip()).rstrip(".")
    if any(sign in reason for sign in _FOR_MEMORY):
        return (
            f"its container was killed for memory ({reason}): raise spark.executor.memoryOverhead, which holds workers "
            "and trials, or run fewer of them an executor by spark.executor.cores"
        )
    if "137" in reason:
        return f"{reason} (killed; often because memory ran out, see spark.executor.memoryOverhead)"
    return reason


DECOMMISSION_SETTING = "spark.decommission.enabled"
DECOMMISSION_LOOK_S = 2.0
DECOMMISSIONED = "its executor was decommissioned"


TAG = "asyncsearch-"
"""Begin of the tags of all jobs of this package."""


class Departures:
    """The executors of one application that leave, or are lost to tasks that Spark runs again elsewhere."""

    def __init__(self, context: Any, places: TaskPlaces, *, decommissions: bool, reruns: bool) -> None:
        """Begin.

        Args:
            context: the ``SparkContext``, asked over the calling thread's connection.
            places: where the tasks are.
            decommissions: whether executors may be decommissioned.
            reruns: whether the loss of an executor does not end the jobs of its tasks.
        """
        self._context, self._places = context, places
        self._decommissions, self._reruns = decommissions, reruns

    def look(self) -> Mapping[str, str]:
        """Return the tags of workers' jobs whose executor leaves or is lost, and why; none if Spark cannot tell.

        One look for all: some calls of the JVM an executor, and some a job once, or only while an executor leaves. A
        look for each worker over the jobs of all would be W * W calls.
        """
        found: dict[str, str] = {}
        # An internal name of Spark has changed, a job has just ended, or Spark is gone.
        with contextlib.suppress(Exception):
            scala = self._context._jsc.sc()
            places = self._places.look() if self._reruns else []
            # After their tasks, whose executors have all been there.
            names = {name for name in str(scala.getExecutorIds().mkString(",")).split(",") if name}
            for place in places:
                # A cluster's own backend may name no executors: only who has given up the task knows that it is lost.
                if place.executor not in names and not place.task.running():
                    found |= dict.fromkeys(place.tags, f"its executor {place.executor} was lost")
            if leaving := self._decommissioned(scala, names):
                for place in places if self._reruns else self._places.look():
                    if place.executor in leaving:
                        found |= dict.fromkeys(place.tags, DECOMMISSIONED)
        return found

    def _decommissioned(self, scala: Any, names: Set[str]) -> Set[str]:
        if not self._decommissions:
            return set()
        scheduler = scala.taskScheduler()
        return {name for name in names if scheduler.getExecutorDecommissionState(name).isDefined()}


class _JobFacts(NamedTuple):
    """The facts about a job that never change."""

    tags: Set[str]
    """Empty for jobs of others, which may have thousands of tasks and are not looked into."""
    stages: Set[str] = frozenset()


class TaskPlace(NamedTuple):
    """Where the task of a worker's job runs, or ran until it was lost."""

    tags: Set[str]
    """Those of its job."""
    executor: str
    task: Any
    """Spark's ``TaskInfo``, which the scheduler keeps up to date."""


class TaskPlaces:
    """The executors of workers' tasks, asked for until each is known: a job of a worker has one task, which stays.

    The scheduler is asked: the status store learns of tasks late, by heartbeats. Any thread may call it.
    """

    def __init__(self, context: Any) -> None:
        """Begin; ``context`` is the ``SparkContext``, asked over the calling thread's connection."""
        self._context = context
        self._guard = threading.Lock()
        self._jobs: dict[int, _JobFacts] = {}
        self._places: dict[int, TaskPlace] = {}

    def look(self) -> list[TaskPlace]:
        """Return the place of each active job of a worker whose task had a slot."""
        with self._guard:
            active = list(self._context.statusTracker().getActiveJobsIds())
            self._jobs = {number: facts for number, facts in self._jobs.items() if number in active}
            self._places = {number: place for number, place in self._places.items() if number in active}
            scala = self._context._jsc.sc()
            self._learn([number for number in active if number not in self._places], scala)
            return list(self._places.values())

    def _learn(self, jobs: Iterable[int], scala: Any) -> None:
        scheduler = scala.taskScheduler()
        for number in jobs:
            if number not in self._jobs:
                self._jobs[number] = _facts_of(scala.statusStore().job(number))
            tags, stages = self._jobs[number]
            for stage in stages:
                tasks = scheduler.taskSetManagerForAttempt(int(stage), 0)
                if tasks.isDefined() and (task := _task_of(tasks.get())) is not None:
                    self._places[number] = TaskPlace(tags, str(task.executorId()), task)


def _facts_of(job: Any) -> _JobFacts:
    tags = {tag for tag in _words(job.jobTags()) if tag.startswith(TAG)}
    return _JobFacts(tags, _words(job.stageIds())) if tags else _JobFacts(tags)


def _task_of(tasks: Any) -> Any:
    """Return the ``TaskInfo`` of a ``TaskSetManager``: of the attempt that runs, or of one that was lost; else None."""
    infos, found = tasks.taskInfos().valuesIterator(), None
    while infos.hasNext():
        found = infos.next()
        if found.running():
            break
    return found


def _words(found: Any) -> Set[str]:
    """Return the texts of a collection of Scala by one call; tags and numbers of stages hold no commas."""
    return {word for word in str(found.mkString(",")).split(",") if word}
