"""The data that all workers of a run share, above all the bundle: sent to each executor once, and not with each launch.

A launch then carries its own endpoint, worker and epoch, and where the rest is. Credentials never come here: Spark
keeps broadcasts in files of its scratch folder. Spark Connect has none: there a launch carries all of it, and a large
bundle goes through the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import threading
from typing import Any, NamedTuple

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import ClusterError
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.store.base_store import Store

_OWN = frozenset(("endpoint", "worker", "epoch", "gpus", "store", "dirs"))
"""Fields of a single launch, and those with credentials: the endpoint's, and the passwords and keys of stores."""
_FIELDS = WorkerConfig.__struct_fields__
MOST_SENT_BYTES = 20_000_000
"""The largest bundle in the closure of a query: 10 MB took 3 s a launch, and Spark Connect refuses 128 MB."""
STORED = "launched-"
"""Begin of the name of a bundle in the store."""
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
        """Return the configuration, in the task."""
        config: WorkerConfig = pickle.loads(self.content)  # noqa: S301 - written by the driver, as above
        return config


class StoredConfig(NamedTuple):
    """A configuration in the closure of a query, whose bundle is in the store of its checkpoints."""

    content: bytes
    name: str
    sha256: str

    def received(self) -> WorkerConfig:
        """Put the configuration together, in the task.

        Raises:
            ClusterError: the bundle is not what the driver has written; others may write to a shared store.
        """
        config: WorkerConfig = pickle.loads(self.content)  # noqa: S301 - written by the driver, as above
        bundle = config.store.read(self.name) or b""
        if hashlib.sha256(bundle).hexdigest() != self.sha256:
            raise ClusterError(f"{config.store.shown}/{self.name} is not the trainable that the driver has written.")
        return msgspec.structs.replace(config, bundle=bundle)


Carried = WorkerConfig | SentConfig | PickledConfig | StoredConfig
"""What the closure of a launch carries."""


class SharedPart:
    """The broadcast of one run, made at the first launch that is worth it. Any thread may call it."""

    def __init__(self, spark: AnySpark) -> None:
        self._spark = spark
        self._guard = threading.Lock()
        self._fields: dict[str, Any] = {}
        """What was broadcast."""
        self._broadcast: Any = None
        self._stored: tuple[Store, str] | None = None
        """The store with the bundle, and its name there."""

    def without(self, config: WorkerConfig) -> Carried:
        """Return the form of a configuration in the closure of its launch."""
        if not self._spark.has_broadcasts:
            return PickledConfig(dumps(config)) if len(config.bundle) <= MOST_SENT_BYTES else self._by_store(config)
        if len(config.bundle) < WORTH_BYTES:
            return config
        with self._guard:
            if self._broadcast is None:
                fields = {name: getattr(config, name) for name in _FIELDS if name not in _OWN}
                self._broadcast, self._fields = self._spark.broadcast(dumps(fields)), fields
        return SentConfig(
            self._broadcast, {name: getattr(config, name) for name in _FIELDS if self._differs(config, name)}
        )

    def _by_store(self, config: WorkerConfig) -> StoredConfig:
        sha256 = hashlib.sha256(config.bundle).hexdigest()
        name = f"{STORED}{sha256[:16]}.bin"
        with self._guard:
            if self._stored is None:
                config.store.write(name, config.bundle)
                self._stored = config.store, name
        return StoredConfig(dumps(msgspec.structs.replace(config, bundle=b"")), name, sha256)

    def destroy(self) -> None:
        """Remove it from the driver and from all executors, once no launch comes any more."""
        with self._guard:
            found, self._broadcast = self._broadcast, None
            stored, self._stored = self._stored, None
        if stored is not None:
            with contextlib.suppress(Exception):  # the store is gone; the next run writes under the same name
                stored[0].remove(stored[1])
        if found is not None:
            with contextlib.suppress(Exception):  # Spark is gone, and all that it kept
                found.destroy()

    def _differs(self, config: WorkerConfig, name: str) -> bool:
        return name not in self._fields or getattr(config, name) != self._fields[name]
