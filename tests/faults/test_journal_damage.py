"""Random damages of a journal: each is recovered or refused in words, and none reads as another study."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.errors import JournalDamagedError
from asyncsearch.journal.head import encode_head, head_of
from asyncsearch.journal.opening import read_records
from asyncsearch.store import LocalStore
from tests.faults.damages import Read, copy_of, damage_journal, make, read, require_same_or_refused, seeds

DAMAGES = 440


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


@pytest.mark.parametrize("seed", seeds(DAMAGES), ids="seed{}".format)
def test_a_damaged_journal_reads_as_it_was_or_is_refused(seed: int, root: Path, expected: Read) -> None:
    sys.stdout.write(f"seed {seed}: {damage_journal(root / 'journal', random.Random(seed))}\n")
    if not require_same_or_refused(root, expected) and seed % 20 == 0:
        Study.resume(root).run(9, display="none")
        assert read(root).records[: len(expected.records)] == expected.records


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
def test_a_damaged_newline_of_the_last_record_costs_nothing_even_without_a_head(
    root: Path, expected: Read, damage: str
) -> None:
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


def test_the_head_of_a_killed_driver_names_its_last_record(root: Path, expected: Read) -> None:
    segment, line = last(root)
    assert (root / "head.json").read_bytes() == encode_head(head_of(line, segment.name))
    assert head_of(line, segment.name).n == len(expected.records)
