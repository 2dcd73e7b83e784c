"""The errors of the stores of this package name the next step."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch.errors import StoreError, StoreLockedError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import LocalStore, Store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.testing.store_checkpoints import REF, save
from asyncsearch.testing.stores import ESCAPES, LOG_NAMES


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made = LocalStore(tmp_path) if request.param == "disk" else FsspecStore(f"memory://{uuid.uuid4().hex}")
    made.prepare()
    return made


def _fetch(store: Store, ref: CheckpointRef) -> None:
    with store.fetch(ref):
        pass


def _append_to_a_closed_segment(store: Store) -> None:
    segment = store.open_segment()
    segment.close()
    segment.append(b"a\n")


def _commit_twice(store: Store) -> None:
    staged = store.stage(REF)
    store.commit(REF, staged)
    store.commit(REF, staged)


def _commit_a_link(store: Store) -> None:
    staged = store.stage(REF)
    (staged / "latest").symlink_to("model")
    store.commit(REF, staged)


def _fetch_what_was_deleted(store: Store) -> None:
    save(store)
    store.delete(REF)
    _fetch(store, REF)


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("open_segment", _append_to_a_closed_segment),
        ("committed once", _commit_twice),
        (r"latest.*plain files", _commit_a_link),
        (f"There is no checkpoint {REF}", _fetch_what_was_deleted),
        *(("Choose another name", lambda store, name=name: store.read(name)) for name in ESCAPES),
        *(("Choose another name", lambda store, name=name: store.write(name, b"")) for name in ESCAPES),
        *(("name of a log", lambda store, name=name: store.append_log(name, ["x"])) for name in LOG_NAMES),
        *(("name of a log", lambda store, name=name: store.read_log(name)) for name in LOG_NAMES),
        *(
            ("journal_segments", lambda store, name=name: store.read_segment(name))
            for name in ["000009.jsonl", "../study.json", "1.jsonl", ""]
        ),
        *(
            ("node's key", lambda store, node=node: store.stage(CheckpointRef(NodeKey(node), 1)))
            for node in ["", "..", "a/b", "a.b", "x" * 65]
        ),
    ],
)
def test_an_error_says_the_next_step(store: Store, words: str, action: Callable[[Store], object]) -> None:
    with pytest.raises(StoreError, match=words):
        action(store)


def test_a_second_driver_is_told_who_holds_the_lock(store: Store) -> None:
    other: Store = pickle.loads(pickle.dumps(store))
    words = r"process [0-9]+ on .*One study has one driver"
    with store.lock(), pytest.raises(StoreLockedError, match=words), other.lock():
        pass
