"""The agents of a gang's ranks store the shards of a checkpoint, and leave none of one that is not committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch.agent.config import LogLimits
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.transfers import TaskQueue
from asyncsearch.agent.trial_folders import TrialFolders
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.events import CheckpointCommitted
from asyncsearch.runner.protocol import (
    Folder,
    FolderWanted,
    GangSeat,
    Saved,
    SaveFailed,
    ShardAnswer,
    ShardPlaceWanted,
    ShardWritten,
    WrittenShards,
)
from asyncsearch.runner.trial_folder import MOST_BYTES
from asyncsearch.shared.files import survey
from asyncsearch.store.base_store import Store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.local.store import LocalStore
from asyncsearch.testing.store_checkpoints import load
from asyncsearch.work import Lane
from tests.agent.driver import lease, make_stage


@pytest.fixture(params=["disk", "far"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = LocalStore(tmp_path / "s") if request.param == "disk" else FsspecStore(f"file://{tmp_path}/s")
    made.prepare()
    return made


class AtOnce(TaskQueue):
    """Runs transfers where they are asked for."""

    def submit(self, task: Callable[[], None]) -> None:
        task()


class Rank:
    """The agent of one rank, whose transfers are done at once."""

    def __init__(self, store: Store, rank: int) -> None:
        self.sent: list[Any] = []
        self.folders: list[Folder] = []
        self.answers: list[ShardAnswer] = []
        self.run = LaneRun(lease(0), 0, Lane((make_stage(start=0, stop=2, max_resource=2, save=True),)), LogLimits())
        self.run.seat = GangSeat(rank, 2, "127.0.0.1")
        self.checkpoints = WorkerCheckpoints(
            store,
            self.sent.append,
            self._post,
            self._tell,
            TrialFolders(None, MOST_BYTES),
            AtOnce(lambda run, delay_s: None),
        )

    def write(self) -> None:
        """Write this rank's shard in a folder."""
        self.checkpoints.want(self.run, FolderWanted(0, 2))
        path = self.folders[-1].checkpoint
        path.mkdir()
        assert self.run.seat is not None
        (path / f"shard-{self.run.seat.rank}").write_bytes(b"x" * 10)

    def place(self) -> str:
        self.checkpoints.want_shard_place(self.run, ShardPlaceWanted(0, 2))
        return self.answers[-1].value

    def add(self, place: str) -> str:
        self.checkpoints.add_shard(self.run, ShardWritten(0, 2, place))
        return self.answers[-1].value if self.answers else ""

    def _tell(self, answer: Folder | ShardAnswer) -> None:
        if isinstance(answer, Folder):
            self.folders.append(answer)
        else:
            self.answers.append(answer)

    def _post(self, item: Any) -> None:
        self.checkpoints.transferred(item)


def ranks(store: Store) -> tuple[Rank, Rank, str]:
    """Return two ranks that have written their shards, and the place of the second one's."""
    first, second = Rank(store, 0), Rank(store, 1)
    first.write()
    second.write()
    return first, second, first.place()


def left(store: Store) -> list[str]:
    return [name for name in store.walk() if "shard" in name] + list(survey(store).unfinished)


def test_rank_0_commits_its_shard_with_those_that_others_added(store: Store) -> None:
    first, second, place = ranks(store)
    files = second.add(place)
    first.checkpoints.saved(first.run, Saved(0, 2, shards=WrittenShards("fsdp2", (files,))))
    checkpoint = first.run.checkpoint(0, 2)
    assert first.sent == [CheckpointCommitted(lease(0), checkpoint, 20)]
    assert second.sent == []
    assert load(store, checkpoint) == {f"checkpoint/shard-{rank}": b"x" * 10 for rank in range(2)}
    first.checkpoints.forget(first.run)
    assert store.checkpoints() == [checkpoint]


@pytest.mark.parametrize("how", ["ended", "failed"])
def test_shards_of_a_checkpoint_that_rank_0_gives_up_are_removed(store: Store, how: str) -> None:
    first, second, place = ranks(store)
    second.add(place)
    assert left(store)
    if how == "ended":
        first.checkpoints.forget(first.run)
    else:
        first.checkpoints.save_failed(first.run, SaveFailed(0, 2, "Rank 2 has no shard", "store"))
    second.checkpoints.forget(second.run)
    assert (left(store), store.checkpoints()) == ([], [])


def test_a_shard_that_arrives_when_its_training_is_over_is_removed(store: Store) -> None:
    first, second, place = ranks(store)
    first.checkpoints.forget(first.run)
    second.run.is_over = True
    assert second.add(place) == ""
    assert left(store) == []


def test_a_place_that_is_given_when_the_training_is_over_is_given_back(store: Store) -> None:
    first = Rank(store, 0)
    first.write()
    first.run.is_over = True
    first.checkpoints.want_shard_place(first.run, ShardPlaceWanted(0, 2))
    assert (first.answers, first.run.shard_places) == ([], {})


def test_a_follower_that_could_not_save_tells_the_driver_nothing(store: Store) -> None:
    second = Rank(store, 1)
    second.write()
    second.checkpoints.save_failed(second.run, SaveFailed(0, 2, "the disk is full", "store"))
    assert (second.sent, left(store)) == ([], [])


def test_a_shard_without_a_place_is_refused_in_words(store: Store) -> None:
    _, second, _ = ranks(store)
    second.add("elsewhere")
    assert second.answers[-1].error.startswith("'elsewhere' is no place for shards")
    assert msgspec.json.encode(second.answers[-1].value) == b'""'
