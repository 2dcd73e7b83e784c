"""Supervises the Spark jobs of one run. Each launch is its own job, so a lost executor costs only its own workers.

A job takes a while to start, so that some are submitted before the launches that they serve are known (``warm_up``).

Rule: the supervisor's thread owns all state of the jobs. It sleeps until a task arrives in its queue or becomes due.
Each job has a thread that waits for it in ``collect``; these, and the driver's threads, only put into the queue.
"""

from __future__ import annotations

import logging
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import cloudpickle

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.launch.base_launcher import TOO_LATE, AgentFunction, OnWorkerEnded
from asyncsearch.launch.scarcity import patiently
from asyncsearch.launch.spark.failure_reasons import reason_of
from asyncsearch.launch.spark.handover import Handover
from asyncsearch.launch.spark.session import WAIT_LOGGED_AFTER_S, Spark
from asyncsearch.launch.spark.task import NOT_NEEDED, SparkTask, TaskMode, spare_task, task

_log = logging.getLogger(__name__)

_CANCEL_AGAIN_S = 2.0
"""Interval of repeated cancellations: Spark ignores one that arrives before its job is submitted."""
_CANCELLED_WITHIN_S = 30.0
"""Time that ``stop`` waits for jobs that it cancelled."""

LaunchKey = tuple[WorkerId, int]
"""One launch: a worker and an epoch."""


class _Job:
    """The supervisor's state of one job. Times are monotonic seconds."""

    def __init__(self, tag: str, key: LaunchKey | None = None, handover: Handover | None = None) -> None:
        self.key = key
        """The launch that it serves; None: none yet."""
        self.tag = tag
        self.handover = handover
        """Gives its task the configuration; None: the task has it."""
        self.launched_at = time.monotonic()
        self.due: float | None = None
        """When to check it again; None: never."""
        self.reason: str | None = None
        """Reason of its cancellation; None: not cancelled."""
        self.is_cancelled = threading.Event()
        self._lock = threading.Lock()
        self._has_ended = False
        if key is not None:
            self._await_slot()

    @property
    def name(self) -> str:
        return "a spare worker" if self.key is None else f"{worker_name(self.key[0])} epoch {self.key[1]}"

    def claim(self, key: LaunchKey) -> bool:
        """Make it serve a launch; return False if it has ended, which nobody would be told of any more."""
        with self._lock:
            if not self._has_ended:
                self.key = key
                self._await_slot()
            return not self._has_ended

    def end(self) -> LaunchKey | None:
        """Note its end, and return the launch that it served."""
        with self._lock:
            self._has_ended = True
            return self.key

    def _await_slot(self) -> None:
        self.launched_at = time.monotonic()
        self.due = self.launched_at + WAIT_LOGGED_AFTER_S


