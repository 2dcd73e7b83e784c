"""The ranks of a gang, as a training meets them in place of its own trial and link: all stop, save and pause together.

Only rank 0 is told by the driver what to do. At the end of each unit it tells the others, and they do the same: a rank
that stopped at another unit would leave the others waiting in the middle of a step. Until the ranks are connected they
tell each other by way of the driver; a trainer that connects them lets them agree directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from asyncsearch.errors import StoreError
from asyncsearch.runner.agent_link import AgentLink
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.gangs.gang_shards import GangShards
from asyncsearch.runner.process.process_state import rank_connections
from asyncsearch.runner.protocol import Amendment, GangSeat, WrittenShards
from asyncsearch.runner.stopwatch import Stopwatch
from asyncsearch.trainable import SaveFunction, TrialStopped
from asyncsearch.trainable.gang import RankConnection
from asyncsearch.work import Stage

C = TypeVar("C", bound=RankConnection)


class _Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The messages of the driver to rank 0 up to the end of a unit."""

    stop: str | None = None
    amendments: tuple[Amendment, ...] = ()
    judged: int | UnsetType | None = UNSET
    """Where the trial is judged next; left out: as before."""


_DECISION = msgspec.json.Decoder(_Decision)
_UNCHANGED = _Decision()


class GangLink:
    """A ``runner.link.Link`` whose answers change only in ``agree``, and then in all ranks alike.

    It is the ``TrialContext.gang`` of a trainer, too.
    """

    def __init__(self, link: AgentLink, seat: GangSeat) -> None:
        self.seat = seat
        self.gather: Callable[[], None] = lambda: None
        """Called in every rank before rank 0 saves."""
        self.shards: GangShards | None = None
        """None: rank 0 saves alone."""
        self.written: WrittenShards | None = None
        """The other ranks' shards of the checkpoint that is saved next."""
        self._link = link
        self._connections: dict[type[Any], Any] = {}
        self._pass_on: Callable[[bytes], bytes] = self._pass_on_by_driver
        self.judged: int | None = None
        """Where the trial is judged next, as the ranks have agreed. None means nowhere."""
        self._agreed = 0
        """How often the ranks have agreed by way of the driver."""
        self._now = _UNCHANGED

    @property
    def stopwatch(self) -> Stopwatch:
        return self._link.stopwatch

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which reports and saves for all."""
        return self.seat.rank == 0

    def connected(self, kind: type[C], connect: Callable[[], C]) -> C:
        if kind not in self._connections:
            self._connections[kind] = connect()
            rank_connections.keep(self._connections[kind])
        found: C = self._connections[kind]
        return found

    def agree_by(self, pass_on: Callable[[bytes], bytes]) -> None:
        self._pass_on = pass_on

    def agree(self, judged: int | None) -> int | None:
        """Take over, at the end of a unit, what rank 0 is to do; every rank calls it there.

        Args:
            judged: where rank 0 is judged next. None means nowhere. Of other ranks it does not count.

        Returns:
            Where it is.
        """
        if not self.is_first:
            received = self._pass_on(b"")
            self._now = _DECISION.decode(received) if received else _UNCHANGED
            if self._now.judged is not UNSET:
                self.judged = self._now.judged
            return self.judged
        news = UNSET if judged == self.judged else judged
        self.judged = judged
        self._now = _Decision(self._link.stop_reason(), tuple(self._link.amendments()), news)
        # Most units change nothing, which is then the shortest message that there is.
        self._pass_on(b"" if self._now == _UNCHANGED else msgspec.json.encode(self._now))
        return judged

    def _pass_on_by_driver(self, decision: bytes) -> bytes:
        self._agreed += 1
        # Numbered, since rank 0 may tell its next decision before another rank has taken this one.
        key = f"decision {self._agreed}"
        if not self.is_first:
            return self.await_value(0, key).encode()
        self.tell(key, decision.decode())
        return decision

    def tell(self, key: str, value: str) -> None:
        self._link.tell_gang(self.seat.rank, key, value)

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        """Tell the driver the volume of the ranks' messages in a unit."""
        if self.is_first:
            self._link.note_volume(steps, gradient_bytes)

    def await_value(self, rank: int | None, key: str) -> str:
        while (value := self._taken(rank, key)) is None:
            if (reason := self._link.wait()) is not None:
                raise TrialStopped(reason)
        return value

    def _taken(self, rank: int | None, key: str) -> str | None:
        places = [(rank, key)] if rank is not None else [place for place in self._link.notes if place[1] == key]
        return self._link.notes.pop(places[0], None) if places else None

    def before_saving(self, gather: Callable[[], None]) -> None:
        self.gather = gather

    def save_in_shards(self, strategy: str, file: str) -> None:
        self.shards = GangShards(self, strategy, file)

    def report(self, resource: int, metrics: dict[str, float], *, is_awaited: bool = False) -> None:
        if self.is_first:
            self._link.report(resource, metrics, is_awaited=is_awaited)

    def await_verdict(self, resource: int, timeout_s: float) -> int | None:
        # The others wait for what it tells them, at the end of each unit.
        return self._link.await_verdict(resource, timeout_s) if self.is_first else resource + 1

    def stop_reason(self) -> str | None:
        return self._now.stop

    def amendments(self) -> Sequence[Amendment]:
        amendments, self._now = self._now.amendments, _Decision(self._now.stop)
        return amendments

    def folder(self, stage: int, resource: int, *, is_needed: bool = False, failed: str = "") -> Path:
        return self._link.folder(stage, resource, is_needed=is_needed, failed=failed)

    def shard_place(self, stage: int, resource: int) -> str:
        return self._link.shard_place(stage, resource)

    def add_shard(self, stage: int, resource: int, place: str) -> str:
        return self._link.add_shard(stage, resource, place)

    def saved(self, stage: int, resource: int, *, is_last: bool) -> None:
        written, self.written = self.written, None
        self._link.saved(stage, resource, is_last=is_last, shards=written)

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        self._link.save_failed(stage, resource, error)

    def close(self, refusal: str) -> None:
        self._link.close(refusal)


