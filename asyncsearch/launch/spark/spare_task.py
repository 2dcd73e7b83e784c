"""A task that is begun before a launch asks for it, so that it starts while the driver prepares the run."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.launch.base_launcher import AgentFunction
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.task import Handover, TaskMode, task

CANCEL_AGAIN_S = 2.0
"""Interval of repeated cancellations: Spark ignores one that arrives before its job is submitted."""
CANCELLED_WITHIN_S = 30.0
"""Time that is waited for jobs that were cancelled."""


class SpareTask:
    """One such task and its job. Either ``serve`` is called, once and in a thread of its own, or ``end``."""

    def __init__(
        self, spark: Spark, *, agent: AgentFunction, mode: TaskMode, tag: str, run_tag: str, description: str
    ) -> None:
        """Begin it.

        Args:
            tag: of its job alone.
            run_tag: of all jobs of the run.
            description: of its job, for people.

        Raises:
            OSError: there are no descriptors to spare.
        """
        self.tag = tag
        self._spark = spark
        self._handover = Handover()
        self._submitted = threading.Event()
        self._reason: Future[str] = Future()

        def run() -> None:
            try:
                [reason] = spark.run(
                    task(agent, self._handover.address, mode),
                    1,
                    tags=(run_tag, tag),
                    description=description,
                    is_barrier=mode is TaskMode.INDEPENDENT,
                    prepared=self._submitted.set,
                )
            except BaseException as error:
                self._free()
                self._reason.set_exception(error)
            else:
                self._free()
                self._reason.set_result(reason)

        spark.thread(run, f"asyncsearch-{tag}").start()

    def await_submission(self, timeout_s: float) -> None:
        """Wait at most ``timeout_s`` seconds until its job needs little more of this process's time."""
        self._submitted.wait(timeout_s)

    def serve(self, config: WorkerConfig) -> str:
        """Give it a configuration, wait for its end, and return the reason, or ``NO_CONFIG`` if it could not take it.

        Raises:
            Exception: its job failed.
        """
        self._handover.give(config)
        return self._reason.result()

    def call_off(self) -> None:
        """Tell it that no configuration comes."""
        self._handover.call_off()

    def end(self) -> None:
        """Wait for its end after ``call_off``; cancel it if it does not end by itself."""
        for _ in range(round(CANCELLED_WITHIN_S / CANCEL_AGAIN_S)):
            if wait([self._reason], CANCEL_AGAIN_S).done:
                return
            self._spark.cancel(self.tag)

    def _free(self) -> None:
        self._submitted.set()
        self._handover.close()
