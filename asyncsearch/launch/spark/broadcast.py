"""What all workers of a run share, above all the bundle: sent to each executor once, instead of with each launch.

A launch then carries its own endpoint, worker and epoch, and where the rest is. Credentials never come here: Spark
keeps broadcasts in files of its scratch folder.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from typing import Any, NamedTuple

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.value_pickler import dumps

_OWN = frozenset(("endpoint", "worker", "epoch", "gpus", "store", "dirs"))
"""Fields of a single launch, and those with credentials: the endpoint's, and the passwords and keys of stores."""
_FIELDS = WorkerConfig.__struct_fields__
WORTH_BYTES = 32_768
"""Size from which a broadcast is made: below, the time of its transfer is more than that of the bytes."""


class SentConfig(NamedTuple):
    """A configuration in a task's closure: its own part, and the broadcast with the rest."""

    shared: Any
    """A ``pyspark.Broadcast`` of the pickled fields that all workers share."""
    own: dict[str, Any]

    def received(self) -> WorkerConfig:
        """Put the configuration together, in the task."""
        # Written by the driver of this task, whose closure names it.
        return WorkerConfig(**(pickle.loads(self.shared.value) | self.own))  # noqa: S301


class PickledConfig(NamedTuple):
    """A whole configuration in the closure of a query, whose own pickler knows nothing of the user's modules."""

    content: bytes

    def received(self) -> WorkerConfig:
        """Return it, in the task."""
        config: WorkerConfig = pickle.loads(self.content)  # noqa: S301 - written by the driver, as above
        return config


Carried = WorkerConfig | SentConfig | PickledConfig
"""What the closure of a launch carries."""


class SharedPart:
    """The broadcast of one run, made at the first launch that is worth it. Any thread may call it."""

    def __init__(self, spark: AnySpark) -> None:
        self._spark = spark
        self._guard = threading.Lock()
        self._fields: dict[str, Any] = {}
        """What was broadcast."""
        self._broadcast: Any = None

    def without(self, config: WorkerConfig) -> Carried:
        """Return what the closure of a launch is to carry."""
        if not self._spark.has_broadcasts:
            return PickledConfig(dumps(config))
        if len(config.bundle) < WORTH_BYTES:
            return config
        with self._guard:
            if self._broadcast is None:
                fields = {name: getattr(config, name) for name in _FIELDS if name not in _OWN}
                self._broadcast, self._fields = self._spark.broadcast(dumps(fields)), fields
        return SentConfig(
            self._broadcast, {name: getattr(config, name) for name in _FIELDS if self._differs(config, name)}
        )

    def destroy(self) -> None:
        """Remove it from the driver and from all executors, once no launch comes any more."""
        with self._guard:
            found, self._broadcast = self._broadcast, None
        if found is not None:
            with contextlib.suppress(Exception):  # Spark is gone, and all that it kept
                found.destroy()

    def _differs(self, config: WorkerConfig, name: str) -> bool:
        return name not in self._fields or getattr(config, name) != self._fields[name]
