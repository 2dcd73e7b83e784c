"""The task in Spark's Python worker, which runs the agent.

Rule: the process serves other tasks after this one, so change no global state: no environment, no handlers.
"""

from __future__ import annotations

import enum
import functools
import traceback
from collections.abc import Callable, Iterable

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import is_bug
from asyncsearch.launch.base_launcher import AgentFunction, import_agent
from asyncsearch.launch.spark.handover import PipeAddress, receive


class TaskMode(enum.Enum):
    """Kind of a worker's task."""

    INDEPENDENT = "independent"
    """Its own barrier stage, which Spark never reruns and never speculates."""
    PLAIN = "plain"
    """An ordinary task, for clusters with dynamic allocation, which forbids barrier stages."""


RUN_AGAIN = "Spark lost its task and ran it again, which only the driver may do"
NO_CONFIG = ""
"""Result of a task to which no configuration came."""

SparkTask = Callable[[Iterable[int]], list[str]]


def task(agent: AgentFunction, config: WorkerConfig | PipeAddress, mode: TaskMode) -> SparkTask:
    """Return the function that Spark pickles, which holds little except the configuration, or where it comes from."""
    return functools.partial(_run, agent, config, mode.value)


def _run(agent: AgentFunction, source: WorkerConfig | PipeAddress, mode: str, rows: Iterable[int]) -> list[str]:
    """Run the agent and return the reason for its end, or ``NO_CONFIG``.

    An exception becomes a result, because Spark would rerun a plain stage's failed task.
    """
    # Imported here and not at the top: the driver, which launches the task, needs none of it.
    from pyspark import TaskContext

    from asyncsearch.agent.runner_template import fork_template
    from asyncsearch.runner.template import main_in_fork

    del rows
    context = TaskContext.get()
    assert context is not None
    if mode == TaskMode.PLAIN.value and context.attemptNumber() > 0:
        return [RUN_AGAIN]
    fork_template(main_in_fork)
    config = source if isinstance(source, WorkerConfig) else _awaited(source)
    if config is None:
        return [NO_CONFIG]
    gpus = context.resources().get("gpu")
    if gpus is not None and config.gpus is None:
        config = msgspec.structs.replace(config, gpus=tuple(gpus.addresses))
    config = msgspec.structs.replace(config, keeps_template=True)
    try:
        return [agent(config)]
    except Exception as error:
        last = "".join(traceback.format_exception_only(error)).strip()
        return [f"its task failed: {last}\n{traceback.format_exc() if is_bug(error) else ''}".strip()]


def _awaited(address: PipeAddress) -> WorkerConfig | None:
    import_agent()
    try:
        return receive(address)
    except OSError:  # this system lets no process open the pipes of another
        return None
