"""The Spark backend: the interface that the driver calls, from any of its threads. ``Supervisor`` does the work."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable
from typing import Any

from asyncsearch.errors import InternalError, UsageError
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.launch.base_launcher import (
    AgentFunction,
    ConfigFor,
    Launcher,
    OnWorkerEnded,
    Preflight,
    RemoteTasks,
    Tokens,
    run_agent,
)
from asyncsearch.launch.machine import machine_devices
from asyncsearch.launch.spark.base_session import AnySpark, new_tag
from asyncsearch.launch.spark.joining import is_java_there, join, present
from asyncsearch.launch.spark.preflight import examine, task_mode
from asyncsearch.launch.spark.remote_tasks import SparkTasks
from asyncsearch.launch.spark.slots import slots_now
from asyncsearch.launch.spark.supervisor import Supervisor
from asyncsearch.launch.spark.task import IS_POSSIBLE, SpareTask, TaskMode

_SUBMITTED_S = 1.0
"""How long ``warm_up`` waits for a job's submission: the rest takes the time that it needs."""


class SparkLauncher(Launcher):
    """Starts each worker as a job of the active Spark session, or of one that it makes and stops itself."""

    name = "spark"

    def __init__(
        self,
        session: Any = None,
        *,
        study: str = "study",
        mode: TaskMode | None = None,
        start_timeout_s: float = 600.0,
        agent: AgentFunction = run_agent,
        remote_driver: bool | None = None,
    ) -> None:
        """Make a launcher, without using Spark yet.

        Args:
            session: the ``SparkSession`` to use; None for the active one, else a new one.
            study: name of its jobs in Spark's pages.
            mode: kind of tasks; None for the kind that suits the cluster.
            start_timeout_s: time that a worker waits for a free slot.
            agent: function that each task runs.
            remote_driver: whether the search's driver itself is a task. None means where executors do not reach this
                process and the session is one of Spark Connect.
        """
        self._remote_driver = remote_driver
        self._session = session
        self._study = study
        self._mode = mode
        self._start_timeout_s = start_timeout_s
        self._agent = agent
        self._spark: AnySpark | None = None
        self._config_for: ConfigFor | None = None
        self._tag = ""
        self._at_once: int | None = None
        self._spares: dict[WorkerId, SpareTask] = {}
        """Tasks that were begun before a launch asked for them."""
        self._supervisor: Supervisor | None = None

    def workers_now(self) -> int | None:
        spark = present(self._session)
        return None if spark is None else slots_now(spark)

    def preparation(self) -> str:
        spark = present(self._session)
        if spark is None:
            java = "" if is_java_there() else "Java and "
            return f"there is no Spark session yet: starting {java}one for this run, which takes some seconds ..."
        if spark.has_dynamic_allocation and slots_now(spark) is None:
            return "waiting for the executors of Spark ..."
        return "checking the executors of Spark ..."

    def check(self, parallelism: int | None) -> Preflight:
        if self._spark is None:
            self._spark = join(self._session)
        try:
            mode = self._mode_of(self._spark)
            found = examine(self._spark, parallelism, mode, self._start_timeout_s, remote_driver=self._remote_driver)
        except BaseException:
            self._leave()
            raise
        self._tag, self._at_once = new_tag(self._study), found.launches_at_once
        return found

    def check_again(self, found: Preflight) -> Preflight:
        self._spark = self._spark or join(self._session)
        self._tag, self._at_once = new_tag(self._study), found.launches_at_once
        return found

    def devices(self, per_worker: float) -> tuple[str, ...] | None:
        spark = self._spark or present(self._session)
        if spark is None:
            return None
        if spark.is_one_process and spark.is_local:
            return machine_devices(os.environ)
        if not gives_devices(spark.conf, per_worker) and not spark.asks_for_devices(per_worker):
            made = "start the Spark Connect server" if spark.has_detached_tasks else "make the session"
            require_devices(spark.conf, per_worker, made)
        return None

    def warm_up(self, workers: int) -> None:
        if self._spark is None or not (self._spark.hands_over and IS_POSSIBLE):
            return
        for number in range(min(workers, self._at_once or workers)):
            worker = WorkerId(number)
            with contextlib.suppress(OSError):  # without descriptors to spare its launch begins its task
                self._spares[worker] = SpareTask(
                    self._spark,
                    agent=self._agent,
                    mode=self._mode_of(self._spark),
                    tag=f"{self._tag}-{worker_name(worker)}",
                    run_tag=self._tag,
                    description=f"asyncsearch: {self._study} {worker_name(worker)}",
                )
        for spare in self._spares.values():
            spare.await_submission(_SUBMITTED_S)

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        if self._spark is None:
            raise InternalError("start() comes after check()")
        self._config_for = config_for
        self._supervisor = Supervisor(
            self._spark,
            agent=self._agent,
            mode=self._mode_of(self._spark),
            study=self._study,
            tag=self._tag,
            start_timeout_s=self._start_timeout_s,
            ended=ended,
            spares=self._spares,
        )
        self._supervisor.start()
        self._spark.serves()

    def launch(self, worker: WorkerId, epoch: int) -> None:
        if self._config_for is None or self._supervisor is None:
            raise InternalError("launch() comes after start()")
        self._supervisor.launch((worker, epoch), self._config_for(worker, epoch))

    def attached(self, worker: WorkerId, epoch: int) -> None:
        if self._supervisor is not None:
            self._supervisor.attached((worker, epoch))

    def tokens_for(self, url: str) -> Tokens | None:
        return None if self._spark is None else self._spark.tokens_for(url)

    def await_submission(self, timeout_s: float) -> None:
        if self._supervisor is not None:
            self._supervisor.has_submitted.wait(timeout_s)

    def tasks_note(self) -> bytes:
        return b"" if self._spark is None else self._spark.tag_note(self._tag)

    def end_tasks_of(self, note: bytes) -> None:
        if self._spark is not None:
            self._spark.end_tag_of(note)

    @property
    def drives_remotely(self) -> bool:
        if self._remote_driver is None:
            spark = present(self._session)
            return spark is not None and spark.has_detached_tasks
        return self._remote_driver

    def remote_tasks(self) -> RemoteTasks:
        if self._spark is None:
            self._spark = join(self._session)
        self._tag = self._tag or new_tag(self._study)
        self._spark.serves()
        return SparkTasks(self._spark, mode=self._mode_of(self._spark), study=self._study, tag=self._tag)

    def kill(self, worker: WorkerId, epoch: int) -> None:
        if self._supervisor is not None:
            self._supervisor.kill((worker, epoch))

    def stop(self, grace_s: float) -> None:
        if self._supervisor is not None:
            self._supervisor.stop(grace_s)
        spares, self._spares = self._spares, {}
        for spare in spares.values():
            spare.call_off()
        for spare in spares.values():
            spare.end()
        self._leave()

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        if self._spark is None:
            return super().thread(target, name)
        made: threading.Thread = self._spark.thread(target, name)
        return made

    def _leave(self) -> None:
        spark, self._spark = self._spark, None
        if spark is not None:
            spark.close()

    def _mode_of(self, spark: AnySpark) -> TaskMode:
        return self._mode or task_mode(spark)


TASK, EXECUTOR = "spark.task.resource.gpu.amount", "spark.executor.resource.gpu.amount"
_ROUNDED = 0.005
"""Spark's setting is text: a third of a device is 0.333 there."""


def gives_devices(conf: Callable[[str, str], str], per_worker: float) -> bool:
    """Return whether Spark gives each task, by its settings, as many devices as a worker is to see."""
    return math.isclose(_number(conf(TASK, "0").strip()), per_worker, rel_tol=_ROUNDED)


def require_devices(conf: Callable[[str, str], str], per_worker: float, made: str = "make the session") -> None:
    """Check that Spark gives each worker, a task of its own, as many devices as it is to see.

    Args:
        conf: returns a setting of the application, given its default.
        per_worker: how many devices, or below 1 its share of one.
        made: what is done to give the application its settings, for people.

    Raises:
        UsageError: it gives another number of them.
    """
    amount = conf(TASK, "0").strip()
    if not gives_devices(conf, per_worker):
        raise UsageError(
            f"By devices_per_trial= each worker sees {per_worker:g} of the resource gpu, and {TASK} is {amount}: "
            f"{made} with {TASK}={per_worker:g}, and with {EXECUTOR} and its discoveryScript."
        )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
