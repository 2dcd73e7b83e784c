"""What a rank of a gang has in place of a training's own link: all ranks stop, save and pause at the same unit.

Only rank 0 is told by the driver what to do. At the end of each unit it tells the others what it does, and they do the
same: a rank that stopped at another unit would leave the others waiting in the middle of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from asyncsearch.actions import CutWork, SaveAt
from asyncsearch.runner.link import AgentLink
from asyncsearch.runner.protocol import GangSeat, WrittenShards
from asyncsearch.trainable import TrialStopped


class _Decision(msgspec.Struct, frozen=True):
    """What rank 0 has been told up to the end of a unit."""

    stop: str | None = None
    amendments: tuple[SaveAt | CutWork, ...] = ()


_DECISION = msgspec.json.Decoder(_Decision)


class GangLink:
    """A ``runner.link.Link`` whose answers change only in ``agree``, and then in all ranks alike."""

    def __init__(self, link: AgentLink, seat: GangSeat) -> None:
        self.seat = seat
        self._link = link
        self._agreed = 0
        """How often the ranks have agreed."""
        self._now = _Decision()
        self.shards: WrittenShards | None = None
        """What the other ranks have written of the checkpoint that is saved next."""

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which reports and saves for all."""
        return self.seat.rank == 0

    def agree(self) -> None:
        """Take over what rank 0 has been told, at the end of a unit; every rank calls it there."""
        self._agreed += 1
        key = f"decision {self._agreed}"
        if self.is_first:
            self._now = _Decision(self._link.stop_reason(), tuple(self._link.amendments()))
            self.tell(key, msgspec.json.encode(self._now).decode())
        else:
            self._now = _DECISION.decode(self.await_value(0, key))

    def tell(self, key: str, value: str) -> None:
        """Tell the other ranks a value; each key is told once."""
        self._link.tell_gang(self.seat.rank, key, value)

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        """Tell the driver what the ranks tell each other in a unit."""
        if self.is_first:
            self._link.note_volume(steps, gradient_bytes)

    def await_value(self, rank: int, key: str) -> str:
        """Wait for what another rank tells.

        Raises:
            TrialStopped: the gang ended before.
        """
        while (value := self._link.notes.pop((rank, key), None)) is None:
            reason = self._link.wait()
            if reason is not None:
                raise TrialStopped(reason)
        return value

    def report(self, resource: int, metrics: dict[str, float]) -> None:
        if self.is_first:
            self._link.report(resource, metrics)

    def stop_reason(self) -> str | None:
        return self._now.stop

    def amendments(self) -> Sequence[SaveAt | CutWork]:
        amendments, self._now = self._now.amendments, _Decision(self._now.stop)
        return amendments

    def folder(self, stage: int, resource: int, *, is_needed: bool = False, failed: str = "") -> Path:
        return self._link.folder(stage, resource, is_needed=is_needed, failed=failed)

    def shard_place(self, stage: int, resource: int) -> str:
        return self._link.shard_place(stage, resource)

    def add_shard(self, stage: int, resource: int, place: str) -> str:
        return self._link.add_shard(stage, resource, place)

    def saved(self, stage: int, resource: int, *, is_last: bool) -> None:
        shards, self.shards = self.shards, None
        self._link.saved(stage, resource, is_last=is_last, shards=shards)

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        self._link.save_failed(stage, resource, error)

    def close(self, refusal: str) -> None:
        self._link.close(refusal)
