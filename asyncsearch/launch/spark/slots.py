"""The number of workers that the cluster can run, and the error if it is too low."""

from __future__ import annotations

import logging
import threading
import time

from asyncsearch.errors import NotEnoughSlotsError
from asyncsearch.launch.spark.session import WAIT_LOGGED_AFTER_S, Spark

_log = logging.getLogger(__name__)

_NEW_S = 60.0
"""Age of an application up to which further executors may still be starting."""
_FIRST_S = 600.0
"""Age up to which executors are waited for that are needed and were asked for: a queue of YARN may take minutes."""
_SETTLED_S = 5.0
"""Time without growth after which the number of slots counts as final."""
_LOOK_EVERY_S = 0.25
_UNLIMITED = 2**31 - 1
"""Spark's value for "no limit"."""


def fixed(spark: Spark, parallelism: int | None) -> tuple[int, int]:
    """Return (workers, slots) of a cluster without dynamic allocation.

    Raises:
        NotEnoughSlotsError: there are fewer slots than workers.
    """
    slots = _await_slots(spark, parallelism)
    workers = parallelism or max(1, slots)
    more = (
        f"use master('local[{workers}]')"
        if spark.is_one_process
        else "raise spark.executor.instances or spark.executor.cores"
    )
    _require(workers, slots, f"{spark.context.master} has", more)
    return workers, slots


def elastic(spark: Spark, parallelism: int | None) -> int:
    """Return the number of workers of a cluster with dynamic allocation.

    Raises:
        NotEnoughSlotsError: its limit is too low, or neither it nor ``parallelism`` sets a limit.
    """
    executors = _number(spark.conf("spark.dynamicAllocation.maxExecutors", "infinity"))
    if executors < _UNLIMITED:
        slots = executors * max(1, _number(spark.conf("spark.executor.cores", "1")) // spark.cpus_per_task)
        workers = parallelism or slots
        _require(workers, slots, "dynamic allocation brings at most", "raise spark.dynamicAllocation.maxExecutors")
        return workers
    if parallelism is None:
        raise NotEnoughSlotsError(
            "Dynamic allocation has no limit here, so set the number of workers: run with parallelism=..., or set "
            "spark.dynamicAllocation.maxExecutors."
        )
    return parallelism


def slots_now(spark: Spark) -> int | None:
    """Return the number of workers of a run that leaves it to the cluster, without waiting; None if it is not known."""
    if not spark.has_dynamic_allocation:
        return max(1, spark.slots())
    try:
        return elastic(spark, None)
    except NotEnoughSlotsError:  # it has no limit
        return None


def _await_slots(spark: Spark, wanted: int | None) -> int:
    """Return the number of slots, once it suffices or stops growing: a new session's executors start one by one."""
    began = grown = time.monotonic()
    most = slots = spark.slots()
    requested = _requested(spark)
    is_shown = False
    pause = threading.Event()
    # A standalone cluster gives all its slots, and does not say how many: a part of them may be held for a while by the
    # executors of a driver that was killed.
    may_grow = wanted is not None and not requested
    while not spark.is_one_process and (wanted is None or slots < wanted):
        now = time.monotonic()
        is_needed = not slots or slots < min(wanted or 0, requested)
        until_s = _FIRST_S if is_needed else _NEW_S
        is_settled = slots >= max(1, requested) and now - grown > _SETTLED_S and not may_grow
        if spark.age_s > until_s or is_settled:
            break
        if (is_needed or may_grow) and not is_shown and now - began > WAIT_LOGGED_AFTER_S:
            is_shown = True
            _log.warning(
                "%s has given this application %s yet: waiting for executors until it is %.0f s old. Its queue may be "
                "full; the cluster's web page says what it waits for.",
                spark.context.master,
                f"{slots} of {wanted} slots" if slots else "no slot",
                until_s,
            )
        pause.wait(_LOOK_EVERY_S)  # Spark does not notify Python of new executors
        slots = spark.slots()
        if slots > most:
            most, grown = slots, time.monotonic()
    return slots


def _requested(spark: Spark) -> int:
    """Return the number of slots that the application has asked its cluster for; 0 if for as many as there are."""
    default = "0" if str(spark.context.master).startswith("spark:") else "2"
    executors = _number(spark.conf("spark.executor.instances", default))
    return executors * max(1, _number(spark.conf("spark.executor.cores", "1")) // spark.cpus_per_task)


def _require(workers: int, slots: int, who_has: str, more: str) -> None:
    if workers > slots:
        fewer = f"run with parallelism={slots}, or " if slots else ""
        raise NotEnoughSlotsError(
            f"{workers} workers need as many task slots, and {who_has} {slots}: {fewer}{more}. (A slot is "
            "spark.task.cpus cores of an executor.)"
        )


def _number(text: str) -> int:
    """Read a setting; Spark writes "no limit" in more than one way."""
    return int(text) if text.strip().isdecimal() else _UNLIMITED
