"""The head of a journal: it never claims what is not durable, and a missing end is found by it in every store."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch.errors import JournalDamagedError
from asyncsearch.events import DriverStarted
from asyncsearch.journal.format import Header, encode_header, encode_record
from asyncsearch.journal.head import decode_head
from asyncsearch.journal.opening import begin_reading, read_records
from asyncsearch.journal.writer import Journal
from asyncsearch.store import LocalStore, Store
from asyncsearch.store.far.store import FsspecStore


def local(folder: Path) -> Store:
    return LocalStore(folder / "s")


def objects(folder: Path) -> Store:
    return FsspecStore(f"memory://{uuid.uuid4().hex}")


def appending(folder: Path) -> Store:
    return FsspecStore(f"file://{folder}/s")


def write(journal: Journal, count: int) -> None:
    for _ in range(count):
        journal.append(journal.encode(DriverStarted("1"), (), 1.0))


def doubts(store: Store) -> list[str]:
    """Read a journal to its end, and return what cannot be told of it."""
    reader = begin_reading(store)
    list(read_records(store, reader=reader))
    return reader.doubts


@pytest.mark.parametrize("make", [local, objects, appending])
def test_a_missing_end_is_found_in_every_store(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.prepare()
    journal = Journal(store, "s", 0)
    write(journal, 3)
    journal.close()
    assert [record.n for record in read_records(store)] == [1, 2, 3]
    if make is objects:
        name = f"journal/000001.jsonl/{store.list('journal/000001.jsonl')[-1]}"
        store.write(name, b"".join((store.read(name) or b"").splitlines(keepends=True)[:-1]))
    else:
        path = tmp_path / "s/journal/000001.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(JournalDamagedError, match="its end is missing"):
        list(read_records(store))


@pytest.mark.parametrize("make", [local, objects, appending])
def test_a_head_that_is_missing_is_said_if_its_journal_had_one(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.prepare()
    journal = Journal(store, "s", 0)
    assert doubts(store) == [], "a driver that has begun has noted nothing yet"
    write(journal, 3)
    journal.close()
    assert doubts(store) == []
    store.remove("head.json")
    (doubt,) = doubts(store)
    assert "head.json is missing" in doubt
    assert "ends with record 3" in doubt


def test_a_journal_of_a_version_without_heads_is_not_doubted(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.prepare()
    segment = store.open_segment()
    segment.append(encode_header(Header(1, "s", 1, "0.1.0")) + encode_record(1, 1.0, DriverStarted("1"), ()))
    segment.close()
    assert doubts(store) == []


def test_a_local_head_names_each_record_before_it_is_acknowledged(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.prepare()
    journal = Journal(store, "s", 0)
    for number in (1, 2, 3):
        write(journal, 1)
        found = decode_head(store.read("head.json") or b"")
        assert found is not None
        assert found.n == number
    journal.close()


def test_a_head_that_was_removed_is_written_again(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.prepare()
    journal = Journal(store, "s", 0)
    write(journal, 1)
    store.remove("head.json")
    write(journal, 1)
    found = decode_head(store.read("head.json") or b"")
    journal.close()
    assert found is not None
    assert found.n == 2


def test_a_head_that_cannot_be_written_costs_no_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = local(tmp_path)
    store.prepare()
    (tmp_path / "s/head.json").mkdir()
    journal = Journal(store, "s", 0)
    write(journal, 3)
    journal.close()
    assert caplog.text.count("A missing end of the journal could not be noticed") == 1
    assert list(store.read_segment("000001.jsonl"))[-1].startswith(b'{"crc"')


def test_a_reader_beside_a_writer_never_sees_a_shorter_journal(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.prepare()
    journal = Journal(store, "s", 0)
    write(journal, 1)
    writing = threading.Thread(target=write, args=(journal, 60))
    writing.start()
    lengths = []
    while writing.is_alive():
        lengths.append(len(list(read_records(store))))
    writing.join()
    journal.close()
    assert lengths == sorted(lengths)
    assert len(list(read_records(store))) == 61
