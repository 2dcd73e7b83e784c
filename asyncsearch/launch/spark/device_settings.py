"""What Spark's settings say of the devices of a task."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from asyncsearch.errors import UsageError

TASK, EXECUTOR = "spark.task.resource.gpu.amount", "spark.executor.resource.gpu.amount"


def require_devices(conf: Callable[[str, str], str], per_worker: float) -> None:
    """Check that Spark gives each worker, a task of its own, as many devices as it is to see.

    Args:
        conf: returns a setting of the application, given its default.
        per_worker: how many devices, or below 1 its share of one.

    Raises:
        UsageError: it gives another number of them.
    """
    amount = conf(TASK, "0").strip()
    if _number(amount) != Decimal(str(per_worker)):
        raise UsageError(
            f"By devices_per_trial= each worker sees {per_worker:g} of the resource gpu, and {TASK} is {amount}: make "
            f"the session with {TASK}={per_worker:g}, and with {EXECUTOR} and its discoveryScript."
        )


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal(-1)
