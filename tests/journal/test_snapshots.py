"""A snapshot stands for the records before it only if it is whole and was taken of this journal."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Study, uniform
from asyncsearch.errors import JournalDamagedError
from asyncsearch.journal.opening import replay, save_snapshot
from asyncsearch.store import LocalStore


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] + 1 / epoch)


def study(store: Path, **options: Any) -> Study:
    settings: dict[str, Any] = {"metric": "loss", "mode": "min", "scheduler": FIFO(max_resource=2), "backend": "inline"}
    return Study(train, space={"x": uniform(0.0, 1.0)}, store=store, **(settings | options))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    study(tmp_path / "s").run(4, display="none")
    return tmp_path / "s"


def snapshot(root: Path) -> Path:
    (path,) = (root / "snapshots").iterdir()
    return path


def segment(root: Path) -> Path:
    (path,) = (root / "journal").iterdir()
    return path


def values(root: Path) -> list[Any]:
    return [(trial.id, trial.state, trial.resource, trial.value) for trial in Study.open(root).trials]


def emptied(record: bytes) -> bytes:
    """Return a record of the same number and with a right checksum, which cannot be decoded."""
    number = re.findall(rb'"n":(\d+)', record)[0]
    rest = b'"n":%b,"t":0}' % number
    return b'{"crc":"%08x",%b\n' % (zlib.crc32(rest), rest)


def empty(root: Path, *, all_records: bool) -> None:
    header, *records, last = segment(root).read_bytes().splitlines(keepends=True)
    lines = [header, *map(emptied, records), emptied(last) if all_records else last]
    segment(root).write_bytes(b"".join(lines))


def test_a_snapshot_stands_for_the_records_before_it(root: Path) -> None:
    found = values(root)
    empty(root, all_records=False)
    assert values(root) == found
    assert len(Study.resume(root).run(6, display="none").trials) == 6


def test_a_snapshot_of_another_journal_is_left_out(root: Path) -> None:
    empty(root, all_records=True)
    (root / "head.json").unlink()
    with pytest.raises(JournalDamagedError, match="cannot read it"):
        values(root)


@pytest.mark.parametrize("old", [rb'"resource":2', rb'"next_lease":', rb'"record_crc":"', rb'{"crc":"', rb"}$"])
def test_a_damaged_snapshot_is_left_out_and_the_journal_is_replayed(
    old: bytes, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = values(root)
    data = snapshot(root).read_bytes()
    at = re.search(old, data)
    assert at is not None
    snapshot(root).write_bytes(data[: at.end() - 1] + bytes([data[at.end() - 1] ^ 1]) + data[at.end() :])
    assert values(root) == found
    assert [trial.state for trial in Study.resume(root).run(4, display="none").trials] == [row[1] for row in found]


def test_a_damaged_snapshot_is_named_when_the_study_goes_on(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot(root).write_bytes(snapshot(root).read_bytes()[:-5])
    Study.resume(root).run(5, display="plain")
    assert f"Snapshot {snapshot_name(root)} is damaged and was left out" in capsys.readouterr().out


def snapshot_name(root: Path) -> str:
    return min(path.name for path in (root / "snapshots").iterdir())


def test_no_snapshot_is_saved_of_a_journal_whose_last_record_is_not_known(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s")
    save_snapshot(store, b"{}", 0, "")
    assert store.list("snapshots") == []


def test_the_next_older_snapshot_is_taken_where_the_newest_is_damaged(root: Path) -> None:
    empty(root, all_records=False)  # without a snapshot nothing could be read
    study(root, resume=True).run(6, display="none")
    newest = max((root / "snapshots").iterdir())
    newest.write_bytes(newest.read_bytes()[:-5])
    assert len(values(root)) == 6


def test_a_missing_end_is_found_by_a_snapshot_too(root: Path) -> None:
    lines = segment(root).read_bytes().splitlines(keepends=True)
    segment(root).write_bytes(b"".join(lines[:-1]))
    (root / "head.json").unlink()
    with pytest.raises(JournalDamagedError, match="a snapshot was taken after record"):
        values(root)


def test_a_study_without_its_head_is_opened_and_resumed_with_a_note(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "head.json").unlink()
    assert len(values(root)) == 4
    assert "head.json is missing" in caplog.text
    caplog.clear()
    study(root, resume=True).run(5, display="none")
    assert "head.json is missing" in caplog.text
    caplog.clear()
    assert len(values(root)) == 5
    assert caplog.text == "", "the run has written another one"


def test_replaying_tells_a_damaged_head(root: Path) -> None:
    (root / "head.json").write_bytes(b"\0" * 128)
    opened = study(root, resume=True)
    assert opened._runnable is not None
    doubts = replay(opened.store, opened._runnable.fresh_state()).doubts
    assert any("head.json is damaged" in doubt for doubt in doubts)
