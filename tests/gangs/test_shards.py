"""Every rank of ``fsdp2`` saves its shard; the checkpoint is there once all shards are durable, or not at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from asyncsearch import FIFO, Study, choice
from asyncsearch.events import CheckpointCommitted
from asyncsearch.journal.opening import read_records
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.shared.files import survey
from asyncsearch.store.base_store import Store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.manifest import Sharded, manifest_beside
from tests.gangs.searches import once
from tests.gangs.test_strategies import Clipped, Fsdp2, backend_for, require_same
from tests.shares import IS_ALL, names

UNITS = 3
LOST = (1, 0) if IS_ALL else (1,)
"""Ranks, each of a trial of its own."""
FILES = {f"checkpoint/shard-{rank}-of-2" for rank in range(2)}


class Saving(Fsdp2):
    """Loses a rank once, while it saves: when its shard is written, and nobody knows it yet."""

    def save(self, path: Path) -> None:
        super().save(path)
        if self.trial.rank == self.hp["lost"] and once(Path(self.hp["folder"]), f"killed {self.trial.rank}"):
            os.kill(os.getpid(), signal.SIGKILL)


def searched(store: Store, folder: Path, gang: int | None, trainable: type[Clipped]) -> Study:
    """Search on 2 workers or on one: of each trial a rank is lost, and each saves every unit."""
    made = Study(
        trainable,
        space={"lr": 0.01, "folder": str(folder), "lost": choice(*LOST)},
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=UNITS),
        metric="loss",
        mode="min",
        name="digits",
        backend=backend_for(gang),
        store=store,
        workers_per_trial=gang,
        save_every=1,
    )
    return made.run(len(LOST), parallelism=gang or 1, display="none")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study]:
    """Return a folder for notes, and the search on one worker."""
    folder = tmp_path_factory.mktemp("alone")
    return folder, searched(LocalStore(folder / "s"), folder, None, Clipped)


def store_of(kind: str, folder: Path) -> Store:
    return LocalStore(folder) if kind == "disk" else FsspecStore(f"file://{folder}")


def commits(store: Store) -> list[CheckpointCommitted]:
    return [one.event for one in read_records(store) if isinstance(one.event, CheckpointCommitted)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", names(("disk", "far"), ("far",)))
def test_a_rank_lost_while_it_saves_leaves_no_checkpoint_and_no_file(
    tmp_path: Path, alone: tuple[Path, Study], kind: str
) -> None:
    folder, expected = alone
    for lost in LOST:
        (folder / f"killed {lost}").unlink(missing_ok=True)
    together = searched(store_of(kind, tmp_path / "s"), folder, 2, Saving)
    assert all((folder / f"killed {lost}").exists() for lost in LOST)
    require_same(together, expected)
    committed = commits(together.store)
    assert sorted(one.checkpoint.resource for one in committed) == sorted([1, 2, 3] * len(LOST))
    assert [trial.failures for trial in together.trials] == [0] * len(LOST)
    left = [name for name in together.store.walk() if name.startswith("tmp/")]
    assert (survey(together.store).unfinished, left) == ({}, [])
    for one in [one for one in committed if one.checkpoint in together.store.checkpoints()]:
        with together.store.fetch(one.checkpoint) as files:
            manifest = manifest_beside(files)
        assert manifest is not None
        assert manifest.sharded == Sharded(2, "fsdp2")
        assert {file.name for file in manifest.files} == FILES
        assert one.size_bytes == manifest.size_bytes
