"""A worker goes on from what it saved or loaded last without fetching it again."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.agent.checkpoint_cache import CheckpointCache
from asyncsearch.errors import StoreError
from asyncsearch.events import Outcome, Reported
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.manifest import PackedWith
from tests.agent import trials
from tests.agent.driver import NODE, agent, committed


class FarStore(FsspecStore):
    """Counts what is fetched from it, and what lies on this machine because of that."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"file://{folder}")
        self.fetched: list[CheckpointRef] = []
        self.here: list[Path] = []

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        self.fetched.append(checkpoint)
        with super().fetch(checkpoint) as folder:
            self.here.append(folder)
            yield folder


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FarStore:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    store = FarStore(tmp_path / "store")
    store.prepare()
    return store


def ref(resource: int, node: NodeKey = NODE) -> CheckpointRef:
    return CheckpointRef(node, resource)


def save(cache: CheckpointCache | FarStore, store: FarStore, resource: int, size_bytes: int = 3) -> None:
    staged = store.stage(ref(resource))
    (staged / "checkpoint").write_bytes(b"x" * size_bytes)
    cache.commit(ref(resource), staged)


def load(cache: CheckpointCache, resource: int) -> int:
    with cache.fetch(ref(resource)) as folder:
        return len((folder / "checkpoint").read_bytes())


def left(tmp_path: Path) -> list[str]:
    """Return the names of all that lies in the temporary folder, but for the empty one in which roots lie."""
    return [path.name for path in (tmp_path / "tmp").rglob("*")][1:]


def test_what_was_saved_here_is_not_fetched(store: FarStore) -> None:
    cache = CheckpointCache(store)
    save(cache, store, 2)
    assert load(cache, 2) == 3
    assert store.fetched == []
    assert list(store.checkpoints()) == [ref(2)], "it is durable all the same"


def test_what_was_loaded_here_is_fetched_once(store: FarStore) -> None:
    save(store, store, 2)
    cache = CheckpointCache(store)
    assert [load(cache, 2), load(cache, 2)] == [3, 3]
    assert store.fetched == [ref(2)]


@pytest.mark.parametrize("was_saved_here", [True, False])
def test_a_copy_that_somebody_wrote_to_is_fetched_anew(store: FarStore, was_saved_here: bool) -> None:
    cache = CheckpointCache(store)
    save(cache if was_saved_here else store, store, 2)
    with cache.fetch(ref(2)) as folder:
        before = len(store.fetched)
        with open(folder / "checkpoint", "r+b") as file:
            file.write(b"y")
    for _ in range(2):
        with cache.fetch(ref(2)) as folder:
            assert (folder / "checkpoint").read_bytes() == b"xxx"
    assert len(store.fetched) == before + 1


def test_of_many_those_that_were_used_last_are_kept(store: FarStore) -> None:
    cache = CheckpointCache(store, most=2)
    save(cache, store, 1)
    save(cache, store, 2)
    load(cache, 1)
    save(cache, store, 3)
    for resource in (1, 3, 2):
        load(cache, resource)
    assert store.fetched == [ref(2)]


def test_no_more_bytes_are_kept_than_there_is_room_for(store: FarStore, tmp_path: Path) -> None:
    cache = CheckpointCache(store, most_bytes=10)
    save(cache, store, 1, 6)
    save(cache, store, 2, 6)
    save(cache, store, 3, 11)
    assert len(left(tmp_path)) == 0
    assert [load(cache, 3), load(cache, 1), load(cache, 1)] == [11, 6, 6]
    assert store.fetched == [ref(3), ref(1)]


def test_what_is_in_use_stays_until_it_is_not(store: FarStore, tmp_path: Path) -> None:
    cache = CheckpointCache(store, most=1)
    save(cache, store, 1)
    with cache.fetch(ref(1)) as first, cache.fetch(ref(1)) as again:
        save(cache, store, 2)
        assert first == again
        assert (first / "checkpoint").exists()
    assert not first.exists()
    cache.close()
    assert left(tmp_path) == []


def test_what_is_saved_again_takes_the_place_of_what_was_there(store: FarStore) -> None:
    cache = CheckpointCache(store)
    save(cache, store, 1, 3)
    save(cache, store, 1, 4)
    assert load(cache, 1) == 4


def test_what_could_not_be_made_durable_is_not_kept(
    store: FarStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(checkpoint: CheckpointRef, staged: Path) -> int:
        raise StoreError("the disk is full")

    cache = CheckpointCache(store)
    monkeypatch.setattr(store, "commit", full)
    with pytest.raises(StoreError, match="full"):
        save(cache, store, 1)
    assert not [name for name in left(tmp_path) if "kept" in name]
    with pytest.raises(StoreError):
        load(cache, 1)


def test_what_somebody_removed_is_fetched_again(store: FarStore) -> None:
    save(store, store, 2)
    cache = CheckpointCache(store)
    load(cache, 2)
    (store.here[0] / "checkpoint").unlink()
    store.here[0].rmdir()
    assert load(cache, 2) == 3


def test_a_store_on_this_disk_is_used_as_it_is(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.prepare()
    cache = CheckpointCache(store)
    staged = store.stage(ref(1))
    (staged / "checkpoint").write_bytes(b"abc")
    cache.commit(ref(1), staged)
    with cache.fetch(ref(1)) as folder:
        assert tmp_path / "checkpoints" in folder.parents
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_worker_that_goes_on_with_its_own_trial_fetches_nothing(store: FarStore, tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=2, max_resource=6, save=True)
        committed(driver, 2)
        driver.end(0)
        driver.train(1, start=2, stop=6, max_resource=6, load=ref(2))
        assert driver.end(1).outcome is Outcome.RETURNED
        driver.train(2, start=2, stop=4, max_resource=6, load=ref(2))
        driver.end(2)
    assert [report.metrics["seen"] for report in driver.of(Reported, 1)] == [3, 4, 5, 6]
    assert store.fetched == []
    assert left(tmp_path) == []


def test_another_worker_fetches_it_once(store: FarStore, tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=2, max_resource=6, save=True)
        committed(driver, 2)
    with agent(trials.remembers, tmp_path, store=store) as driver:
        for number in range(2):
            driver.train(number, start=2, stop=6, max_resource=6, load=ref(2))
            assert driver.end(number).outcome is Outcome.RETURNED
    assert store.fetched == [ref(2)]


def test_a_local_disk_that_takes_no_more_hinders_no_commit(store: FarStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes, cache = Path.write_bytes, CheckpointCache(store)

    def full(path: Path, data: bytes) -> int:
        if path.parent.name.startswith("kept-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    staged = store.stage(ref(3))
    (staged / "checkpoint").write_bytes(b"xxx")
    cache.commit(ref(3), staged, PackedWith(2, "alike", 3))
    assert load(cache, 3) == 3
    assert store.fetched == [ref(3)]
