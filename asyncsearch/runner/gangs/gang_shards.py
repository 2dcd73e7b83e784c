"""A checkpoint that all ranks of a gang write, each its shard; rank 0 commits it once the others' shards are durable.

Pseudocode of a save::

    every rank:  write the own shard in a local folder
    rank 0:      ask the store for a place, and tell it             others: await the place
    rank 0:      await the note of each other rank                  others: add the shard there, and tell its files
    rank 0:      tell the agent that all is written, which commits

A rank that cannot write tells why, so that no other one waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.files.plain import is_folder
from asyncsearch.files.trees import walk
from asyncsearch.runner.protocol import GangSeat, WrittenShards


class _ShardResult(msgspec.Struct, frozen=True):
    """The note of a rank above 0 about its shard."""

    files: str = ""
    error: str = ""
    """Why there is no shard; empty if there is one."""
    is_store: bool = False
    """Whether the store could not take it, rather than that it could not be written."""


_RESULT = msgspec.json.Decoder(_ShardResult)


class ShardLink(Protocol):
    """The ranks of the gang, and the agent of this one."""

    seat: GangSeat

    def tell(self, key: str, value: str) -> None: ...

    def await_value(self, rank: int, key: str) -> str: ...

    def shard_place(self, stage: int, resource: int) -> str: ...

    def add_shard(self, stage: int, resource: int, place: str) -> str: ...


class GangShards:
    """Writes the shards of checkpoints; every rank makes one, and calls ``write`` as often as the others."""

    def __init__(self, ranks: ShardLink, strategy: str, file: str) -> None:
        """Begin.

        Args:
            ranks: the gang.
            strategy: name of the strategy that divides the state.
            file: name of this rank's shard.
        """
        self._ranks, self._strategy, self._file = ranks, strategy, file
        self._number = 0
        """How many checkpoints were begun."""

    def write(self, write: Callable[[], None], stage: int, resource: int) -> WrittenShards | None:
        """Write this rank's shard by ``write``; return the others' in rank 0, once they are durable, else None.

        Raises:
            StoreError: a store could not take a shard.
            UsageError: in rank 0, another rank could not write its shard.
            Exception: by ``write``.
        """
        self._number += 1
        if self._ranks.seat.rank:
            self._follow(write, stage, resource)
            return None
        place = ""
        try:
            write()
            place = self._ranks.shard_place(stage, resource)
        finally:  # without a place, too: the other ranks await the answer
            self._ranks.tell(f"shard place {self._number}", place)
        return WrittenShards(self._strategy, tuple(map(self._files_of, range(1, self._ranks.seat.size))))

    def keep_own(self, path: Path) -> None:
        """Remove the files that ``save`` has written at a path, except this rank's shard: rank 0's other files count.

        Raises:
            UsageError: there is no shard.
        """
        files = [path / entry.name for entry in walk(path) if not entry.is_folder] if is_folder(path) else [path]
        for file in files:
            if file.name != self._file:
                file.unlink(missing_ok=True)
        if not any(file.name == self._file for file in files):
            raise UsageError(
                f"save() wrote no shard of this rank: with strategy={self._strategy!r} call super().save(path) in it,"
                " on every rank."
            )

    def _follow(self, write: Callable[[], None], stage: int, resource: int) -> None:
        result = _ShardResult(error="it was interrupted", is_store=True)
        try:
            write()
            place = self._ranks.await_value(0, f"shard place {self._number}")
            if not place:
                raise StoreError("There is no checkpoint: rank 0 could not write its shard.")
            result = _ShardResult(self._ranks.add_shard(stage, resource, place))
        except Exception as error:
            result = _ShardResult("", f"{type(error).__name__}: {error}", isinstance(error, StoreError))
            raise
        finally:  # whatever has happened: rank 0 awaits it before it commits
            self._ranks.tell(f"shard {self._number}", msgspec.json.encode(result).decode())

    def _files_of(self, rank: int) -> str:
        result = _RESULT.decode(self._ranks.await_value(rank, f"shard {self._number}"))
        if result.error:
            raise (StoreError if result.is_store else UsageError)(f"Rank {rank} has no shard: {result.error}")
        return result.files
