"""LocalStore: the laws of every store, and the effects of a crash, a full disk or damage."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import pickle
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import StoreError, StoreLockedError
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import LocalStore, disk, syncing
from asyncsearch.testing.store_checkpoints import NODE, OTHER, REF, load, save
from asyncsearch.testing.stores import StoreTests
from tests.shares import first
from tests.store.dying import Reaper

ROOT = Path(__file__).resolve().parents[2]
WEIRD = 'a\'; echo foo "b" ü'


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / WEIRD)
    store.prepare()
    return store


class TestLocal(StoreTests):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / f"{number}" / WEIRD for number in itertools.count())

    def make(self) -> LocalStore:
        return LocalStore(next(self.folders))


def names_in(store: LocalStore, folder: str) -> list[str]:
    return sorted(os.listdir(Path(store.url) / folder))


def checkpoint_folder(store: LocalStore, name: str = "81") -> Path:
    return Path(store.url) / "checkpoints" / NODE / name


@pytest.mark.parametrize("is_broken_off", [False, True])
def test_new_folders_are_durable_by_one_sync_of_each_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_broken_off: bool
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync_folder", synced.append)
    inner, there = tmp_path / "a" / "b", tmp_path / "there"
    there.write_bytes(b"")
    with contextlib.suppress(FileExistsError):
        disk.make_folders(inner / "1", inner / "2", *([there] if is_broken_off else []), inner / "3")
    assert synced == [tmp_path, tmp_path / "a", inner]  # a second try would find the folders, and sync nothing
    assert (inner / "3").is_dir() is not is_broken_off
    disk.make_folders(inner / "1", inner / "2")
    assert len(synced) == 3


# Crashes


@pytest.fixture(scope="module")
def reaper() -> Iterator[Reaper]:
    reaper = Reaper()
    yield reaper
    reaper.close()


OLD = {"model": b"old"}
NEW = {"model": b"new", "folder/optimizer": b"new"}


@pytest.mark.parametrize("committed_before", first([1, 3, 0, 2], 2))
def test_killed_commit_leaves_the_old_or_the_new_checkpoint(
    reaper: Reaper, tmp_path: Path, committed_before: int
) -> None:
    def make(step: int) -> LocalStore:
        store = LocalStore(tmp_path / f"{WEIRD} {step}")
        store.prepare()
        for _ in range(committed_before):
            save(store, model=b"old")
        return store

    was_new = False
    for store, done in reaper.kill_at_each_step("commit", make):
        found = load(store) if store.checkpoints() else None
        assert found in ([None, NEW] if committed_before == 0 else [OLD, NEW])
        assert found == NEW or not (was_new or done), "the commit has one moment, before which nothing is acknowledged"
        was_new = found == NEW
        with store.lock():
            store.sweep()
        assert names_in(store, "tmp") == []
        assert (load(store) if store.checkpoints() else None) == found
        assert not found or len(names_in(store, f"checkpoints/{NODE}")) == 1
        save(store, model=b"next")
        assert load(store) == {"model": b"next"}


def test_killed_delete_leaves_the_checkpoint_or_none(reaper: Reaper, tmp_path: Path) -> None:
    def make(step: int) -> LocalStore:
        store = LocalStore(tmp_path / str(step))
        store.prepare()
        save(store, model=b"older")
        save(store, model=b"old")
        return store

    for store, done in reaper.kill_at_each_step("delete", make):
        assert not (done and store.checkpoints())
        if store.checkpoints():
            assert load(store) == OLD
        store.sweep()
        assert names_in(store, "tmp") == []


def test_killed_write_leaves_the_old_or_the_new_content(reaper: Reaper, tmp_path: Path) -> None:
    def make(step: int) -> LocalStore:
        store = LocalStore(tmp_path / str(step))
        store.prepare()
        store.write("study.json", b"old")
        return store

    for store, done in reaper.kill_at_each_step("write", make):
        assert store.read("study.json") in ([b"new"] if done else [b"old", b"new"])
        store.sweep()
        assert names_in(store, "tmp") == []


def test_killed_sweep_leaves_all_checkpoints(reaper: Reaper, tmp_path: Path) -> None:
    def make(step: int) -> LocalStore:
        store = LocalStore(tmp_path / str(step))
        store.prepare()
        save(store, model=b"older")
        save(store, model=b"old")
        (store.stage(REF) / "half").write_bytes(b"half")
        return store

    for store, _ in reaper.kill_at_each_step("sweep", make):
        assert load(store) == OLD
        store.sweep()
        assert load(store) == OLD
        assert names_in(store, "tmp") == []


def test_killed_append_leaves_former_segments_and_a_new_one_can_begin(reaper: Reaper, tmp_path: Path) -> None:
    def make(step: int) -> LocalStore:
        store = LocalStore(tmp_path / str(step))
        store.prepare()
        segment = store.open_segment()
        segment.append(b"old\n")
        segment.close()
        return store

    for store, done in reaper.kill_at_each_step("append", make):
        lines = [line for name in store.journal_segments() for line in store.read_segment(name)]
        assert lines in ([[b"old\n", b"new\n"]] if done else [[b"old\n"], [b"old\n", b"new\n"]])
        before = store.journal_segments()
        segment = store.open_segment()
        segment.close()
        assert segment.name not in before


def test_killed_prepare_can_be_done_again(reaper: Reaper, tmp_path: Path) -> None:
    for store, _ in reaper.kill_at_each_step("prepare", lambda step: LocalStore(tmp_path / f"{step}/deep/store")):
        store.prepare()
        store.sweep()
        assert names_in(store, ".") == ["checkpoints", "journal", "logs", "snapshots", "tmp"]
        assert names_in(store, "tmp") == []


# Durability: a kill does not lose data that the system has not yet written, so only the order of calls can be tested.


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record the synced and renamed files, by the last parts of their paths."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux tells the path of a descriptor")
    calls: list[tuple[str, str]] = []
    fsync, fdatasync, rename, replace = os.fsync, os.fdatasync, os.rename, os.replace

    def synced(call: Any) -> Any:
        def record(descriptor: int) -> None:
            calls.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
            call(descriptor)

        return record

    def renamed(call: Any) -> Any:
        def record(source: Any, target: Any) -> None:
            call(source, target)
            calls.append(("rename", os.fspath(target)))

        return record

    monkeypatch.setattr(os, "fsync", synced(fsync))
    monkeypatch.setattr(os, "fdatasync", synced(fdatasync))
    monkeypatch.setattr(os, "rename", renamed(rename))
    monkeypatch.setattr(os, "replace", renamed(replace))
    return calls


def test_commit_syncs_everything_before_its_rename_and_the_folder_after(
    store: LocalStore, trace: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "is_synced_whole", lambda *facts: False)
    staged = store.stage(REF)
    (staged / "sub").mkdir()
    (staged / "sub" / "optimizer").write_bytes(b"o")
    (staged / "model").write_bytes(b"m")
    store.commit(REF, staged)
    target = str(checkpoint_folder(store))
    moment = trace.index(("rename", target))
    files = {str(staged / name) for name in ("", "sub", "model", "sub/optimizer", "../manifest.json", "..")}
    assert {path for call, path in trace[:moment] if call == "sync"} >= {os.path.normpath(file) for file in files}
    assert ("sync", str(Path(target).parent)) in trace[moment:]
    assert ("sync", str(Path(target).parent.parent)) in trace, "the node's folder is new"


def test_commit_syncs_its_disk_before_its_rename_and_one_folder_after(
    store: LocalStore, trace: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync_disk(folder: Path) -> None:
        trace.append(("disk", str(folder)))
        assert (folder / "files" / "model").exists()
        assert (folder / "manifest.json").exists()
        assert (Path(store.url) / "checkpoints" / REF.node).exists(), "its name is durable, too"

    monkeypatch.setattr(syncing, "is_synced_whole", lambda *facts: True)
    monkeypatch.setattr(syncing, "sync_disk", sync_disk)
    staged = store.stage(REF)
    (staged / "model").write_bytes(b"m")
    store.commit(REF, staged)
    target = str(checkpoint_folder(store))
    assert trace == [("disk", str(staged.parent)), ("rename", target), ("sync", str(Path(target).parent))]


@pytest.mark.parametrize(
    ("kind", "kernel", "others_bytes", "is_whole"),
    [
        ("ext4", (5, 8), 0, True),
        ("overlay", (6, 1), 64 << 20, True),
        ("ext4", (6, 1), (64 << 20) + 1, False),
        ("ext4", (5, 7), 0, False),
        ("fuse.sshfs", (6, 1), 0, False),
        ("nfs4", (6, 1), 0, False),
        ("", (6, 1), 0, False),
    ],
)
def test_whole_disk_is_synced_only_where_it_is_certain_and_cheap(
    kind: str, kernel: tuple[int, int], others_bytes: int, is_whole: bool
) -> None:
    assert syncing.is_synced_whole(kind, kernel, others_bytes) is is_whole


def test_the_disk_begins_to_write_what_is_large_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    class Calls:
        def sync_file_range(self, descriptor: int, *_: object) -> None:
            begun.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Calls())
    for size in (1, (16 << 20) - 1, 16 << 20, 17 << 20):
        with open(tmp_path / f"{size} bytes", "wb") as file:
            file.truncate(size)
    with syncing.writing_ahead(tmp_path):
        pass
    assert sorted(begun) == [16 << 20, 17 << 20]
    with syncing.writing_ahead(tmp_path / "missing"):
        pass


def test_disk_that_cannot_be_synced_refuses_the_commit(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync_disk(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))

    monkeypatch.setattr(syncing, "is_synced_whole", lambda *facts: True)
    monkeypatch.setattr(syncing, "sync_disk", sync_disk)
    staged = store.stage(REF)
    (staged / "model").write_bytes(b"m")
    with pytest.raises(StoreError, match="Input/output error"):
        store.commit(REF, staged)
    assert store.checkpoints() == []


def test_write_syncs_the_file_before_and_the_folder_after(store: LocalStore, trace: list[tuple[str, str]]) -> None:
    store.write("study.json", b"{}")
    (first, rename, last) = trace
    assert first[0] == "sync"
    assert Path(first[1]).parent.name == "tmp"
    assert rename == ("rename", f"{store.url}/study.json")
    assert last == ("sync", store.url)


def test_append_is_one_write_and_one_sync(
    store: LocalStore, trace: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = store.open_segment()
    assert trace == [("sync", f"{store.url}/journal")], "the name of a new segment is durable"
    trace.clear()
    written: list[int] = []
    write = os.write

    def counted(descriptor: int, data: bytes) -> int:
        written.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    segment.append(b"a\nbc\n")
    assert written == [5]
    assert trace == [("sync", f"{store.url}/journal/000001.jsonl")]
    segment.close()


# Locks


@pytest.fixture
def driver(store: LocalStore) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start another process with the same store; its input stays open until the test ends it."""
    head = "import os, sys; from asyncsearch.store import LocalStore; store = LocalStore(sys.argv[1])\n"
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", head + code, store.url]
        started.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


