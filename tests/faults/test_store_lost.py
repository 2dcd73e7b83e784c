"""A store that is removed or replaced in the middle of a run: the run raises, and the rescue file holds everything."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, GridSearch, Study, choice
from asyncsearch.driver.commits import Snapshots
from asyncsearch.driver.loop import Driver
from asyncsearch.errors import JournalDamagedError, StoreError, StoreLockedError, StoreLostError
from asyncsearch.events import DriverStarted
from asyncsearch.journal.opening import read_records, save_snapshot
from asyncsearch.journal.writer import Journal
from asyncsearch.store import LocalStore

TRIALS = 9


class Attack:
    """Does something to the store once, in the middle of a certain trial."""

    def __init__(self, attack: Callable[[Path], None], root: Path, trial: int = 4) -> None:
        self.attack, self.root, self.trial = attack, root, trial
        self.done = root.parent.with_name(f"{root.name}-attacked")

    @property
    def records(self) -> int:
        """Records that were durable before the attack."""
        return int(self.done.read_text())

    def __call__(self, trial: Any) -> None:
        for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
            if trial.name == f"trial-{self.trial}" and epoch == 2 and not self.done.exists():
                self.done.write_text(str(len(list(read_records(LocalStore(self.root))))))
                self.attack(self.root)
            trial.report(loss=trial.params["x"] / epoch)


def study(train: Any, store: Path, **options: Any) -> Study:
    space = {"x": choice(*range(1, TRIALS + 1))}
    settings: dict[str, Any] = {"metric": "loss", "mode": "min", "searcher": GridSearch(), "backend": "inline"}
    settings["scheduler"] = FIFO(max_resource=3)
    return Study(train, space=space, store=store, **(settings | options))


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] / epoch)


def remove_all(root: Path) -> None:
    gone = root.rename(root.with_name("gone"))
    shutil.rmtree(gone)


def remove_with_its_parent(root: Path) -> None:
    gone = root.parent.rename(root.parent.with_name("gone"))  # at once: the driver may write in it meanwhile
    shutil.rmtree(gone)


def remove_journal(root: Path) -> None:
    shutil.rmtree(root / "journal")


def remove_segments(root: Path) -> None:
    for path in (root / "journal").iterdir():
        path.unlink()


def replace_segments(root: Path) -> None:
    for path in (root / "journal").iterdir():
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)


def move(root: Path) -> None:
    root.rename(root.with_name("moved"))


def replace_by_a_link(root: Path) -> None:
    move(root)
    root.mkdir()
    (root / "journal").mkdir()
    for path in (root.with_name("moved") / "journal").iterdir():
        (root / "journal" / path.name).symlink_to(path)


LOSSES = [
    remove_all,
    remove_with_its_parent,
    remove_journal,
    remove_segments,
    replace_segments,
    move,
    replace_by_a_link,
]


def rescued(folder: Path) -> Path:
    (file,) = folder.rglob("*.rescued-*.zip")
    return file


@pytest.mark.parametrize("attack", LOSSES)
def test_a_store_that_is_lost_ends_the_run_and_its_rescue_file_goes_on(
    attack: Callable[[Path], None], tmp_path: Path
) -> None:
    root = tmp_path / "deep" / "store"
    study(train, root).run(2, display="none")  # an earlier run, whose segment no driver writes any more
    attacked = Attack(attack, root)
    with pytest.raises(StoreLostError, match=r"removed, moved or replaced.*Study\.resume\('.*rescued-.*\.zip'\)"):
        study(attacked, root, resume=True).run(TRIALS, display="none")
    file = rescued(tmp_path)
    with zipfile.ZipFile(file) as archive:
        assert {"study.json", "bundle.bin", "journal/000001.jsonl", "journal/000002.jsonl"} <= set(archive.namelist())
    if attack is replace_by_a_link:
        shutil.rmtree(root)
    resumed = Study.resume(file)
    assert len(list(read_records(resumed.store))) >= attacked.records > 0
    assert resumed.store.url == str(root)
    resumed.run(TRIALS, display="none")
    assert len(Study.open(root).trials) == TRIALS


def test_a_journal_removed_while_the_last_snapshot_is_saved_is_rescued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"

    def save_and_remove(*args: Any) -> None:
        save_snapshot(*args)
        remove_journal(root)

    monkeypatch.setattr("asyncsearch.driver.commits.save_snapshot", save_and_remove)
    with pytest.raises(StoreLostError, match="rescued"):
        study(train, root).run(2, display="none")
    with zipfile.ZipFile(rescued(tmp_path)) as archive:
        assert "journal/000001.jsonl" in archive.namelist()


@pytest.mark.parametrize("attack", [remove_all, remove_journal])
def test_nothing_is_written_where_a_store_was_removed_before_a_snapshot(
    attack: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"

    async def remove_and_save(self: Snapshots, files: Executor) -> None:
        attack(root)
        await save(self, files)

    save = Snapshots.save
    monkeypatch.setattr(Snapshots, "save", remove_and_save)
    with pytest.raises(StoreLostError, match="rescued"):
        study(train, root).run(2, display="none")
    assert not list(root.glob("snapshots/*"))
    assert root.exists() == (attack is remove_journal)


def test_a_journal_removed_after_the_driver_has_closed_it_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, close = tmp_path / "store", Driver.close

    def close_and_remove(self: Driver) -> None:
        close(self)
        remove_journal(root)

    monkeypatch.setattr(Driver, "close", close_and_remove)
    with pytest.raises(StoreLostError, match="was removed while its run ended"):
        study(train, root).run(2, display="none")


def test_a_loss_in_the_last_moment_is_found_when_the_journal_is_closed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.prepare()
    segment = store.open_segment()
    segment.append(b"one\n")
    shutil.rmtree(store.url)
    with pytest.raises(StoreLostError, match="rescued"):
        segment.close()
    with zipfile.ZipFile(rescued(tmp_path)) as archive:
        assert archive.read("journal/000001.jsonl") == b"one\n"
    segment.close()


def test_a_script_resumes_from_a_rescue_file_instead_of_starting_anew(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    with pytest.raises(StoreLostError):
        study(Attack(remove_all, root), root).run(TRIALS, display="none")
    file = rescued(tmp_path)
    shutil.rmtree(root, ignore_errors=True)
    with pytest.raises(StoreError, match=r"Study\.resume\('.*\.zip'\)"):
        study(train, root, resume=True).run(TRIALS, display="none")
    with pytest.raises(StoreError, match=r"rescue file.*Study\.resume"):
        Study.open(file)
    assert len(study(train, file, name="store", resume=True).run(TRIALS, display="none").trials) == TRIALS


def test_a_rescue_file_does_not_overwrite_another_study(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    with pytest.raises(StoreLostError):
        study(Attack(remove_all, root), root).run(TRIALS, display="none")
    file = rescued(tmp_path)
    aside = file.rename(tmp_path / "aside.zip")
    shutil.rmtree(root, ignore_errors=True)
    study(train, root, seed=5).run(TRIALS, display="none")
    aside.rename(file)
    with pytest.raises(StoreError, match=r"python -m zipfile -e .*store-rescued"):
        Study.resume(file)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path / "own")
    assert len(Study.resume(tmp_path / "own").run(TRIALS, display="none").trials) == TRIALS


def test_a_damaged_rescue_file_is_refused_in_words(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    with pytest.raises(StoreLostError):
        study(Attack(remove_all, root), root).run(TRIALS, display="none")
    file = rescued(tmp_path)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(StoreError, match=r"rescue file .* is damaged"):
        Study.resume(file)


def test_a_loss_without_any_place_for_a_rescue_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "store")
    segment = store.open_segment()
    shutil.rmtree(store.url)

    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("asyncsearch.store.rescue.Rescue._write", refuse)
    with pytest.raises(StoreLostError, match="could not be written anywhere else"):
        segment.append(b"one\n")


def replace_lock(root: Path) -> None:
    (root / "lock").unlink()
    (root / "lock").write_bytes(b"")


def remove_lock(root: Path) -> None:
    (root / "lock").unlink()


@pytest.mark.parametrize("attack", [remove_lock, replace_lock])
def test_a_lock_that_is_lost_ends_the_run_and_the_study_goes_on(attack: Callable[[Path], None], tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    attacked = Attack(attack, root)
    study(train, root).run(2, display="none")
    with pytest.raises(StoreLockedError, match=r"lock' was removed, moved or replaced.*Study\.resume"):
        study(attacked, root, resume=True).run(TRIALS, display="none")
    assert not list(root.parent.glob("*.rescued-*")), "the journal is where it was"
    resumed = Study.resume(root)
    assert len(list(read_records(resumed.store))) >= attacked.records
    assert len(resumed.run(TRIALS, display="none").trials) == TRIALS
    assert os.listdir(root / "tmp") == []


def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> tuple[LocalStore, Journal, bytes]:
    """Return a journal with one durable record, and a line that its disk has refused."""
    store = LocalStore(folder / "store")
    store.prepare()
    journal = Journal(store, "s", 0)
    journal.append(journal.encode(DriverStarted("1"), (), 1.0))
    line = journal.encode(DriverStarted("2"), (), 2.0)

    def refuse(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("asyncsearch.store.local.store.sync_data", refuse)
        with pytest.raises(StoreError, match=str(error.strerror)):
            journal.append(line)
    return store, journal, line


def test_a_store_that_is_lost_while_it_cannot_be_written_is_rescued_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, journal, line = refused(tmp_path, monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    shutil.rmtree(store.url)
    with pytest.raises(StoreLostError, match="rescued"):
        journal.append(line)
    journal.close()
    with zipfile.ZipFile(rescued(tmp_path)) as archive:
        header, *records = archive.read("journal/000001.jsonl").splitlines(keepends=True)
    assert b'"first":1' in header
    assert b'"n":1,' in records[0]


def test_records_that_failed_are_written_once_in_the_next_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, journal, line = refused(tmp_path, monkeypatch, OSError(errno.EIO, "Input/output error"))
    journal.append(line)
    journal.close()
    assert store.journal_segments() == ["000001.jsonl", "000002.jsonl"]
    assert [record.n for record in read_records(store)] == [1, 2]


def test_a_driver_without_a_lock_writes_as_before(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    segment = store.open_segment()
    segment.append(b"one\n")
    segment.close()
    assert list(store.read_segment(segment.name)) == [b"one\n"]
    assert issubclass(JournalDamagedError, StoreError)
