"""A search's driver and its workers as tasks of Spark, for executors that cannot reach this process."""

from __future__ import annotations

import functools
import pickle
import socket
from collections.abc import Callable, Iterable

from asyncsearch.launch.remote.worker import MetDriver
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.spark.job_ends import reason_of
from asyncsearch.launch.spark.task import RUN_AGAIN, SparkTask, TaskMode, run_one, task
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.store.base_store import Store


class SparkTasks:
    """The tasks of one run, for ``RemoteTasks``."""

    def __init__(self, spark: AnySpark, *, mode: TaskMode, study: str, tag: str) -> None:
        """Prepare the tasks; none is started.

        Args:
            mode: kind of the tasks.
            study: their name in Spark's pages.
            tag: of all tasks of the run.
        """
        self._spark, self._mode, self._study, self._tag = spark, mode, study, tag

    def drive(self, content: bytes, tag: str) -> str:
        host = "127.0.0.1" if self._spark.is_one_process else ""
        answer = self._run(lambda mode: functools.partial(_drive, content, host, mode.value), tag, "driver")
        if answer == RUN_AGAIN:
            raise RuntimeError(RUN_AGAIN)
        return answer

    def work(self, store: Store, tag: str) -> str:
        met = MetDriver(dumps(store))
        return self._run(functools.partial(task, met.run, met), tag, "worker")

    def is_running(self, tag: str) -> bool:
        running = self._spark.running()
        return running is not None and self._full(tag) in running

    def cancel(self, tag: str) -> None:
        self._spark.cancel(self._full(tag))

    def trouble(self) -> str:
        return self._spark.trouble()

    def why_lost(self, error: BaseException) -> str:
        return reason_of(error)

    def _full(self, tag: str) -> str:
        return f"{self._tag}-{tag}"

    def _run(self, function: Callable[[TaskMode], SparkTask], tag: str, what: str) -> str:
        return run_one(
            self._spark,
            function,
            self._mode,
            tags=(self._tag, self._full(tag)),
            description=f"asyncsearch: {self._study} {what}",
            places=[self._spark.emptiest()] if what == "worker" else (),
        )


def _drive(content: bytes, host: str, mode: str, rows: Iterable[int]) -> list[str]:
    """Call the pickled function with the address of this task; two of them would be two drivers."""
    from pyspark import BarrierTaskContext, TaskContext

    del rows
    context = TaskContext.get()
    assert context is not None
    if mode == TaskMode.PLAIN.value and context.attemptNumber() > 0:
        return [RUN_AGAIN]
    if not host and mode == TaskMode.INDEPENDENT.value:
        # The name at which Spark itself reaches this executor, with a port.
        address = BarrierTaskContext.get().getTaskInfos()[0].address
        host = address.rpartition(":")[0] or address
    drive: Callable[[str], str] = pickle.loads(content)  # noqa: S301 - of this task's closure
    return [drive(host or socket.gethostname())]