Driver = Callable[[str], subprocess.Popen[bytes]]


def test_killed_driver_has_lost_the_lock(store: LocalStore, driver: Driver) -> None:
    other = driver("with store.lock(): print('held', flush=True); sys.stdin.read()")
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    with pytest.raises(StoreLockedError) as refused, store.lock():
        pass
    assert f"process {other.pid} on {socket.gethostname()}, since 20" in str(refused.value)
    assert repr(store.url) in str(refused.value)
    other.kill()
    other.communicate()
    with store.lock():
        assert str(os.getpid()) in (Path(store.url) / "lock").read_text()
    assert (Path(store.url) / "lock").read_text() == ""


def test_forked_child_of_a_killed_driver_does_not_hold_the_lock(store: LocalStore, driver: Driver) -> None:
    code = """
with store.lock():
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
    sys.stdin.read()
if child == 0:
    print("left", flush=True)
"""
    other = driver(code)
    assert other.stdout is not None
    assert int(other.stdout.readline()) != other.pid
    with pytest.raises(StoreLockedError), store.lock():
        pass
    other.kill()
    other.wait()
    with store.lock():
        assert other.communicate()[0] == b"left\n", "the child leaves the lock's block without touching anything"
        with pytest.raises(StoreLockedError), store.lock():
            pass


