"""What Spark's settings say of the devices of a task."""

from __future__ import annotations

import math
from collections.abc import Callable

from asyncsearch.errors import UsageError

TASK, EXECUTOR = "spark.task.resource.gpu.amount", "spark.executor.resource.gpu.amount"
_ROUNDED = 0.005
"""Spark's setting is text: a third of a device is 0.333 there."""


def require_devices(conf: Callable[[str, str], str], per_worker: float) -> None:
    """Check that Spark gives each worker, a task of its own, as many devices as it is to see.

    Args:
        conf: returns a setting of the application, given its default.
        per_worker: how many devices, or below 1 its share of one.

    Raises:
        UsageError: it gives another number of them.
    """
    amount = conf(TASK, "0").strip()
    if not math.isclose(_number(amount), per_worker, rel_tol=_ROUNDED):
        raise UsageError(
            f"By devices_per_trial= each worker sees {per_worker:g} of the resource gpu, and {TASK} is {amount}: make "
            f"the session with {TASK}={per_worker:g}, and with {EXECUTOR} and its discoveryScript."
        )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
