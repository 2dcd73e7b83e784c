"""Links that somebody planted in a store lead neither its writes nor its removals to files outside of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import LocalStore
from asyncsearch.testing.store_checkpoints import NODE, REF, load, save


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    store.prepare()
    save(store, model=b"model")
    store.write("study.json", b"{}")
    store.write("snapshots/000000000001.json", b"{}")
    store.append_log("trial-1", ["a"])
    store.open_segment().append(b"record\n")
    with store.lock():
        pass
    return store


def plant(store: LocalStore, name: str, target: Path) -> None:
    """Put a link to something of somebody else's in the place of a part of the store."""
    path = Path(store.url) / name
    if path.is_dir():
        shutil.copytree(path, target)
        (target / "checkpoint-mine").mkdir(exist_ok=True)
        (target / "mine").write_text("mine")
        shutil.rmtree(path)
    else:
        target.write_text("mine")
        path.unlink(missing_ok=True)
    path.symlink_to(target)


def everything_in(target: Path) -> dict[str, bytes]:
    files = [target] if target.is_file() else sorted(target.rglob("*"))
    return {str(path.relative_to(target)): path.read_bytes() if path.is_file() else b"" for path in files}


def fetch(store: LocalStore, ref: CheckpointRef = REF) -> None:
    with store.fetch(ref):
        pass


def lock(store: LocalStore) -> None:
    with store.lock():
        pass


FOLDERS = ["tmp", "journal", "snapshots", "checkpoints", f"checkpoints/{NODE}", "logs"]
FILES = ["lock", "logs/trial-1.log", "study.json", "journal/000001.jsonl", "snapshots/000000000001.json"]
ACTIONS: dict[str, Callable[[LocalStore], object]] = {
    "prepare": lambda store: store.prepare(),
    "lock": lock,
    "is locked": lambda store: store.is_locked(),
    "sweep": lambda store: store.sweep(),
    "write": lambda store: store.write("study.json", b"new"),
    "write below": lambda store: store.write("snapshots/000000000001.json", b"new"),
    "create": lambda store: store.create("study.json", b"new"),
    "create below": lambda store: store.create("snapshots/000000000002.json", b"new"),
    "read": lambda store: store.read("study.json"),
    "remove": lambda store: store.remove("study.json"),
    "remove below": lambda store: store.remove("snapshots/000000000001.json"),
    "remove a folder": lambda store: store.remove_tree("snapshots"),
    "remove below a folder": lambda store: store.remove_tree(f"checkpoints/{NODE}/81"),
    "remove if empty": lambda store: store.remove_if_empty(f"checkpoints/{NODE}"),
    "walk": lambda store: [store.walk(), store.walk("journal")],
    "segment": lambda store: store.open_segment().append(b"new\n"),
    "read a segment": lambda store: list(store.read_segment("000001.jsonl")),
    "commit": lambda store: [save(store, model=b"new"), save(store, model=b"newer"), save(store, model=b"newest")],
    "fetch": fetch,
    "delete": lambda store: store.delete(REF),
    "log": lambda store: store.append_log("trial-1", ["b"]),
    "read a log": lambda store: list(store.read_log("trial-1")),
}


@pytest.mark.parametrize("name", [*FOLDERS, *FILES])
def test_a_planted_link_leads_no_write_and_no_removal_outside(store: LocalStore, tmp_path: Path, name: str) -> None:
    path, target = Path(store.url) / name, tmp_path / "theirs"
    plant(store, name, target)
    before = everything_in(target)
    for action, act in ACTIONS.items():
        if not path.is_symlink():  # replaced or removed, as it may be
            path.unlink(missing_ok=True)
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(target)
        with contextlib.suppress(StoreError):
            act(store)
        assert everything_in(target) == before, action


@pytest.mark.parametrize("name", FOLDERS)
def test_a_store_with_a_link_in_place_of_a_folder_is_refused_at_once(
    store: LocalStore, tmp_path: Path, name: str
) -> None:
    plant(store, name, tmp_path / "theirs")
    with pytest.raises(StoreError, match=r"is a link.*Remove the link"):
        store.sweep() if name.startswith("checkpoints/") else store.prepare()


def test_a_lock_that_is_a_link_is_refused(store: LocalStore, tmp_path: Path) -> None:
    plant(store, "lock", tmp_path / "theirs")
    with pytest.raises(StoreError, match="remove the link"), store.lock():
        pass
    assert not store.is_locked()


def test_writing_a_small_file_replaces_the_link(store: LocalStore, tmp_path: Path) -> None:
    plant(store, "study.json", tmp_path / "theirs")
    with pytest.raises(StoreError, match="remove the link"):
        store.read("study.json")
    store.write("study.json", b"new")
    assert store.read("study.json") == b"new"
    assert (tmp_path / "theirs").read_text() == "mine"


def test_the_whole_store_may_be_reached_over_a_link(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.url)
    linked = LocalStore(tmp_path / "link")
    for name, action in ACTIONS.items():
        if not name.startswith(("remove", "delete")):
            action(linked)
    assert load(linked) == {"model": b"newest"}


def test_a_sweep_removes_only_what_a_store_has_named(store: LocalStore) -> None:
    tmp = Path(store.url) / "tmp"
    (tmp / "notes of mine").mkdir()
    store.stage(REF)
    (tmp / "probe-0.moved").write_bytes(b"")
    store.sweep()
    assert os.listdir(tmp) == ["notes of mine"]
