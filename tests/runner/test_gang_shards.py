"""Rank 0 commits once every rank has its shard stored, and no rank waits for one that cannot write."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.runner.gangs.gang_shards import GangShards
from asyncsearch.runner.protocol import GangSeat, WrittenShards

SIZE = 3
Notes = dict[tuple[int, str], str]


class FakeLink:
    """One rank, whose agent stores what it is given; the ranks share their notes."""

    def __init__(self, rank: int, notes: Notes, *, refuses: bool = False) -> None:
        self.seat = GangSeat(rank, SIZE, "127.0.0.1")
        self._notes, self._refuses = notes, refuses
        self.added: list[tuple[int, int, str]] = []

    def tell(self, key: str, value: str) -> None:
        assert (self.seat.rank, key) not in self._notes, "told twice"
        self._notes[self.seat.rank, key] = value

    def await_value(self, rank: int, key: str) -> str:
        return self._notes.pop((rank, key)) if rank else self._notes[rank, key]

    def shard_place(self, stage: int, resource: int) -> str:
        if self._refuses:
            raise StoreError("the store is away")
        return f"place {stage} {resource}"

    def add_shard(self, stage: int, resource: int, place: str) -> str:
        if self._refuses:
            raise StoreError("the store is away")
        self.added.append((stage, resource, place))
        return f"files of rank {self.seat.rank}"


def nothing() -> None:
    """Write nothing."""


def failing() -> None:
    raise ValueError("no such layer")


def shards(link: FakeLink) -> GangShards:
    return GangShards(link, "fsdp2", f"shard-{link.seat.rank}-of-{SIZE}")


def others(notes: Notes, checkpoint: int = 1) -> None:
    """Let the other ranks tell their files of a checkpoint."""
    for rank in range(1, SIZE):
        notes[rank, f"shard {checkpoint}"] = f'{{"files":"files of rank {rank}"}}'


def test_rank_0_has_the_files_of_every_other_rank() -> None:
    notes: Notes = {}
    first = shards(FakeLink(0, notes))
    for checkpoint, resource in ((1, 5), (2, 7)):
        others(notes, checkpoint)
        assert first.write(nothing, 0, resource) == WrittenShards("fsdp2", ("files of rank 1", "files of rank 2"))
        assert notes[0, f"shard place {checkpoint}"] == f"place 0 {resource}"


def test_rank_0_waits_for_every_shard() -> None:
    notes: Notes = {(1, "shard 1"): '{"files":"files of rank 1"}'}
    with pytest.raises(KeyError, match="shard 1"):  # where a real rank waits
        shards(FakeLink(0, notes)).write(nothing, 0, 5)


def test_another_rank_adds_its_shard_where_rank_0_says_and_tells_its_files() -> None:
    notes: Notes = {(0, "shard place 1"): "there"}
    link = FakeLink(2, notes)
    assert shards(link).write(nothing, 1, 5) is None
    assert link.added == [(1, 5, "there")]
    assert "files of rank 2" in notes[2, "shard 1"]


@pytest.mark.parametrize("refuses", [True, False])
def test_rank_0_that_cannot_write_gives_no_place_so_that_nobody_waits(refuses: bool) -> None:
    notes: Notes = {}
    with pytest.raises(StoreError if refuses else ValueError):
        shards(FakeLink(0, notes, refuses=refuses)).write(nothing if refuses else failing, 0, 5)
    assert notes == {(0, "shard place 1"): ""}
    link = FakeLink(1, notes)
    with pytest.raises(StoreError, match="rank 0 could not write"):
        shards(link).write(nothing, 0, 5)
    assert link.added == []


@pytest.mark.parametrize(("refuses", "kind"), [(True, StoreError), (False, UsageError)])
def test_a_rank_that_cannot_write_says_why_and_rank_0_commits_nothing(refuses: bool, kind: type[Exception]) -> None:
    notes: Notes = {(0, "shard place 1"): "there"}
    with pytest.raises(StoreError if refuses else ValueError):
        shards(FakeLink(1, notes, refuses=refuses)).write(nothing if refuses else failing, 0, 5)
    del notes[0, "shard place 1"]
    with pytest.raises(kind, match=r"Rank 1 has no shard: \w+: (the store is away|no such layer)"):
        shards(FakeLink(0, notes)).write(nothing, 0, 5)


def test_only_the_shard_is_kept_of_what_a_rank_above_0_writes(tmp_path: Path) -> None:
    mine = tmp_path / "checkpoint" / "net"
    mine.mkdir(parents=True)
    for name in ("shard-1-of-3", "notes.txt"):
        (mine / name).write_text("x")
    (tmp_path / "checkpoint" / "config.json").write_text("x")
    own = shards(FakeLink(1, {}))
    own.keep_own(tmp_path / "checkpoint")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["shard-1-of-3"]
    (mine / "shard-1-of-3").unlink()
    with pytest.raises(UsageError, match=r"call super\(\)\.save\(path\)"):
        own.keep_own(tmp_path / "checkpoint")
