"""Damages of a journal, random ones and of each byte: each is recovered or refused, and none reads as another study."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import pytest

from asyncsearch import FIFO, Study
from asyncsearch.errors import JournalDamagedError
from asyncsearch.journal.format import Record
from asyncsearch.journal.head import decode_head, encode_head, head_of
from asyncsearch.journal.opening import read_records
from asyncsearch.store import LocalStore, Store
from asyncsearch.store.blocks import split_lines
from asyncsearch.store.open_files import HEAD_FILE
from tests.faults.counts import counted
from tests.faults.damages import Read, copy_of, damage_journal, make, read, require_same_or_refused
from tests.shares import IS_ALL, seeds

DAMAGES = 440
STRIDE = 17
"""The test command damages each byte whose place is a multiple of this."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose journal has three segments and no snapshot, which would tell its length too."""
    root = tmp_path_factory.mktemp("whole") / "s"
    for total in (3, 5, 8):
        make(root, resume=True).run(total, display="none")
    shutil.rmtree(root / "snapshots")
    return root


@pytest.fixture(scope="module")
def expected(whole: Path) -> Read:
    found = read(whole)
    assert len(found.trials) == 8
    return found


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return copy_of(whole, tmp_path / "s")


@counted(damages=1)
@pytest.mark.parametrize("seed", seeds(DAMAGES), ids="seed{}".format)
def test_a_damaged_journal_reads_as_it_was_or_is_refused(seed: int, root: Path, expected: Read) -> None:
    sys.stdout.write(f"seed {seed}: {damage_journal(root / 'journal', random.Random(seed))}\n")
    if not require_same_or_refused(root, expected) and seed % 20 == 0:
        Study.resume(root).run(9, display="none")
        assert read(root).records[: len(expected.records)] == expected.records


class Kept(NamedTuple):
    """The files of a journal, as a store gives them to who reads it."""

    journal: dict[str, bytes]
    head: bytes | None

    def journal_segments(self) -> list[str]:
        return sorted(self.journal)

    def read_segment(self, name: str) -> Iterator[bytes]:
        return split_lines([self.journal[name]])

    def read(self, name: str) -> bytes | None:
        return self.head if name == HEAD_FILE else None

    def records(self) -> list[Record] | None:
        """Return the records that are read. None if it is refused in words."""
        try:
            return list(read_records(cast("Store", self)))
        except JournalDamagedError:
            return None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A journal of three drivers, the second of which was killed behind its first line."""
    root = tmp_path_factory.mktemp("small") / "s"
    for total in (1, 2):
        make(root, resume=True, scheduler=FIFO(max_resource=1)).run(total, display="none")
    first, last = (path.read_bytes() for path in sorted((root / "journal").iterdir()))
    segments = {"000001.jsonl": first, "000002.jsonl": last.splitlines(keepends=True)[0], "000003.jsonl": last}
    return Kept(segments, (root / "head.json").read_bytes())


def changes(data: bytes, at: int) -> Iterator[bytes]:
    """Yield a text with one byte changed, lost or doubled: each of its bits, and the bytes that end lines and texts."""
    values = {data[at] ^ 1 << bit for bit in range(8)} | {ord("\n"), 0}
    yield from (data[:at] + bytes([value]) + data[at + 1 :] for value in sorted(values - {data[at]}))
    yield data[:at] + data[at + 1 :]
    yield data[:at] + data[at : at + 1] + data[at:]


@pytest.mark.parametrize("has_head", [True, False])
def test_damage_of_any_byte_of_a_journal_is_recovered_or_refused(small: Kept, has_head: bool) -> None:
    whole = small if has_head else small._replace(head=None)
    expected = whole.records()
    assert expected
    recovered = set()
    for name, data in whole.journal.items():
        for at in {*range(0, len(data), 1 if IS_ALL else STRIDE), *range(len(data) - 3, len(data))}:
            for damaged in changes(data, at):
                found = whole._replace(journal=whole.journal | {name: damaged}).records()
                assert found in (None, expected), f"byte {at} of {name} reads as another study: {damaged!r}"
                if found is not None:
                    recovered.add((name, at - len(data)))
    assert recovered == {(name, -1) for name in whole.journal}, "nothing but the last newline can be told"


def last(root: Path) -> tuple[Path, bytes]:
    segment = max((root / "journal").iterdir())
    return segment, segment.read_bytes().splitlines(keepends=True)[-1]


def test_no_byte_of_the_last_record_can_be_cut_off_without_being_noticed(root: Path, expected: Read) -> None:
    segment, line = last(root)
    data = segment.read_bytes()
    refused = []
    for left_out in seeds(len(line)):
        segment.write_bytes(data[: -left_out - 1])
        refused.append(require_same_or_refused(root, expected))
    assert refused == [False] + [True] * (len(refused) - 1), "only the newline is known without being there"


@pytest.mark.parametrize("has_head", [True, False])
def test_a_crash_in_the_last_append_leaves_the_records_before_it(root: Path, expected: Read, has_head: bool) -> None:
    segment, line = last(root)
    data = segment.read_bytes()
    if has_head:  # as it was before that append
        (root / "head.json").write_bytes(encode_head(head_of(data[: -len(line)], segment.name)))
    else:  # as an earlier version left it
        (root / "head.json").unlink()
    for left_out in seeds(len(line)):
        segment.write_bytes(data[: -left_out - 1])
        found = list(read_records(LocalStore(root)))
        assert found == expected.records[: -1 if left_out else None]
    segment.write_bytes(data[: -len(line) // 2])
    Study.resume(root).run(9, display="none")
    assert len(Study.open(root).trials) == 9


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_damaged_last_newline_costs_nothing_even_without_a_head(root: Path, expected: Read, damage: str) -> None:
    segment, _ = last(root)
    (root / "head.json").unlink()
    segment.write_bytes(segment.read_bytes()[:-1] + (b"\x1a" if damage == "flipped" else b""))
    assert read(root) == expected
    Study.resume(root).run(9, display="none")
    assert read(root).records[: len(expected.records)] == expected.records


def test_a_removed_journal_is_no_study_without_trials(root: Path) -> None:
    shutil.rmtree(root / "journal")
    with pytest.raises(JournalDamagedError, match="its end is missing"):
        read(root)


def test_the_head_names_the_last_record_and_the_sweep_of_an_orderly_end(root: Path, expected: Read) -> None:
    segment, line = last(root)
    head = decode_head((root / "head.json").read_bytes())
    assert head is not None
    assert head.swept, "the last run ended in order"
    assert msgspec.structs.replace(head, swept=False) == head_of(line, segment.name)
    assert head_of(line, segment.name).n == len(expected.records)
