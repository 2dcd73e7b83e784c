"""The task in Spark's Python worker, which runs the agent.

Rule: the process serves other tasks after this one, so change no global state: no environment, no handlers.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import pickle
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.runner_template import fork_template
from asyncsearch.launch.base_launcher import AgentFunction
from asyncsearch.launch.spark.handover import Receiver
from asyncsearch.runner.template import main_in_fork


class TaskMode(enum.Enum):
    """Kind of a worker's task."""

    INDEPENDENT = "independent"
    """Its own barrier stage, which Spark never reruns and never speculates."""
    PLAIN = "plain"
    """An ordinary task, for clusters with dynamic allocation, which forbids barrier stages."""


RUN_AGAIN = "Spark lost its task and ran it again, which only the driver may do"

NOT_NEEDED = "no launch needed it"

SparkTask = Callable[[Iterable[int]], list[str]]


def task(agent: AgentFunction, config: WorkerConfig, mode: TaskMode) -> SparkTask:
    """Return the function that Spark pickles, which holds little except the configuration."""
    return functools.partial(_run, agent, config, mode.value)


def spare_task(agent: AgentFunction, path: str) -> SparkTask:
    """Return the function of a barrier task of this machine that gets its configuration later; see ``Handover``."""
    return functools.partial(_run_spare, agent, path)


def _run(agent: AgentFunction, config: WorkerConfig, mode: str, rows: Iterable[int]) -> list[str]:
    """Run the agent and return the reason for its end.

    An exception becomes a result, because Spark would rerun a plain stage's failed task.
    """
    from pyspark import TaskContext

    del rows
    context = TaskContext.get()
    assert context is not None
    if mode == TaskMode.PLAIN.value and context.attemptNumber() > 0:
        return [RUN_AGAIN]
    fork_template(main_in_fork)
    return [_serve(agent, config, context)]


def _run_spare(agent: AgentFunction, path: str, rows: Iterable[int]) -> list[str]:
    """Prepare for a launch, wait for it, and go on like ``_run``."""
    from pyspark import TaskContext

    del rows
    fork_template(main_in_fork)
    try:
        receiver = Receiver(path)
    except OSError:
        return [NOT_NEEDED]
    _import_agent()
    data = receiver.receive()
    if not data:
        return [NOT_NEEDED]
    # The bytes come from the launcher, through a folder that only this user can enter.
    config: WorkerConfig = pickle.loads(data)  # noqa: S301
    return [_serve(agent, config, TaskContext.get())]


def _serve(agent: AgentFunction, config: WorkerConfig, context: Any) -> str:
    gpus = context.resources().get("gpu")
    if gpus is not None and config.gpus is None:
        config = msgspec.structs.replace(config, gpus=tuple(gpus.addresses))
    config = msgspec.structs.replace(config, keeps_template=True)
    try:
        return agent(config)
    except Exception as error:
        last = "".join(traceback.format_exception_only(error)).strip()
        return f"its task failed: {last}\n{traceback.format_exc()}".strip()


def _import_agent() -> None:
    """Import what the agent needs, while the driver still makes its configuration."""
    with contextlib.suppress(ImportError):  # the agent itself says what is missing
        import asyncsearch.agent.agent
        import asyncsearch.rpc.client  # noqa: F401
