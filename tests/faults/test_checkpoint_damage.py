"""A checkpoint that was damaged in any way is refused in words, and never trained on."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch import FIFO, Study, uniform
from asyncsearch.errors import CheckpointError, StoreError, TrialsFailedError
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import LocalStore
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.testing.store_checkpoints import NODE, OTHER, REF
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.faults.counts import counted
from tests.faults.damages import put_strange
from tests.shares import seeds

SIZES = [0, 1, 7, 100, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20, 9 << 20]
Contents = dict[str, bytes | None]
"""Files by name. None is a folder."""


def contents(folder: Path) -> Contents:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


def random_checkpoint(dice: random.Random, size: int) -> Contents:
    names = ["model", "optimizer", "deep/er/state", "other model"]
    files: Contents = {name: dice.randbytes(dice.choice(SIZES[:5])) for name in names[: dice.randrange(4)]}
    return {"folder": None, "deep": None, "deep/er": None, **files, "big": dice.randbytes(size)}


def commit(store: LocalStore | FsspecStore, ref: CheckpointRef, checkpoint: Contents) -> None:
    staged = store.stage(ref)
    for name, data in checkpoint.items():
        if data is None:
            (staged / name).mkdir(parents=True)
        else:
            (staged / name).write_bytes(data)
    store.commit(ref, staged)


def any_file(dice: random.Random, folder: Path) -> Path:
    return dice.choice(sorted(path for path in folder.rglob("*") if path.is_file()))


def flip_a_bit(dice: random.Random, folder: Path, _other: Path, *, where: str = "files/big") -> None:
    path = folder / where
    data = bytearray(path.read_bytes()) or bytearray(b"\0")
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def flip_a_bit_of_the_manifest(dice: random.Random, folder: Path, other: Path) -> None:
    flip_a_bit(dice, folder, other, where="manifest.json")


def blank_a_block(dice: random.Random, folder: Path, _other: Path) -> None:
    path = any_file(dice, folder)
    with open(path, "r+b") as file:
        file.seek(dice.randrange(path.stat().st_size + 1))
        file.write(bytes(dice.randrange(1, 5000)))


def cut(dice: random.Random, folder: Path, _other: Path) -> None:
    path = any_file(dice, folder)
    os.truncate(path, dice.randrange(path.stat().st_size + 1))


def lengthen(dice: random.Random, folder: Path, _other: Path) -> None:
    with open(any_file(dice, folder), "ab") as file:
        file.write(dice.randbytes(dice.randrange(1, 100)))


def lose_a_file(dice: random.Random, folder: Path, _other: Path) -> None:
    any_file(dice, folder).unlink()


def swap_two_files(dice: random.Random, folder: Path, _other: Path) -> None:
    one, two = any_file(dice, folder), any_file(dice, folder)
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)


def put_a_folder_in_place_of_a_file(dice: random.Random, folder: Path, _other: Path) -> None:
    path = any_file(dice, folder)
    path.unlink()
    path.mkdir()


def take_a_file_of_another(_dice: random.Random, folder: Path, other: Path) -> None:
    shutil.copy(other / "files" / "big", folder / "files" / "big")


def take_the_manifest_of_another(_dice: random.Random, folder: Path, other: Path) -> None:
    shutil.copy(other / "manifest.json", folder / "manifest.json")


def take_the_place_of_another(_dice: random.Random, folder: Path, other: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def lose_everything(_dice: random.Random, folder: Path, _other: Path) -> None:
    shutil.rmtree(folder)


def put_something_strange(dice: random.Random, folder: Path, _other: Path) -> None:
    put_strange(any_file(dice, folder), dice)


def exchange_a_file_with_another(dice: random.Random, folder: Path, other: Path) -> None:
    one, two = folder / "files" / "big", other / "files" / "big"
    one.rename(folder / "files" / "moved")
    two.rename(one)
    (folder / "files" / "moved").rename(two)


def add_something(dice: random.Random, folder: Path, _other: Path) -> None:
    """Add what the manifest does not name: a file, and something strange or a deep folder."""
    places = [folder / "files", folder / "files" / "folder", folder]
    place = dice.choice([place for place in places if place.is_dir()])  # a far store has no empty folders
    (place / "added").write_bytes(dice.randbytes(10))
    (place / "more").write_bytes(b"x")
    put_strange(place / "more", dice)


def turn_a_folder_into_a_link(_dice: random.Random, folder: Path, other: Path) -> None:
    if (folder / "files" / "deep").exists():
        (folder / "files" / "deep").rename(folder / "moved")
    (folder / "files" / "deep").symlink_to(folder / "moved")


DAMAGES: list[Callable[[random.Random, Path, Path], None]] = [
    flip_a_bit,
    flip_a_bit_of_the_manifest,
    blank_a_block,
    cut,
    lengthen,
    lose_a_file,
    swap_two_files,
    put_a_folder_in_place_of_a_file,
    take_a_file_of_another,
    take_the_manifest_of_another,
    take_the_place_of_another,
    lose_everything,
    put_something_strange,
    exchange_a_file_with_another,
    add_something,
    turn_a_folder_into_a_link,
]


@counted(damages=1)
@pytest.mark.parametrize("seed", range(len(seeds(260))))
def test_a_damaged_checkpoint_is_as_it_was_or_refused(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dice = random.Random(seed)
    damage, size = DAMAGES[seed % len(DAMAGES)], SIZES[(seed + seed // 60) % len(SIZES)]
    is_far = seed // len(DAMAGES) % 2
    store = FsspecStore(f"file://{tmp_path}/store") if is_far else LocalStore(tmp_path / "store")
    store.prepare()
    committed = random_checkpoint(dice, size)
    commit(store, REF, committed)
    commit(store, CheckpointRef(OTHER, 27), random_checkpoint(dice, size))
    (folder,) = (tmp_path / "store" / "checkpoints" / NODE).iterdir()
    (other,) = (tmp_path / "store" / "checkpoints" / OTHER).iterdir()
    damage(dice, folder, other)
    with contextlib.suppress(StoreError), store.fetch(REF) as fetched:
        assert contents(fetched) == committed, f"seed {seed}: {damage.__name__} went unseen"


def test_a_retried_trial_does_not_go_on_from_a_damaged_checkpoint(tmp_path: Path) -> None:
    size, damaged, loaded = 2 << 20, tmp_path / "damaged", tmp_path / "loaded"

    def train(trial: TrialContext) -> None:
        weights = [b""]

        def save(path: Path) -> None:
            path.write_bytes(weights[0])

        def load(path: Path) -> None:
            weights[0] = path.read_bytes()
            with open(loaded, "a") as file:
                file.write(f"{sorted(set(weights[0]))}\n")

        for epoch in trial.epochs(save=save, load=load):
            weights[0] = bytes([epoch]) * size
            trial.report(x=float(epoch))
            if epoch == 5 and not damaged.exists():
                for version in (tmp_path / "store" / "checkpoints").glob("*/*"):
                    with contextlib.suppress(FileNotFoundError):  # the driver removes those that nobody needs
                        with open(version / "files" / "checkpoint", "r+b") as file:
                            file.seek(size - 1)
                            file.write(b"x")
                        damaged.touch()
                raise RuntimeError("once")

    study = Study(
        train,
        space={"y": uniform(0, 1)},
        metric="x",
        mode="max",
        scheduler=FIFO(max_resource=6),
        backend="inline",
        store=tmp_path / "store",
        save_every=1,
        max_failures=1,
    )
    study.run(num_trials=1)
    assert damaged.exists()
    assert not loaded.exists(), f"it trained on {loaded.read_text()}"
    assert study.trials[0].value == 6.0
    assert study.trials[0].state is TrialState.COMPLETED


@pytest.mark.parametrize("how", ["damaged", "removed", "not whole", "fine"])
def test_a_checkpoint_that_load_finds_not_whole_is_no_failure_of_its_trial(tmp_path: Path, how: str) -> None:
    loads: list[str] = []
    tries: list[int] = []

    def train(trial: TrialContext) -> None:
        known = [0]

        def load(path: Path) -> None:
            loads.append(path.read_text())
            if len(loads) == 1:  # what a disk does between the look at a checkpoint and its load
                path.chmod(0o600)
                if how == "damaged":
                    path.write_text("other")
                elif how == "removed":
                    path.unlink()
                elif how == "not whole":
                    raise CheckpointError("a shard is missing")
                raise ValueError("this is no checkpoint")
            known[0] = int(loads[-1])

        def save(path: Path) -> None:
            path.write_text(str(known[0]))

        for epoch in trial.epochs(save=save, load=load):
            known[0] += 1
            assert known[0] == epoch
            trial.report(x=float(epoch))
            if epoch == 4 and not tries:
                tries.append(epoch)
                raise RuntimeError("once")

    study = Study(
        train,
        space={"y": uniform(0, 1)},
        metric="x",
        mode="max",
        scheduler=FIFO(max_resource=5),
        backend="inline",
        store=tmp_path / "store",
        save_every=2,
        max_failures=1,
    )
    with contextlib.suppress(TrialsFailedError):
        study.run(num_trials=1, display="none")
    (trial,) = study.trials
    assert trial.state is (TrialState.FAILED if how == "fine" else TrialState.COMPLETED)
    assert trial.failures == (2 if how == "fine" else 1), "only what the trial raised itself counts"
    assert how == "fine" or trial.value == 5.0
