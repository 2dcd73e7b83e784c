"""The number of workers that the cluster can run, and how long a launch waits for its task slot.

A job that waits costs nothing, and under dynamic allocation it brings new executors. So a launch waits for as
long as other workers of its run have slots, or the cluster may bring more; it is given up only where neither is so.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence, Set

import msgspec

from asyncsearch.errors import NotEnoughSlotsError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.spark.base_session import WAIT_LOGGED_AFTER_S, AnySpark

_log = logging.getLogger(__name__)

_NEW_S = 60.0
"""Age of an application up to which further executors may still be starting."""
_FIRST_S = 600.0
"""Age up to which executors are waited for that are needed and were asked for: a queue of YARN may take minutes."""
_SETTLED_S = 5.0
"""Time without growth after which the number of slots counts as final."""
_GROWTH_LOOK_S = 0.25
_UNLIMITED = 2**31 - 1
"""Spark's value for "no limit"."""


def fixed(spark: AnySpark, parallelism: int | None) -> tuple[int, int]:
    """Return (workers, slots) of a cluster without dynamic allocation.

    Raises:
        NotEnoughSlotsError: there are fewer slots than workers, or Spark does not say how many there are.
    """
    slots = _await_slots(spark, parallelism)
    if slots is None:
        return _named(spark, parallelism)
    workers = parallelism or max(1, slots)
    more = (
        f"use master('local[{workers}]')"
        if spark.is_one_process
        else "raise spark.executor.instances or spark.executor.cores"
    )
    _require(workers, slots, f"{spark.master} has", more)
    return workers, slots


def _named(spark: AnySpark, parallelism: int | None) -> tuple[int, int]:
    """Return (workers, slots) of a cluster that does not tell its slots."""
    if parallelism is None:
        per_executor = "spark.executor.cores / spark.task.cpus"
        if named := spark.conf("spark.executor.cores"):
            per_executor = f"{max(1, _number(named) // spark.cpus_per_task)} each"
        raise NotEnoughSlotsError(
            "Spark Connect does not say how many tasks its cluster runs at once, so set the number of workers: run "
            f"with parallelism=.... It is the number of executors times their slots ({per_executor}); the page "
            "Executors of Spark's web interface shows both, as rows and as the column Cores."
        )
    return parallelism, parallelism


def elastic(spark: AnySpark, parallelism: int | None) -> int:
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


def slots_now(spark: AnySpark) -> int | None:
    """Return the number of workers of a run that leaves it to the cluster, without waiting; None if it is not known."""
    if not spark.has_dynamic_allocation:
        slots = spark.slots()
        return None if slots is None else max(1, slots)
    try:
        return elastic(spark, None)
    except NotEnoughSlotsError:  # it has no limit
        return None


def _await_slots(spark: AnySpark, wanted: int | None) -> int | None:
    """Return the number of slots, once it suffices or stops growing: a new session's executors start one by one."""
    began = grown = time.monotonic()
    slots = spark.slots()
    if slots is None:
        return None
    most = slots
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
                spark.master,
                f"{slots} of {wanted} slots" if slots else "no slot",
                until_s,
            )
        pause.wait(_GROWTH_LOOK_S)  # Spark does not notify Python of new executors
        slots = spark.slots() or 0
        if slots > most:
            most, grown = slots, time.monotonic()
    return slots


def _requested(spark: AnySpark) -> int:
    """Return the number of slots that the application has asked its cluster for; 0 if for as many as there are."""
    default = "0" if str(spark.master).startswith("spark:") else "2"
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


REPLACED_AFTER_S = 60.0
"""Time in which a launch that replaces a lost worker should get its slot: the cluster starts another executor first."""
LOOK_EVERY_S = 2.0
"""Least time between two looks for slots: launches that began one after the other are looked at together."""


class SlotWait(msgspec.Struct, frozen=True):
    """The next step for a launch that has no slot yet."""

    next_s: float
    """When to look again, seconds after the launch."""
    sentence: str = ""
    """For people; empty if there is nothing new to say."""
    reason: str = ""
    """Why it is given up; empty if it is not."""


