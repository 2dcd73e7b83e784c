"""The lock of stores without real locks: who holds it, for how long, and that the clocks of drivers do not matter."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch.errors import StoreError, StoreLockedError
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.hdfs import segment as hdfs_segment
from asyncsearch.store.locks.lease_lock import LockRecord, machine
from tests.store.clocks import require_no_take_over
from tests.store.hdfs_cluster import hdfs
from tests.store.object_search import files_of


@pytest.fixture
def store(fsspec_store: FsspecStore) -> FsspecStore:
    return fsspec_store


def put_lock(store: FsspecStore, **changes: Any) -> None:
    record = LockRecord("elsewhere", 12345, "another machine", "token", time.time())
    store._remote.put("lock/000007.json", msgspec.json.encode(msgspec.structs.replace(record, **changes)))


def test_lock_is_not_taken_behind_a_rival_with_a_higher_number(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = store._remote.create

    def create_late(name: str, data: bytes) -> bool:
        put_lock(store)
        return create(name, data)

    monkeypatch.setattr(store._remote, "create", create_late)
    with pytest.raises(StoreLockedError, match="process 12345 on elsewhere"), store.lock():
        pass
    own = msgspec.json.decode(store._remote.read("lock/000001.json") or b"", type=LockRecord)
    assert own.released, "the next driver does not wait for it"


def test_living_driver_elsewhere_is_respected(store: FsspecStore) -> None:
    put_lock(store)
    with pytest.raises(StoreLockedError, match=r"process 12345 on elsewhere, seen 0 s ago.*void in 60 s"), store.lock():
        pass


def let_lock_age(store: FsspecStore, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file system say that the lock was written so long ago."""
    find = store._remote.find

    def older(folder: str) -> dict[str, FileInfo]:
        found, shift = find(folder), seconds if folder == "lock" else 0.0
        return {name: info._replace(modified_s=(info.modified_s or 0.0) - shift) for name, info in found.items()}

    monkeypatch.setattr(store._remote, "find", older)


@pytest.mark.parametrize("off_s", [0.0, 3600.0, -3600.0])
@pytest.mark.parametrize("why", ["released", "stale", "died here"])
def test_a_gone_drivers_lock_can_be_taken_whatever_its_clock_was(
    store: FsspecStore, why: str, off_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "released":
        put_lock(store, released=True, refreshed=time.time() + off_s)
    elif why == "stale":
        put_lock(store, refreshed=time.time() + off_s)
        let_lock_age(store, 61, monkeypatch)
    else:
        if not machine():
            pytest.skip("only Linux tells which machine a process id belongs to")
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        put_lock(store, host=socket.gethostname(), machine=machine(), pid=child.pid)
    with store.lock():
        assert files_of(store) == ["lock/000008.json"]


@pytest.mark.parametrize("off_s", [3600.0, -3600.0])
def test_lock_of_a_living_driver_is_not_taken_whatever_the_clocks_say(store: FsspecStore, off_s: float) -> None:
    put_lock(store, refreshed=time.time() + off_s)
    with pytest.raises(StoreLockedError, match=r"process 12345 on elsewhere, seen 0 s ago.*void in 60 s"), store.lock():
        pass
    assert not store.list("tmp")


@pytest.mark.parametrize("off_s", [0.0, 3600.0, -3600.0])
@pytest.mark.parametrize(("age_s", "is_held"), [(0, True), (55, True), (61, False)])
def test_whether_a_store_is_locked_is_told_whatever_the_clocks_say(
    store: FsspecStore, age_s: float, is_held: bool, off_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_lock(store, refreshed=time.time() + off_s)
    let_lock_age(store, age_s, monkeypatch)
    assert store.is_locked() == is_held
    assert not store.list("tmp")
    put_lock(store, refreshed=time.time() + off_s, released=True)
    assert not store.is_locked()


@pytest.mark.parametrize(("age_s", "is_held"), [(59, True), (61, False)])
def test_a_reader_of_a_store_tells_by_the_clock_here_whether_it_is_locked(
    store: FsspecStore, age_s: float, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_lock(store, refreshed=time.time() - age_s)

    def refuse(*_: object) -> None:
        raise StoreError("it cannot be written by this user")

    monkeypatch.setattr(store._remote, "write", refuse)
    assert store.is_locked() == is_held


@pytest.mark.parametrize(("age_s", "is_void"), [(59, False), (61, True)])
def test_where_a_file_system_gives_no_times_drivers_clocks_are_compared(
    store: FsspecStore, age_s: float, is_void: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = store._remote.find
    untimed = lambda folder: {name: info._replace(modified_s=None) for name, info in find(folder).items()}  # noqa: E731
    monkeypatch.setattr(store._remote, "find", untimed)
    put_lock(store, refreshed=time.time() - age_s)
    with contextlib.nullcontext() if is_void else pytest.raises(StoreLockedError), store.lock():
        pass


def test_lock_of_a_living_process_here_is_not_taken(store: FsspecStore) -> None:
    put_lock(store, host=socket.gethostname(), machine=machine(), pid=os.getpid())
    with pytest.raises(StoreLockedError, match=f"process {os.getpid()} on"), store.lock():
        pass


def test_half_written_lock_says_what_to_remove(store: FsspecStore) -> None:
    store._remote.put("lock/000001.json", b"")
    with pytest.raises(StoreLockedError, match=r"remove '.*lock/000001\.json'"), store.lock():
        pass


def test_driver_that_slept_through_its_lease_writes_no_more(store: FsspecStore) -> None:
    with store.lock():
        segment = store.open_segment()
        segment.append(b"a\n")
        assert store._lock is not None
        put_lock(store)  # another driver, which found this one's lock stale
        store._lock._fresh_until = 0.0  # as after a long sleep
        with pytest.raises(StoreLockedError, match=f"Process {os.getpid()} has lost the study"):
            segment.append(b"b\n")
        with pytest.raises(StoreLockedError):
            store.open_segment()
    assert list(store.read_segment("000001.jsonl")) == [b"a\n"]
    with pytest.raises(StoreLockedError, match="elsewhere"), store.lock():
        pass


def test_driver_that_slept_and_was_not_replaced_goes_on(store: FsspecStore) -> None:
    with store.lock():
        segment = store.open_segment()
        assert store._lock is not None
        store._lock._fresh_until = 0.0
        segment.append(b"a\n")
        segment.close()


def test_lock_is_kept_by_refreshing(tmp_path: Path) -> None:
    store = FsspecStore(f"file://{tmp_path}", lock_lease_s=0.2)
    store.prepare()
    path = tmp_path / "lock" / "000001.json"
    with store.lock():
        first = msgspec.json.decode(path.read_bytes(), type=LockRecord)
        deadline = time.monotonic() + 30
        while msgspec.json.decode(path.read_bytes(), type=LockRecord).refreshed == first.refreshed:
            assert time.monotonic() < deadline
    assert msgspec.json.decode(path.read_bytes(), type=LockRecord).released


@pytest.mark.cluster
def test_on_hdfs_a_driver_with_a_clock_ahead_takes_no_living_ones_study(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hdfs_segment, "SHORTEST_S", math.inf)  # on a slow machine its segment would be over
    require_no_take_over(hdfs().new())
