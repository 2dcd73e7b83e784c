"""Damage of a checkpoint on a disk is named, whatever it is."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import CheckpointError, StoreError, may_pass
from asyncsearch.files import contents
from asyncsearch.files.contents import Content, UnchangedFolders, is_changed
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import LocalStore, manifest
from asyncsearch.testing.store_checkpoints import NODE, REF, load, save


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    store.prepare()
    return store


def checkpoint_folder(store: LocalStore, name: str = "81") -> Path:
    return Path(store.url) / "checkpoints" / NODE / name


def damage(folder: Path, how: str) -> None:
    model = folder / "files" / "model"
    match how:
        case "lost":
            model.unlink()
        case "short":
            os.truncate(model, 2)
        case "changed":
            model.write_bytes(b"xodel")
        case "folder":
            model.unlink()
            model.mkdir()
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "torn manifest":
            os.truncate(folder / "manifest.json", 20)
        case "strange manifest":
            (folder / "manifest.json").write_text('{"files": [], "folders": ["../../../x"]}')
        case "less":
            manifest = json.loads((folder / "manifest.json").read_bytes())
            (folder / "manifest.json").write_text(json.dumps(manifest | {"files": []}, separators=(",", ":")))
        case "newer manifest":
            (folder / "manifest.json").write_text('{"files": [], "folders": [], "format": 2}')
        case "no folder":
            (folder / "files" / "empty").rmdir()
        case "link":
            (folder / "moved").write_bytes(model.read_bytes())
            model.unlink()
            model.symlink_to(folder / "moved")
        case _:
            model.unlink()
            os.mkfifo(model)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("lost", "file 'model' cannot be read .No such file"),
        ("short", "file 'model' has 2 bytes, and had 5"),
        ("changed", "content of file 'model' has changed"),
        ("folder", "file 'model' "),
        ("no manifest", "manifest.json has become unreadable"),
        ("torn manifest", "manifest.json has become unreadable"),
        ("strange manifest", "leads out of the checkpoint"),
        ("less", "its checksum differs"),
        ("newer manifest", "it has format 2, of a newer version"),
        ("no folder", "folder 'empty' is missing"),
        ("link", "file 'model' cannot be read"),
        ("pipe", "file 'model' cannot be read .it is a pipe"),
    ],
)
def test_damage_is_named(store: LocalStore, how: str, words: str) -> None:
    staged = store.stage(REF)
    (staged / "empty").mkdir()
    (staged / "model").write_bytes(b"model")
    (staged / "other").write_bytes(b"other")
    store.commit(REF, staged)
    damage(checkpoint_folder(store), how)
    with pytest.raises(StoreError, match=words) as refused, store.fetch(REF):
        pass
    assert f"Checkpoint {REF} at" in str(refused.value)
    assert "Delete that checkpoint" in str(refused.value)
    store.delete(REF)
    assert store.checkpoints() == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("reads", ["local.checkpoints.read_file", "disk.os.stat"])
def test_what_a_disk_does_wrong_when_a_checkpoint_is_read_is_no_damage(
    store: LocalStore, reads: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = store.stage(REF)
    (staged / "empty").mkdir()
    (staged / "model").write_bytes(b"model")
    store.commit(REF, staged)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(f"asyncsearch.store.{reads}", refuse)
        with pytest.raises(StoreError, match=os.strerror(code)) as refused, store.fetch(REF):
            pass
    assert not isinstance(refused.value, CheckpointError)
    assert may_pass(refused.value), "it is waited for"
    assert load(store)["model"] == b"model"


def test_a_changed_byte_of_a_large_file_is_found(store: LocalStore) -> None:
    save(store, model=b"m" * (3 << 20))
    with open(checkpoint_folder(store) / "files" / "model", "r+b") as file:
        file.seek(2 << 20)
        file.write(b"x")
    with pytest.raises(StoreError, match="content of file 'model'"), store.fetch(REF):
        pass


def committed_a_while_ago(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commit a checkpoint of two files, the first second of which is over; return one of them."""
    with monkeypatch.context() as patch:
        patch.setattr("time.time_ns", lambda now=time.time_ns: now() + 10**9)
        save(store, model=b"m" * 1000, folder__optimizer=b"o")
    return checkpoint_folder(store) / "files" / "model"


def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that are read to be compared, from now on."""
    read: list[Path] = []

    def content_of(path: Path, size_bytes: int) -> Content:
        read.append(path)
        return contents.content_of(path, size_bytes)

    monkeypatch.setattr(manifest, "content_of", content_of)
    return read


def test_what_a_worker_committed_itself_is_not_read_to_be_compared(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = committed_a_while_ago(store, monkeypatch)
    read = hashed(monkeypatch)
    assert load(store)["model"] == b"m" * 1000
    assert read == []
    monkeypatch.setattr("time.time_ns", lambda now=time.time_ns: now() + 10**9)
    model.touch()
    for _ in range(2):
        assert load(store)["model"] == b"m" * 1000
    assert [path.name for path in read] == ["optimizer", "model"], "once more, since it was touched, and then known"


@pytest.mark.parametrize("keeps_times", [False, True])
def test_what_was_written_to_since_its_commit_is_read_and_refused(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, keeps_times: bool
) -> None:
    model = committed_a_while_ago(store, monkeypatch)
    times = model.stat()
    model.write_bytes(b"x" * 1000)
    if keeps_times:
        os.utime(model, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(CheckpointError, match="content of file 'model'"), store.fetch(REF):
        pass


def test_folder_that_vanished_from_a_known_checkpoint_is_found(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = committed_a_while_ago(store, monkeypatch)
    (model.parent / "folder" / "optimizer").unlink()
    with pytest.raises(CheckpointError, match="optimizer"), store.fetch(REF):
        pass


def test_a_file_written_a_moment_before_its_commit_is_compared_again() -> None:
    known = UnchangedFolders()
    stamps = {"model": (1, 10, 5_000_000_000, 5_000_000_000)}
    known.note("checkpoint", stamps, 5_010_000_000)
    assert not known._known, "it could be written again, and have the same times"
    known.note("checkpoint", stamps, 5_030_000_000)
    assert known._known


def test_a_checkpoint_in_the_place_of_another_is_found(store: LocalStore) -> None:
    other = CheckpointRef(NODE, 27)
    save(store, model=b"81")
    save(store, other, model=b"27")
    checkpoint_folder(store).rename(checkpoint_folder(store, "away"))
    checkpoint_folder(store, "27").rename(checkpoint_folder(store))
    with pytest.raises(StoreError, match=f"the checkpoint {other} was put in its place"), store.fetch(REF):
        pass


def test_a_manifest_without_checksum_of_an_earlier_version_can_be_read(store: LocalStore) -> None:
    save(store, model=b"model")
    path = checkpoint_folder(store) / "manifest.json"
    now = json.loads(path.read_bytes())
    path.write_text(json.dumps({name: now[name] for name in ("files", "folders", "format")}))
    assert load(store) == {"model": b"model"}


def test_a_file_that_became_longer_than_any_disk_is_not_read_to_its_end(store: LocalStore) -> None:
    save(store, model=b"model")
    path = checkpoint_folder(store) / "files" / "model"
    os.truncate(path, 8 << 40)
    began_s = time.monotonic()
    with pytest.raises(CheckpointError, match=r"has 8796093022208 bytes"), store.fetch(REF):
        pass
    assert is_changed(path.parent)
    assert time.monotonic() - began_s < 30