def test_lock_before_prepare_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"prepare\(\)"), LocalStore(tmp_path / "none").lock():
        pass


def test_a_lock_that_can_no_longer_be_written_hides_no_error_of_the_store(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def drive() -> None:
        with store.lock():
            monkeypatch.setattr(os, "ftruncate", fail)
            raise StoreError("what went wrong")

    with pytest.raises(StoreError, match="what went wrong"):
        drive()
    monkeypatch.undo()
    with store.lock():
        pass


def fetch(store: LocalStore) -> None:
    with store.fetch(REF):
        pass


@pytest.mark.parametrize(
    ("folder", "look"),
    [
        ("journal", lambda store: store.read_segment("000001.jsonl")),
        ("logs", lambda store: store.read_log("trial-1")),
        ("checkpoints", fetch),
    ],
)
def test_what_may_not_be_looked_at_is_an_error_of_the_store(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, folder: str, look: Callable[[LocalStore], object]
) -> None:
    def refuse(call: Callable[..., Any]) -> Callable[..., Any]:
        def refused(path: Any, *args: Any, **kwargs: Any) -> Any:
            if f"/{folder}" in str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return call(path, *args, **kwargs)

        return refused

    for name in ("lstat", "stat", "open", "listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse(getattr(os, name)))
    with pytest.raises(StoreError, match="Permission denied"):
        look(store)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_mount_without_locks_is_refused(number: int, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(descriptor: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match="without 'nolock'"), store.lock():
        pass


# Journal


def test_torn_last_line_is_yielded_as_it_is(store: LocalStore) -> None:
    segment = store.open_segment()
    segment.append(b"a\nb\n")
    segment.close()
    path = Path(store.url) / "journal" / segment.name
    os.truncate(path, 3)
    assert list(store.read_segment(segment.name)) == [b"a\n", b"b"]
    os.truncate(path, 0)
    assert list(store.read_segment(segment.name)) == []


def test_append_goes_on_after_a_short_write(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = store.open_segment()
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    segment.append(b"0123456789\nabc\n")
    segment.close()
    assert list(store.read_segment(segment.name)) == [b"0123456789\n", b"abc\n"]


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_full_disk_closes_the_segment(store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    segment = store.open_segment()
    segment.append(b"a\n")

    def fail(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail, raising=False)
        with pytest.raises(StoreError, match=r"write the journal at .*000001.jsonl.*No space left.*Free some space"):
            segment.append(b"b\n")
    with pytest.raises(StoreError, match="open_segment"):
        segment.append(b"c\n")
    assert next(store.read_segment(segment.name)) == b"a\n"


def test_segments_and_logs_that_an_object_store_wrote_can_be_read(store: LocalStore) -> None:
    for number in (1, 2, 0):
        store.write(f"journal/000001.jsonl/{number:09d}", b"%d\n" % number if number else b"")
        store.write(f"logs/trial-1.log/{number:09d}", b"%d\n" % number)
    store.write("journal/000001.jsonl/000000001-000000002", b"1\n2\n")  # and was copied while it joined them
    assert list(store.read_segment("000001.jsonl")) == [b"1\n", b"2\n"]
    assert list(store.read_log("trial-1")) == ["0", "1", "2"]
    assert store.open_segment().name == "000002.jsonl"


# Checkpoints


def test_fetch_gives_the_committed_folder_itself(store: LocalStore) -> None:
    staged = store.stage(REF)
    (staged / "model").write_bytes(b"m")
    inode = (staged / "model").stat().st_ino
    store.commit(REF, staged)
    with store.fetch(REF) as folder:
        assert (folder / "model").stat().st_ino == inode, "committed by a rename, without a copy"
        assert folder == checkpoint_folder(store) / "files"


def test_folder_staged_by_another_process_can_be_committed(store: LocalStore, driver: Driver) -> None:
    code = f"from asyncsearch.ids import CheckpointRef; print(store.stage(CheckpointRef({NODE!r}, 81)))"
    runner = driver(code)
    staged = Path(runner.communicate()[0].decode().rstrip("\n"))
    (staged / "model").write_bytes(b"m")
    other: LocalStore = pickle.loads(pickle.dumps(store))
    assert other.commit(REF, staged) == 1
    assert load(store) == {"model": b"m"}


def test_replaced_versions_are_kept_for_one_more_commit(store: LocalStore) -> None:
    for number in range(4):
        save(store, model=b"%d" % number)
    assert names_in(store, f"checkpoints/{NODE}") == ["81.3", "81.4"]
    store.sweep()
    assert names_in(store, f"checkpoints/{NODE}") == ["81.4"]
    assert load(store) == {"model": b"3"}


def test_deleting_the_last_checkpoint_removes_the_folder_of_its_node(store: LocalStore) -> None:
    save(store, model=b"m")
    save(store, CheckpointRef(OTHER, 1), model=b"m")
    store.delete(REF)
    assert names_in(store, "checkpoints") == [OTHER]
    assert names_in(store, "tmp") == []


def test_files_of_other_people_in_the_checkpoints_are_ignored(store: LocalStore) -> None:
    save(store, model=b"m")
    (checkpoint_folder(store).parent / "notes").mkdir()
    (Path(store.url) / "checkpoints" / ".DS_Store").write_text("")
    assert store.checkpoints() == [REF]


def test_file_name_that_is_not_text_is_refused(store: LocalStore) -> None:
    staged = store.stage(REF)
    try:
        (staged / os.fsdecode(b"\xff")).write_bytes(b"")
    except OSError:
        pytest.skip("this disk has no such names")
    with pytest.raises(StoreError, match="not UTF-8"):
        store.commit(REF, staged)


# What cannot be a store


@pytest.mark.parametrize("below", ["", "sub/store"])
def test_path_at_or_below_a_file_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match=r"Cannot make the store at .*/file.*its parents must be folders"):
        LocalStore(tmp_path / "file" / below).prepare()
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system in which nobody can write")
def test_unwritable_place_is_refused() -> None:
    with pytest.raises(StoreError, match="Cannot make the store at '/proc/asyncsearch'"):
        LocalStore("/proc/asyncsearch").prepare()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_the_right_to_write_is_refused(store: LocalStore) -> None:
    (Path(store.url) / "journal").chmod(0o500)
    with pytest.raises(StoreError, match=r"'journal' in it cannot be written.*Give this user the right"):
        store.prepare()


@pytest.fixture
def read_only(store: LocalStore) -> Iterator[LocalStore]:
    """A store with a checkpoint and a journal, on a disk that is then mounted for reading only."""
    place = store.url
    made = subprocess.run(["mount", "-t", "tmpfs", "none", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"mount: {made.stderr.decode()}")
    try:
        store.prepare()
        save(store, model=b"m")
        with store.lock():
            segment = store.open_segment()
            segment.append(b"a\n")
            segment.close()
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        yield store
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_store_on_a_disk_for_reading_only_is_read_and_refused_to_writers(read_only: LocalStore) -> None:
    assert load(read_only) == {"model": b"m"}
    assert read_only.checkpoints() == [REF]
    assert not read_only.is_locked()
    assert list(read_only.read_segment("000001.jsonl")) == [b"a\n"]
    with pytest.raises(
        StoreError, match=r"Read-only file system\. Choose a folder that can be made and written, e\.g\. store='~/"
    ):
        read_only.prepare()
    with pytest.raises(StoreError, match="mounted for reading only"):
        read_only.write("study.json", b"{}")


def test_full_disk_is_refused_by_prepare(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(StoreError, match=r"Cannot write, move and read back a file at .*Free some space"):
        store.prepare()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second disk")
def test_store_on_two_disks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if tmp_path.stat().st_dev == Path("/dev/shm").stat().st_dev:
        pytest.skip("needs a second disk")
    other = Path("/dev/shm") / f"asyncsearch-{os.getpid()}"
    other.mkdir()
    try:
        store = LocalStore(tmp_path / "store")
        monkeypatch.setattr(store, "_tmp", other)  # as where another disk is mounted there
        with pytest.raises(StoreError, match="on one disk"):
            store.prepare()
    finally:
        shutil.rmtree(other)