class GangContext(SearchContext):
    """Rank 0 reports and saves; the others train along, and pause and stop where it does."""

    def __init__(self, stages: Sequence[Stage], link: GangLink, load: Path | None, **options: Any) -> None:
        """Begin; the rest is as in ``SearchContext``."""
        super().__init__(stages, link, load, **options)
        self._gang, link.judged = link, self._timeline.judged
        self._has_volume = False
        """Whether the driver was told the volume of the ranks' messages."""
        self.has_reported = not link.is_first  # rank 0 reports for all

    @property
    def gang(self) -> GangLink:
        return self._gang

    @property
    def rank(self) -> int:
        return self._gang.seat.rank

    @property
    def world_size(self) -> int:
        return self._gang.seat.size

    def process_group(self, backend: str | None = None) -> Any:
        # Imported here: a runner whose trials train alone, or without torch, needs none of it.
        from asyncsearch.trainers.torch.gangs.connection import open_group

        self._require_training("process_group()")
        return open_group(self._gang, backend)

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        if not self._has_volume:
            self._has_volume = True
            self._gang.note_volume(steps, gradient_bytes)

    def _may_wait(self, at: int) -> bool:
        # Without epochs() a rank would not know that the first one waits, and train on.
        return self.uses_epochs and super()._may_wait(at)

    def _agree(self) -> None:
        self._timeline.judged = self._gang.agree(self._timeline.judged)

    def _save(self, save: SaveFunction) -> str | None:
        self._gang.gather()
        if self._gang.is_first:
            return super()._save(save)
        self._timeline.saved(self._done)
        if self._gang.shards is not None:
            self._save_shard(save, self._gang.shards)
        return None

    def _save_shard(self, save: SaveFunction, shards: GangShards) -> None:
        """Save this rank's shard; an error of rank 0 is told by rank 0."""

        def save_own(path: Path) -> None:
            save(path)
            shards.keep_own(path)

        index = self._timeline.index_at(self._done)
        try:
            self._write(save_own, index)
        except Exception as error:
            if self._timeline.is_save_needed(self._done) and not isinstance(error, StoreError):
                raise
            self._gang.save_failed(index, self._done, error)

    def _write(self, save: SaveFunction, index: int) -> None:
        write, shards = super()._write, self._gang.shards
        if shards is None:
            write(save, index)
        else:
            self._gang.written = shards.write(lambda: write(save, index), index, self._done)

    def _add_folder(self, checkpoint: Path) -> None:
        if self._gang.is_first:
            super()._add_folder(checkpoint)