class Supervisor:
    """Public methods may be called from any thread."""

    def __init__(
        self,
        spark: Spark,
        *,
        agent: AgentFunction,
        mode: TaskMode,
        study: str,
        tag: str,
        start_timeout_s: float,
        ended: OnWorkerEnded,
    ) -> None:
        """Prepare; see ``SparkLauncher``."""
        self._spark = spark
        self._agent = agent
        self._mode = mode
        self._study = study
        self._tag = tag
        self._start_timeout_s = start_timeout_s
        self._ended = ended
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        """Tasks of the supervisor's thread."""
        self._stopped = threading.Event()
        self._jobs: dict[LaunchKey, _Job] = {}
        self._spares: list[_Job] = []
        """Jobs that were submitted before a launch needed them."""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        """Holds the sockets of these."""
        self._stop_at: float | None = None
        """When to cancel the jobs that still run; None: not stopping."""
        self._give_up_at: float | None = None
        """When to stop waiting for the jobs; None: never."""

    def start(self) -> None:
        """Start the thread. Jobs have the scheduler pool and job group of the thread that joined the session."""
        self._spark.thread(self._supervise, "asyncsearch-spark").start()

    @property
    def is_stopped(self) -> bool:
        """Whether it has ended all jobs, for good."""
        return self._stopped.is_set()

    def warm_up(self, jobs: int) -> None:
        """Submit jobs for the launches to come. Their tasks run on this machine."""
        self._inbox.put(lambda: self._start_spares(jobs))

    def launch(self, key: LaunchKey, config: WorkerConfig) -> None:
        if self._stopped.is_set():
            self._ended(*key, TOO_LATE)
            return
        self._inbox.put(lambda: self._start_job(key, config))

    def kill(self, key: LaunchKey) -> None:
        self._inbox.put(lambda: self._kill(key))

    def stop(self, grace_s: float) -> None:
        """Wait for the ends of all jobs, and cancel the jobs that do not end in time."""
        stop_at = time.monotonic() + grace_s
        self._inbox.put(lambda: self._begin_to_stop(stop_at))
        # Not Thread.join, which an interrupt breaks permanently before Python 3.13.
        self._stopped.wait()

    # Methods of the supervisor's thread.

    def _supervise(self) -> None:
        try:
            while not self._is_over():
                do = self._next()
                try:
                    do()
                except Exception:
                    _log.warning("Spark could not be asked about a worker.", exc_info=True)
        finally:
            if self._folder is not None:
                self._folder.cleanup()
            self._stopped.set()

    def _is_over(self) -> bool:
        if self._give_up_at is None:
            return False
        return not (self._jobs or self._spares) or time.monotonic() >= self._give_up_at

    def _next(self) -> Callable[[], object]:
        """Wait for the next task."""
        dues = [job.due for job in self._all_jobs()] + [self._stop_at, self._give_up_at]
        due = min((due for due in dues if due is not None), default=None)
        try:
            return self._inbox.get(timeout=None if due is None else max(0.0, due - time.monotonic()))
        except queue.Empty:
            return self._do_what_is_due

    def _kill(self, key: LaunchKey) -> None:
        if key in self._jobs:
            self._cancel(self._jobs[key], "it was ended by the driver")

    def _begin_to_stop(self, stop_at: float) -> None:
        self._stop_at, self._give_up_at = stop_at, stop_at + _CANCELLED_WITHIN_S
        for job in self._spares:
            # Its task ends by itself sooner than Spark cancels it.
            job.reason, job.due = NOT_NEEDED, time.monotonic() + _CANCEL_AGAIN_S
            if job.handover is not None:
                job.handover.give(b"")

    def _all_jobs(self) -> list[_Job]:
        return [*self._jobs.values(), *self._spares]

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        if self._stop_at is not None and now >= self._stop_at:
            self._stop_at = None
            for job in self._jobs.values():
                self._cancel(job, "it did not end in time")
        for job in self._all_jobs():
            if job.due is None or now < job.due:
                continue
            if job.reason is not None:
                self._cancel(job, job.reason)
            else:
                self._look_for_slot(job, now)

    def _look_for_slot(self, job: _Job, now: float) -> None:
        if self._spark.is_running(job.tag):
            job.due = None
        elif now >= job.launched_at + self._start_timeout_s:
            self._cancel(job, f"it found no free task slot within {self._start_timeout_s:.0f} s")
        else:
            _log.warning("%s waits for a free task slot: other jobs hold them, or executors are missing.", job.name)
            job.due = job.launched_at + self._start_timeout_s

    def _cancel(self, job: _Job, reason: str) -> None:
        job.reason = job.reason or reason
        job.is_cancelled.set()
        job.due = time.monotonic() + _CANCEL_AGAIN_S
        self._spark.cancel(job.tag)

    def _start_spares(self, jobs: int) -> None:
        if self._give_up_at is not None:
            return
        try:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="asyncsearch-")
            for number in range(jobs):
                handover = Handover(Path(self._folder.name))
                job = _Job(f"{self._tag}-spare.{number}", handover=handover)
                self._spares.append(job)
                self._start_thread(job, spare_task(self._agent, handover.path))
        except OSError as error:  # its launch submits a job of its own
            _log.debug("No job is submitted before its launch: %s", error)

    def _start_job(self, key: LaunchKey, config: WorkerConfig) -> None:
        if self._give_up_at is not None:
            self._ended(*key, TOO_LATE)
            return
        while self._spares:
            job = self._spares.pop(0)
            if job.claim(key):
                self._jobs[key] = job
                assert job.handover is not None
                job.handover.give(cloudpickle.dumps(config))
                return
        job = self._jobs[key] = _Job(f"{self._tag}-{worker_name(key[0])}.{key[1]}", key)
        self._start_thread(job, task(self._agent, config, self._mode))

    def _start_thread(self, job: _Job, what: SparkTask) -> None:
        try:
            self._spark.thread(lambda: self._run(job, what), f"asyncsearch-{job.name}").start()
        except Exception as error:
            self._notify(job, f"its job could not be started: {reason_of(error)}")

    def _forget(self, job: _Job) -> None:
        if job.handover is not None:
            job.handover.close()
        if job in self._spares:
            self._spares.remove(job)
        if job.key is not None:
            self._jobs.pop(job.key)

    # Methods of a job's thread.

    def _run(self, job: _Job, what: SparkTask) -> None:
        try:
            reason = patiently(lambda: self._submit(job, what), job.is_cancelled.wait, job.name)
        except Exception as error:
            reason = job.reason or reason_of(error)
        self._notify(job, reason)

    def _submit(self, job: _Job, what: SparkTask) -> str:
        """Run the job to its end, and return what its agent returned."""
        return self._spark.run(
            what,
            1,
            tags=(self._tag, job.tag),
            description=f"asyncsearch: {self._study} {job.name}",
            is_barrier=self._mode is TaskMode.INDEPENDENT,
        )[0]

    def _notify(self, job: _Job, reason: str) -> None:
        key = job.end()
        try:
            if key is not None:
                self._ended(*key, reason)
        finally:
            self._inbox.put(lambda: self._forget(job))