def wait_on(
    name: str,
    waited_s: float,
    timeout_s: float,
    *,
    is_replacement: bool,
    is_shown: bool,
    has_others: bool,
    is_elastic: bool,
    tells_slots: bool = True,
) -> SlotWait:
    """Return the next step for a launch without a slot.

    Args:
        name: of the launch, for people.
        waited_s: seconds since it began.
        timeout_s: time after which it is given up where nothing else works; else people are reminded as often.
        is_replacement: whether the run had this worker before and lost it.
        is_shown: whether people know already that it waits.
        has_others: whether other workers of the run have slots.
        is_elastic: whether the cluster brings executors by itself, and has brought some for this run.
        tells_slots: whether the cluster says how many slots it has.
    """
    if waited_s >= timeout_s and not (has_others or is_elastic):
        return SlotWait(waited_s, reason=f"it found no free task slot within {timeout_s:.0f} s")
    next_s = timeout_s if waited_s < timeout_s else waited_s + timeout_s
    if is_shown and waited_s < timeout_s:
        return SlotWait(next_s)
    since = f" since {waited_s:.0f} s" if is_replacement or is_shown else ""
    why = "no executor has come for the one that was lost" if is_replacement else "executors are missing"
    if not (tells_slots or is_replacement):
        why += ", or parallelism= is above the number of slots"
    meanwhile = ""
    if has_others:
        meanwhile = " It waits on, and the other workers train meanwhile."
    elif is_elastic:
        meanwhile = " It waits until the cluster brings an executor."
    return SlotWait(next_s, f"{name} waits for a free task slot{since}: other jobs hold them, or {why}.{meanwhile}")


class SlotWatch:
    """The slots of one run's launches, by the tags of their jobs."""

    def __init__(
        self,
        running: Callable[[], Set[str] | None],
        timeout_s: float,
        *,
        brings_executors: bool,
        tells_slots: bool = True,
    ) -> None:
        """Begin without launches.

        Args:
            running: asks Spark which jobs have a slot, all by one look; None if it cannot tell.
            timeout_s: time after which a launch is given up where nothing else works.
            brings_executors: whether the cluster starts executors by itself.
            tells_slots: whether it says how many slots it has.
        """
        self._running = running
        self._timeout_s = timeout_s
        self._brings_executors = brings_executors
        self._tells_slots = tells_slots
        self._launched: set[WorkerId] = set()
        self._replacing: set[str] = set()
        self._holding: set[str] = set()
        """The jobs that were seen to have a slot."""
        self._next_look_s = -math.inf
        self._shown: set[str] = set()
        """The jobs of which people know that they wait."""

    def began(self, worker: WorkerId, tag: str) -> bool:
        """Note a launch; return whether it replaces a worker that the run has lost."""
        is_replacement = worker in self._launched
        self._launched.add(worker)
        if is_replacement:
            self._replacing.add(tag)
        return is_replacement

    def holds(self, tag: str) -> None:
        """Note that a launch has its slot: the driver hears its worker, so that Spark need not be asked."""
        self._holding.add(tag)

    def refresh(self, tags: Sequence[str], now: float) -> float | None:
        """Learn which jobs have slots, if that of one of these is not known; one look serves all of a tick.

        Return when to come again, where the last look was less than ``LOOK_EVERY_S`` ago; None if it was done now.
        """
        if self._holding.issuperset(tags):
            return None
        if now < self._next_look_s:
            return self._next_look_s
        self._next_look_s = now + LOOK_EVERY_S
        found = self._running()
        self._holding.update(tags if found is None else found)
        return None

    def look(self, tag: str, name: str, waited_s: float, others: Sequence[str]) -> SlotWait | None:
        """Return the next step, after ``refresh``, for a launch that began ``waited_s`` ago; None if it has its slot.

        Args:
            others: the jobs of the run's other launches that are not being cancelled.
        """
        if tag in self._holding:
            return None
        wait = wait_on(
            name,
            waited_s,
            self._timeout_s,
            is_replacement=tag in self._replacing,
            is_shown=tag in self._shown,
            has_others=not self._holding.isdisjoint(others),
            is_elastic=self._brings_executors and bool(self._holding),
            tells_slots=self._tells_slots,
        )
        if wait.sentence:
            self._shown.add(tag)
        return wait
