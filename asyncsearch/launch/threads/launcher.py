"""Workers as threads of the driver's process: ``backend="threads"``.

For functions that start Spark jobs, which only the driver can, and for those that wait: for a database, for a service.
Each worker is an agent in a thread of its own, which attaches to the driver as one on a cluster does.
"""

from __future__ import annotations

import logging
import threading
import time

from asyncsearch.agent.agent import Agent
from asyncsearch.agent.config import DriverStream, WorkerConfig
from asyncsearch.agent.runner_process import DescriptorSelector
from asyncsearch.errors import InternalError, UsageError
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.launch.base_launcher import SILENT_FOR_S, TOO_LATE, ConfigFor, Launcher, OnWorkerEnded, Preflight
from asyncsearch.launch.machine import cores
from asyncsearch.launch.threads.jobs import find_jobs
from asyncsearch.launch.threads.printed import close_outputs, open_outputs
from asyncsearch.launch.threads.thread_runner import ThreadRunner
from asyncsearch.launch.trial_jobs import TrialJobs

_log = logging.getLogger(__name__)

_ENDED_WITHIN_S = 20.0
"""Time that an agent has to end, besides what its study gives a trial's thread, and as much for its last jobs."""

_LOOK_S = 10.0


class ThreadLauncher(Launcher):
    """Starts each worker as a thread of this process."""

    name = "threads"

    def __init__(self) -> None:
        self._config_for: ConfigFor | None = None
        self._ended: OnWorkerEnded | None = None
        self._changed = threading.Condition()
        self._launches: dict[tuple[WorkerId, int], _Launch] = {}
        self._is_stopped = False
        self._over = threading.Event()
        self._grace_s = 0.0
        self._silence = ""
        """Why trials wait in vain for their cluster, once some did for too long; empty if it answers."""

    def workers_now(self) -> int:
        return cores()

    def check(self, parallelism: int | None) -> Preflight:
        wanted = cores() if parallelism is None else parallelism
        if wanted < 1:
            raise UsageError(f"parallelism={wanted} is too small: it counts trials that train at a time, from 1.")
        jobs = find_jobs()
        return Preflight(
            parallelism=wanted,
            cpu_threads=max(1, cores() // wanted),
            warnings=tuple(jobs.warnings) if wanted > 1 else (),
            place="threads of this process" + (f", with jobs on {jobs.place}" if jobs.place else ""),
        )

    def devices(self, per_worker: float) -> tuple[str, ...] | None:
        raise UsageError(
            f"devices_per_trial={per_worker:g} and backend='threads': all threads of a process see the same devices. "
            "Leave out devices_per_trial=, or write backend='processes'."
        )

    def tasks_note(self) -> bytes:
        return find_jobs().note()

    def end_tasks_of(self, note: bytes) -> None:
        find_jobs().end_noted(note)

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        self._config_for, self._ended = config_for, ended
        self._is_stopped = False
        self._over.clear()
        if (jobs := find_jobs()).may_be_cut_off:
            threading.Thread(target=self._watch_cluster, args=(jobs,), name="asyncsearch-jobs", daemon=True).start()

    def launch(self, worker: WorkerId, epoch: int) -> None:
        if self._config_for is None or self._ended is None:
            raise InternalError("launch() comes after start()")
        launch = None
        with self._changed:
            refusal = TOO_LATE if self._is_stopped else self._silence
            if not refusal:
                launch = self._launches[worker, epoch] = _Launch()
        if launch is None:
            self._ended(worker, epoch, refusal)
            return
        config = self._config_for(worker, epoch)
        self._grace_s = config.kill_grace_s
        name = f"asyncsearch-{worker_name(worker)}.{epoch}"
        threading.Thread(target=self._follow, args=(launch, config), name=name, daemon=True).start()

    def kill(self, worker: WorkerId, epoch: int) -> None:
        with self._changed:
            launch = self._launches.get((worker, epoch))
        if launch is not None:
            launch.end()

    def stop(self, grace_s: float) -> None:
        self._over.set()
        with self._changed:
            self._is_stopped = True
        self._wait_for_all(grace_s)
        with self._changed:
            left = list(self._launches.values())
        for launch in left:
            launch.end()
        self._wait_for_all(_ENDED_WITHIN_S + 2 * self._grace_s)

    def _watch_cluster(self, jobs: TrialJobs) -> None:
        """Say each time that the cluster does not answer any more, and end trials that wait for it for too long."""
        silent_since = None
        while not self._over.wait(_LOOK_S):
            if not (trouble := jobs.trouble()):
                silent_since, self._silence = None, ""
                continue
            if silent_since is None:
                silent_since = time.monotonic()
                _log.warning("Trials that have asked for something wait up to %.0f s: %s.", SILENT_FOR_S, trouble)
            if time.monotonic() - silent_since >= SILENT_FOR_S:
                self._end_waiting(jobs.client, trouble)

    def _end_waiting(self, client: str, trouble: str) -> None:
        with self._changed:
            launches = list(self._launches.values())
        for launch in launches:
            if launch.is_inside(client):
                self._silence = trouble  # before its end: its next launch would wait as long
                launch.end(trouble)

    def _follow(self, launch: _Launch, config: WorkerConfig) -> None:
        assert self._ended is not None
        open_outputs()
        try:
            reason = launch.run(config)
        except Exception as error:
            reason = f"its thread has failed: {type(error).__name__}: {error}"
        finally:
            close_outputs()
        key = (config.worker, config.epoch)
        try:
            self._ended(*key, reason)
        finally:
            with self._changed:
                del self._launches[key]
                self._changed.notify_all()

    def _wait_for_all(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._launches and (left_s := deadline - time.monotonic()) > 0:
                self._changed.wait(left_s)


class _Launch:
    """One agent, from its start to its end. ``run`` is called in its own thread, ``end`` in any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agent: Agent | None = None
        self._runner: ThreadRunner | None = None
        self._ended_for = ""
        """Why it was ended; empty if it was not."""

    def run(self, config: WorkerConfig) -> str:
        """Serve the driver to the end, and return the reason."""
        agent = Agent(config, runner=self._make_runner)
        with self._lock:
            self._agent = agent
            if self._ended_for:
                agent.end("it was called off before it started")
        return agent.run()

    def end(self, reason: str = "it was ended by the driver") -> None:
        """End the agent, now or before it starts."""
        with self._lock:
            self._ended_for = reason
            if self._agent is not None:
                self._agent.end(reason)

    def is_inside(self, package: str) -> bool:
        """Return whether its trial is in code of a package now."""
        return self._runner is not None and self._runner.is_inside(package)

    def _make_runner(
        self, config: WorkerConfig, watch: DescriptorSelector, stream: DriverStream, *, exited: object
    ) -> ThreadRunner:
        self._runner = ThreadRunner(config, watch, stream, exited=exited)
        return self._runner
