"""Which executor a task is to run on: workers go to the emptiest ones, and a check to each once.

Spark shuffles the offers of its executors for each job, and each worker is a job: by itself it may put all workers on
one machine. A preferred place is a wish; where it is not free after ``spark.locality.wait``, the task goes elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

_SETTLED_S = 5.0
"""Time after which the tasks of earlier launches run, so that Spark counts them."""
_AGAIN_S = 1.0
"""Least time between two looks."""
DRIVER = "driver"
"""The name of the executor of a local session, which has no place."""


class Executor(NamedTuple):
    """One executor of the application."""

    name: str
    host: str
    slots: int

    @property
    def place(self) -> str:
        """Its name as a preferred place of a task; empty if there is nothing to choose, in a local session."""
        return "" if self.name == DRIVER else f"executor_{self.host}_{self.name}"


def executors(context: Any) -> list[Executor]:
    """Return the executors that are there, by some calls of the JVM for each; in a local session the driver itself."""
    rows = context._jsc.sc().statusStore().executorList(True)
    found = [_executor(rows.apply(index)) for index in range(rows.size())]
    return [one for one in found if one.name != DRIVER] or [one for one in found if one.slots > 0]


def _executor(row: Any) -> Executor:
    return Executor(str(row.id()), str(row.hostPort()).rpartition(":")[0], int(row.maxTasks()))


def running_tasks(context: Any) -> Mapping[str, int]:
    """Return how many tasks run on each executor, of all jobs, by one look."""
    text = str(context._jsc.sc().taskScheduler().runningTasksByExecutors().mkString(","))
    pairs = [pair.rpartition(" -> ") for pair in text.split(",") if pair]
    return {name: int(count) for name, _, count in pairs}


class PlacedRows:
    """Makes RDDs of one row for each of some places, which its tasks prefer. Any thread may call it.

    Each look for a class or a method of Java is a call of the JVM for each part of its name: they are looked for once.
    """

    def __init__(self, context: Any) -> None:
        """Begin; ``context`` is the ``SparkContext``."""
        java = context._jvm
        self._context = context
        self._list, self._one = java.java.util.ArrayList, java.java.util.Collections.singletonList
        self._pair, self._rdd = java.scala.Tuple2, java.org.apache.spark.api.java.JavaRDD
        self._scala = java.PythonUtils.toSeq
        self._kind = context._jsc.emptyRDD().classTag()

    def at(self, places: Sequence[str]) -> Any:
        """Return an RDD with a row for each of the places."""
        from pyspark import RDD
        from pyspark.serializers import CPickleSerializer

        serializer, rows = CPickleSerializer(), self._list()
        for number, place in enumerate(places):
            rows.add(self._pair(serializer.dumps(number), self._scala(self._one(place))))
        made = self._context._jsc.sc().makeRDD(self._scala(rows), self._kind)
        return RDD(self._rdd(made, self._kind), self._context, serializer)


class Emptiest:
    """Chooses executors for launches. Any thread may call it; launches that come together share one look."""

    def __init__(
        self,
        look: Callable[[], Sequence[tuple[Executor, int]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin.

        Args:
            look: returns the executors, each with the number of tasks that run on it.
            clock: seconds.
        """
        self._look, self._clock = look, clock
        self._guard = threading.Lock()
        self._busy: dict[Executor, int] = {}
        self._chosen_s = self._looked_s = -float("inf")

    def choose(self) -> str:
        """Return the place with the smallest share of its slots taken, and count it as taken; empty if none is free."""
        with self._guard:
            now = self._clock()
            is_settled = now - self._chosen_s >= _SETTLED_S
            if is_settled or (not self._free() and now - self._looked_s >= _AGAIN_S):
                self._busy, self._looked_s = dict(self._look()), now
            self._chosen_s = now
            free = self._free()
            if not free:
                return ""
            found = min(free, key=lambda one: (self._busy[one] / one.slots, -one.slots, one.name))
            self._busy[found] += 1
            return found.place

    def _free(self) -> list[Executor]:
        return [one for one, busy in self._busy.items() if busy < one.slots]
