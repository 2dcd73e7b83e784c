"""What runs in Spark's Python worker: the agent, as one task.

Rule: the process serves other tasks after this one, so nothing global is changed: no environment, no handlers.
"""

from __future__ import annotations

import enum
import functools
import traceback
from collections.abc import Callable, Iterable

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.launch.base_launcher import AgentFunction


class TaskMode(enum.Enum):
    """What kind of task a worker is."""

    INDEPENDENT = "independent"
    """A barrier stage of its own: never run again by Spark, and never speculated."""
    PLAIN = "plain"
    """An ordinary task, for clusters with dynamic allocation, which forbids barrier stages."""


RUN_AGAIN = "Spark lost its task and ran it again, which only the driver may decide"

SparkTask = Callable[[Iterable[int]], list[str]]


def task(agent: AgentFunction, config: WorkerConfig, mode: TaskMode) -> SparkTask:
    """Return the function that Spark pickles: it holds the configuration and little else."""
    return functools.partial(_run, agent, config, mode.value)


def _run(agent: AgentFunction, config: WorkerConfig, mode: str, rows: Iterable[int]) -> list[str]:
    """Run the agent and return why it ended.

    An exception becomes a result, because Spark would run the task of a plain stage again.
    """
    from pyspark import TaskContext

    del rows
    context = TaskContext.get()
    assert context is not None
    if mode == TaskMode.PLAIN.value and context.attemptNumber() > 0:
        return [RUN_AGAIN]
    gpus = context.resources().get("gpu")
    if gpus is not None and config.gpus is None:
        config = msgspec.structs.replace(config, gpus=tuple(gpus.addresses))
    try:
        return [agent(config)]
    except Exception as error:
        last = "".join(traceback.format_exception_only(error)).strip()
        return [f"its task failed: {last}\n{traceback.format_exc()}".strip()]
