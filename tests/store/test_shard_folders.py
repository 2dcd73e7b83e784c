"""Folders that a rank has closed, and files that change meanwhile, are the doing of their trial, and no outage."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch.errors import CheckpointError, NotAFileError
from asyncsearch.files.contents import Content
from asyncsearch.store import LocalStore
from asyncsearch.store.far.remote import Remote
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.manifest import Sharded, Shards
from asyncsearch.testing.store_checkpoints import REF, load
from tests.faults.rights import obeying_them


def written(folder: Path, name: str, rights: int) -> None:
    """Write a file in a folder that is closed afterwards."""
    (folder / "inner").mkdir()
    (folder / "inner" / name).write_text("x")
    (folder / "inner").chmod(rights)


@pytest.mark.parametrize(("own", "others"), [(0o500, 0o700), (0o700, 0o500), (0o500, 0o500)], ids=oct)
def test_a_folder_that_a_rank_has_locked_hinders_no_shard(tmp_path: Path, own: int, others: int) -> None:
    store = LocalStore(tmp_path / "store")
    store.prepare()

    def save() -> str:
        staged, other = store.stage(REF), store.stage(REF)
        written(staged, "one", own)
        written(other, "two", others)
        place = store.shard_place(REF, staged)
        files = store.add_shard(REF, place, other)
        store.commit(REF, staged, None, Shards(place, tuple(files), Sharded(2, "fsdp2")))
        return " ".join(sorted(load(store)))

    assert obeying_them(save) == "inner/one inner/two"


def test_a_file_that_grows_while_it_is_stored_is_the_trials_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FsspecStore(f"file://{tmp_path}/store")
    store.prepare()
    staged = store.stage(REF)
    (staged / "events").write_text("one")
    upload = Remote.upload

    def slow(remote: Remote, local: Path, name: str) -> Content:
        content = upload(remote, local, name)
        with local.open("a") as file:
            file.write("two")
        upload(remote, local, name)
        return content

    monkeypatch.setattr(Remote, "upload", slow)
    with pytest.raises(CheckpointError, match=r"events.*has changed while it was stored. Let save\(\) close its files"):
        store.commit(REF, staged)


@pytest.mark.parametrize("name", ["", "tmp"])
def test_something_else_in_the_place_of_a_folder_is_told_as_such(tmp_path: Path, name: str) -> None:
    root = tmp_path / "dirs"
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("no folder")
    with pytest.raises(NotAFileError, match=r"dirs.* lies in the place of a folder of the store: move it away"):
        LocalStore(root).stage(REF)
