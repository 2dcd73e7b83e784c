"""Segments of objects, one an append, which their driver joins: what is read, and by how many requests."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.store.far import segments
from asyncsearch.store.far.segments import JOINED_AFTER
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.open_files import Segment
from tests.store.counted_files import Objects

MOST_REQUESTS = 4


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FsspecStore:
    monkeypatch.setattr("fsspec.get_filesystem_class", lambda _: Objects)
    return FsspecStore(f"s3://studies/{uuid.uuid4().hex}")


def appended(store: FsspecStore, count: int) -> tuple[Segment, list[bytes]]:
    """Append lines to a new segment, two an append; return it with them."""
    segment, lines = store.open_segment(), [b'{"n":%d}\n' % number for number in range(2 * count)]
    for number in range(count):
        segment.append(b"".join(lines[2 * number : 2 * number + 2]))
    return segment, lines


def read(store: FsspecStore, segment: Segment) -> list[bytes]:
    return list(FsspecStore(store.url).read_segment(segment.name))


def requests(action: Callable[[], Any]) -> Counter[str]:
    Objects.calls.clear()
    action()
    return Counter(Objects.calls)


@pytest.mark.parametrize("count", [2, 70, JOINED_AFTER + 44, 3 * JOINED_AFTER])
def test_a_segment_that_is_closed_is_read_by_few_requests(store: FsspecStore, count: int) -> None:
    segment, lines = appended(store, count)
    segment.close()
    asked = requests(lambda: read(store, segment))
    assert asked["GET"] <= count // JOINED_AFTER + 2
    assert asked.total() - asked["GET"] <= MOST_REQUESTS
    assert read(store, segment) == lines


def test_a_driver_that_dies_leaves_few_objects_apart(store: FsspecStore) -> None:
    segment, lines = appended(store, 3 * JOINED_AFTER + 7)
    assert requests(lambda: read(store, segment))["GET"] <= 3 + 7 + 1
    assert read(store, segment) == lines


def test_to_join_takes_three_requests(store: FsspecStore) -> None:
    segment, _ = appended(store, JOINED_AFTER - 1)
    assert requests(segment.close) == {"LIST": 1, "PUT": 1, "POST": 1}


class Killed(BaseException):
    """The process dies at this call."""


@pytest.mark.parametrize("step", ["before the write", "before the removal", "amid the removal"])
def test_a_kill_amid_a_join_loses_and_repeats_no_line(
    store: FsspecStore, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = store._remote
    remove = remote.remove_files

    def die(*_: object) -> None:
        raise Killed

    def die_amid(names: Sequence[str]) -> None:
        remove(names[::2])
        raise Killed

    doomed = {
        "before the write": ("write", die),
        "before the removal": ("remove_files", die),
        "amid the removal": ("remove_files", die_amid),
    }
    segment, lines = appended(store, 9)
    with monkeypatch.context() as patch:
        patch.setattr(remote, *doomed[step])
        with pytest.raises(Killed):
            segment.close()
    assert read(store, segment) == lines
    after, more = appended(FsspecStore(store.url), 5)
    after.close()
    assert (read(store, segment), read(store, after)) == (lines, more)


def test_a_store_that_fails_while_it_joins_fails_no_append(store: FsspecStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreError("it does not answer")

    monkeypatch.setattr(segments, "JOINED_AFTER", 4)
    with monkeypatch.context() as patch:
        patch.setattr(store._remote, "write", fail)
        segment, lines = appended(store, 10)
    segment.append(b"{}\n")
    segment.close()
    assert read(store, segment) == [*lines, b"{}\n"]


def test_who_reads_while_the_segment_is_joined_reads_each_line_once(store: FsspecStore) -> None:
    segment, lines = appended(store, JOINED_AFTER - 1)
    reading = iter(FsspecStore(store.url).read_segment(segment.name))
    first = next(reading)
    segment.close()
    assert [first, *reading] == lines


def test_a_study_that_was_removed_is_not_begun_again_by_a_join(store: FsspecStore) -> None:
    segment, _ = appended(store, 9)
    store.remove_tree("journal")
    segment.close()
    assert store.journal_segments() == []


def test_a_folder_whose_name_is_a_pattern_keeps_what_it_matches(store: FsspecStore) -> None:
    matching, matched = (FsspecStore(f"{store.url}/{name}") for name in ("run[12]", "run1"))
    kept, lines = appended(matched, 9)
    segment, own = appended(matching, 9)
    segment.close()
    assert (read(matched, kept), read(matching, segment)) == (lines, own)
