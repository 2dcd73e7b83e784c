"""Supervises the Spark jobs of one run. Each launch is its own job, so a lost executor costs only its own workers.

Rule: the supervisor's thread owns all state of the jobs. It sleeps until a task arrives in its queue or becomes due.
Each job has a thread that waits for it in ``collect``; these, and the driver's threads, only put into the queue.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.launch.base_launcher import SILENT_FOR_S, TOO_LATE, AgentFunction, LaunchKey, OnWorkerEnded
from asyncsearch.launch.machine import patiently
from asyncsearch.launch.spark import job_ends
from asyncsearch.launch.spark.base_session import WAIT_LOGGED_AFTER_S, AnySpark
from asyncsearch.launch.spark.broadcast import SharedPart
from asyncsearch.launch.spark.slots import LOOK_EVERY_S, REPLACED_AFTER_S, SlotWatch
from asyncsearch.launch.spark.task import (
    CANCEL_AGAIN_S,
    CANCELLED_WITHIN_S,
    NO_CONFIG,
    SpareTask,
    TaskMode,
    run_one,
    task,
)

_log = logging.getLogger(__name__)


class _Job:
    """The supervisor's state of one launch. Times are monotonic seconds."""

    def __init__(self, key: LaunchKey, tag: str, spare: SpareTask | None) -> None:
        self.key = key
        self.spare = spare
        """The task that waits for it already; None if its task is yet to be begun."""
        self.name = f"{worker_name(key[0])} epoch {key[1]}"
        self.tag = tag
        self.launched_at = time.monotonic()
        self.due: float | None = self.launched_at + WAIT_LOGGED_AFTER_S
        """When to check it again; None for never."""
        self.reason: str | None = None
        """Reason of its cancellation; None if it is not cancelled."""
        self.is_reported = False
        """Whether its end was reported, which it may be before the job's own: Spark may not answer any more."""
        self.has_attached = False
        """Whether the driver hears its worker, and notices its loss."""
        self.is_cancelled = threading.Event()


