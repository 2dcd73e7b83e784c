"""Answers of Spark that are waited for before there is a worker: one comes, or the wait ends in words.

Spark Connect's client tries its server for 10 minutes, in silence, where the network between drops all that it sends.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from asyncsearch.driver.threads import next_of
from asyncsearch.errors import ClusterError, NotEnoughSlotsError
from asyncsearch.launch.base_launcher import SILENT_FOR_S
from asyncsearch.launch.spark.base_session import WAIT_LOGGED_AFTER_S, AnySpark, new_tag
from asyncsearch.launch.spark.job_ends import reason_of
from asyncsearch.launch.spark.probe import as_packages_error

_log = logging.getLogger(__name__)
T = TypeVar("T")

_LOOK_S = 1.0


def answer_of(
    ask: Callable[[], T],
    trouble: Callable[[], str],
    *,
    thread: Callable[[Callable[[], None], str], Any] = lambda target, name: threading.Thread(
        target=target, name=name, daemon=True
    ),
    timeout_s: float = math.inf,
    slow: str = "",
) -> T:
    """Return the answer of Spark, or raise its error; it is asked in a thread of its own.

    Args:
        ask: asks, and waits for the answer.
        trouble: returns why Spark cannot answer now, by one look; empty if it can.
        thread: makes the thread.
        timeout_s: time that it may take.
        slow: said to people after some seconds.

    Raises:
        TimeoutError: no answer came in time.
        ClusterError: Spark could not answer for ``SILENT_FOR_S``.
    """
    done: queue.SimpleQueue[tuple[T] | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((ask(),))
        except BaseException as error:  # else its answer would be waited for
            done.put(error)

    began_s, silent_s = time.monotonic(), math.inf
    thread(run, "asyncsearch-ask").start()
    while True:
        left_s = began_s + timeout_s - time.monotonic()
        try:
            found = next_of(done, max(0.0, min(_LOOK_S, left_s)))
        except queue.Empty:
            if left_s <= 0:
                raise TimeoutError(f"no answer came within {timeout_s:.0f} s") from None
        else:
            if isinstance(found, BaseException):
                raise found
            return found[0]
        now = time.monotonic()
        if why := trouble():
            if silent_s == math.inf:
                silent_s = now
                _log.warning("Waiting up to %.0f s: %s.", SILENT_FOR_S, why)
            if now - silent_s >= SILENT_FOR_S:
                raise ClusterError(
                    f"Nothing has begun: {why}, for {SILENT_FOR_S:.0f} s. See that it runs and that the network lets "
                    "this machine reach it, then run again; a session that it has closed meanwhile is to be made anew."
                )
        else:
            silent_s = math.inf
        if slow and now - began_s > WAIT_LOGGED_AFTER_S:
            _log.warning("%s", slow)
            slow = ""


def ask_executors(
    spark: AnySpark,
    look: Callable[[Any], list[T]],
    tasks: int,
    *,
    what: str,
    timeout_s: float,
    places: Sequence[str] = (),
) -> list[T]:
    """Run a function in so many tasks at once, and return their answers.

    Args:
        look: the function; it takes little time.
        tasks: how many.
        what: of what it is part, for people: "check of the executors".
        timeout_s: time that it may take, the wait for free slots included.
        places: for each task the one that it prefers.

    Raises:
        NotEnoughSlotsError: no slot became free in time.
        PackagesDifferError: the executors lack what the function itself needs.
        ClusterError: they could not be asked.
    """
    tag = new_tag(what.replace(" ", "-"))

    def run() -> list[T]:
        words = f"asyncsearch: {what}"
        return spark.run(look, tasks, tags=(tag,), description=words, is_barrier=False, places=places)

    slow = f"The {what} waits for a free task slot, or for Python to start there."
    try:
        return answer_of(run, spark.trouble, thread=spark.thread, timeout_s=timeout_s, slow=slow)
    except TimeoutError:
        spark.cancel(tag)
        raise NotEnoughSlotsError(
            f"No task slot became free within {timeout_s:.0f} s for the {what}: other jobs hold them, or the cluster "
            "gives this application no executors. Look at its page in the cluster's web interface."
        ) from None
    except ClusterError:
        spark.cancel(tag)
        raise
    except Exception as error:
        raise as_packages_error(error, spark.is_local) or ClusterError(
            f"The {what} failed: {reason_of(error)}. Look at the executors' logs."
        ) from error
    except BaseException:  # an interrupt of this thread does not end a Spark job
        spark.cancel(tag)
        raise