class Supervisor:
    """Public methods may be called from any thread."""

    def __init__(
        self,
        spark: AnySpark,
        *,
        agent: AgentFunction,
        mode: TaskMode,
        study: str,
        tag: str,
        start_timeout_s: float,
        ended: OnWorkerEnded,
        spares: dict[WorkerId, SpareTask],
    ) -> None:
        """Prepare; see ``SparkLauncher``.

        Args:
            spares: tasks that were begun already; those that a launch takes are removed.
        """
        self._spark = spark
        self._agent = agent
        self._mode = mode
        self._study = study
        self._tag = tag
        self._ended = ended
        self._spares = spares
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        """Tasks of the supervisor's thread."""
        self._stopped = threading.Event()
        self.has_submitted = threading.Event()
        """Set once the first job was given to Spark, or could not be."""
        self._reporting = threading.Lock()
        self._jobs: dict[LaunchKey, _Job] = {}
        self._shared = SharedPart(spark)
        self._slots = SlotWatch(
            spark.running,
            start_timeout_s,
            brings_executors=spark.has_dynamic_allocation,
            tells_slots=spark.tells_slots,
        )
        self._stop_at: float | None = None
        """When to cancel the jobs that still run; None if not stopping."""
        self._give_up_at: float | None = None
        """When to stop waiting for the jobs; None for never."""
        self._silent_since: float | None = None
        """When Spark was first found not to answer; None if it did at the last look."""

    def start(self) -> None:
        """Start the thread. Jobs have the scheduler pool and job group of the thread that joined the session."""
        self._spark.thread(self._supervise, "asyncsearch-spark").start()
        if self._spark.tells_departures:
            self._spark.thread(self._watch_departures, "asyncsearch-departures").start()

    def launch(self, key: LaunchKey, config: WorkerConfig) -> None:
        if self._stopped.is_set():
            self._ended(*key, TOO_LATE)
            return
        self._inbox.put(lambda: self._start_job(key, config))

    def attached(self, key: LaunchKey) -> None:
        self._inbox.put(lambda: self._note_attached(key))

    def kill(self, key: LaunchKey) -> None:
        self._inbox.put(lambda: self._kill(key))

    def stop(self, grace_s: float) -> None:
        """Wait for the ends of all jobs, and cancel the jobs that do not end in time."""
        stop_at = time.monotonic() + grace_s
        self._inbox.put(lambda: self._begin_to_stop(stop_at))
        # Not Thread.join, which an interrupt breaks permanently before Python 3.13.
        self._stopped.wait()

    def _watch_departures(self) -> None:
        """Look, one look after the other, in a thread of its own: a kill does not wait for a look."""
        while not self._stopped.wait(job_ends.DECOMMISSION_LOOK_S):
            if reasons := self._spark.departures():
                self._inbox.put(functools.partial(self._end_departing, reasons))

    # Methods of the supervisor's thread.

    def _supervise(self) -> None:
        try:
            while not self._is_over():
                do = self._next()
                try:
                    do()
                except Exception as error:
                    is_bug = type(error).__module__.partition(".")[0] not in ("grpc", "py4j", "pyspark")
                    _log.warning(
                        "Spark could not be asked about a worker: %s.", job_ends.reason_of(error), exc_info=is_bug
                    )
        finally:
            self._shared.destroy()
            self._stopped.set()

    def _is_over(self) -> bool:
        if self._give_up_at is None:
            return False
        return not self._jobs or time.monotonic() >= self._give_up_at

    def _next(self) -> Callable[[], object]:
        """Wait for the next task."""
        dues = [job.due for job in self._jobs.values()] + [self._stop_at, self._give_up_at]
        due = min((due for due in dues if due is not None), default=None)
        try:
            return self._inbox.get(timeout=None if due is None else max(0.0, due - time.monotonic()))
        except queue.Empty:
            return self._do_what_is_due

    def _kill(self, key: LaunchKey) -> None:
        if key in self._jobs:
            self._cancel(self._jobs[key], "it was ended by the driver")

    def _note_attached(self, key: LaunchKey) -> None:
        if job := self._jobs.get(key):
            job.has_attached = True
            self._slots.holds(job.tag)

    def _begin_to_stop(self, stop_at: float) -> None:
        self._stop_at, self._give_up_at = stop_at, stop_at + CANCELLED_WITHIN_S

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        if self._stop_at is not None and now >= self._stop_at:
            self._stop_at = None
            for job in self._jobs.values():
                self._cancel(job, "it did not end in time")
        due = [job for job in self._jobs.values() if job.due is not None and now >= job.due]
        waiting = [job for job in due if job.reason is None]
        later = self._slots.refresh([job.tag for job in waiting], now)
        trouble = self._trouble(now) if due else ""
        for job in due:
            if job.reason is not None:
                self._cancel(job, job.reason)
                if trouble:  # Spark cannot tell its end
                    self._notify(job, f"{job.reason}, and {trouble}")
            elif later is not None:
                job.due = later
            else:
                self._look_for_slot(job, now, trouble)

    def _trouble(self, now: float) -> str:
        trouble = self._spark.trouble()
        if trouble and self._silent_since is None:
            self._silent_since = now
            _log.warning("Launches of workers wait up to %.0f s: %s.", SILENT_FOR_S, trouble)
        elif not trouble:
            self._silent_since = None
        return trouble

    def _look_for_slot(self, job: _Job, now: float, trouble: str) -> None:
        others = [other.tag for other in self._jobs.values() if other is not job and other.reason is None]
        wait = self._slots.look(job.tag, job.name, now - job.launched_at, others)
        if wait is None and job.has_attached:
            job.due = None
        elif trouble and now < (self._silent_since or now) + SILENT_FOR_S:
            job.due = now + CANCEL_AGAIN_S
        elif trouble:
            # Those whose task had just begun, too: Spark does not tell their end, and no lease of theirs runs out.
            for lost in [each for each in self._jobs.values() if each.reason is None and self._spark.is_gone] or [job]:
                self._cancel(lost, trouble)
                self._notify(lost, trouble)
        elif wait is None:
            job.due = now + LOOK_EVERY_S  # a network that drops everything leaves nobody to tell its end
        elif wait.reason:
            self._cancel(job, wait.reason)
        else:
            job.due = job.launched_at + wait.next_s
            if wait.sentence:
                _log.warning("%s", wait.sentence)

    def _end_departing(self, reasons: Mapping[str, str]) -> None:
        for job in self._jobs.values():
            if job.reason is None and job.tag in reasons:
                self._cancel(job, reasons[job.tag])

    def _cancel(self, job: _Job, reason: str) -> None:
        job.reason = job.reason or reason
        job.is_cancelled.set()
        job.due = time.monotonic() + CANCEL_AGAIN_S
        self._spark.cancel(job.tag)

    def _start_job(self, key: LaunchKey, config: WorkerConfig) -> None:
        if self._give_up_at is not None:
            self._ended(*key, TOO_LATE)
            return
        spare = self._spares.pop(key[0], None)
        tag = f"{self._tag}-{worker_name(key[0])}.{key[1]}" if spare is None else spare.tag
        job = self._jobs[key] = _Job(key, tag, spare)
        if self._slots.began(key[0], job.tag):
            job.due = job.launched_at + REPLACED_AFTER_S
        if self._trouble(job.launched_at):
            job.due = job.launched_at  # what took its worker may be the end of Spark's server
        try:
            self._spark.thread(lambda: self._run(job, config), f"asyncsearch-{job.name}").start()
        except Exception as error:
            self._notify(job, f"its job could not be started: {job_ends.reason_of(error)}")

    # Methods of a job's thread; the supervisor's calls ``_notify`` too.

    def _run(self, job: _Job, config: WorkerConfig) -> None:
        try:
            reason = patiently(lambda: self._submit(job, config), job.is_cancelled.wait, job.name)
        except Exception as error:
            reason = job.reason or job_ends.reason_of(error)
        self._notify(job, reason)

    def _submit(self, job: _Job, config: WorkerConfig) -> str:
        """Run the job to its end, and return the result of its agent."""
        spare, job.spare = job.spare, None
        if spare is not None:
            self.has_submitted.set()
            reason = spare.serve(config)
            if reason != NO_CONFIG:
                return reason
        carried = self._shared.without(config)
        return run_one(
            self._spark,
            functools.partial(task, self._agent, carried),
            self._mode,
            tags=(self._tag, job.tag),
            description=f"asyncsearch: {self._study} {job.name}",
            places=[self._spark.emptiest()],
            prepared=self.has_submitted.set,
        )

    def _notify(self, job: _Job, reason: str) -> None:
        self.has_submitted.set()
        with self._reporting:
            if job.is_reported:
                return
            job.is_reported = True
        try:
            self._ended(*job.key, reason)
        finally:
            self._inbox.put(lambda: self._jobs.pop(job.key))
