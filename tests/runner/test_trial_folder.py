"""The folder of a trial: made when it is asked for, in each checkpoint, and no larger than it may be."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.runner import trial_folder
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.runner.trial_folder import FolderPlace, TrialFolder, copy, require_small
from asyncsearch.trainable import TrialContext


def save(path: Path) -> None:
    path.write_text("saved")


def counts(trial: TrialContext) -> None:
    for epoch in trial.epochs(save=save, load=lambda path: None):
        with (trial.dir / "epochs.txt").open("a") as file:
            file.write(f"{epoch} ")
        trial.report(loss=1 / epoch)


def saved_in(folder: Path, resource: int) -> Path:
    """Return a checkpoint as a store holds it, with a folder beside it."""
    checkpoint = folder / str(resource) / "checkpoint"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("saved")
    return checkpoint


def test_outside_a_search_it_is_a_temporary_folder_of_the_trial() -> None:
    trial = StandaloneTrial({}, max_resource=2)
    counts(trial)
    folder = trial.dir
    assert (folder / "epochs.txt").read_text() == "1 2 "
    del trial
    gc.collect()
    assert not folder.exists()


def test_outside_a_search_it_goes_on_as_it_was_at_the_checkpoint(tmp_path: Path) -> None:
    counts(StandaloneTrial({}, max_resource=2, folder=tmp_path))
    again = StandaloneTrial({}, max_resource=3, folder=tmp_path)
    counts(again)
    assert (again.dir / "epochs.txt").read_text() == "1 2 3 "
    assert (tmp_path / "2" / "dir" / "epochs.txt").read_text() == "1 2 "


def test_nothing_is_made_for_a_trial_that_does_not_ask_for_it(tmp_path: Path) -> None:
    folder = TrialFolder(FolderPlace(str(tmp_path / "trial")), None, "trial-0")
    checkpoint = saved_in(tmp_path / "store", 1)
    folder.copy_beside(checkpoint)
    folder.require_small()
    assert not (tmp_path / "trial").exists()
    assert os.listdir(checkpoint.parent) == ["checkpoint"]


def test_an_earlier_checkpoints_files_are_in_the_next_one_even_if_unasked(tmp_path: Path) -> None:
    earlier, later = saved_in(tmp_path, 1), saved_in(tmp_path, 2)
    (earlier.parent / "dir").mkdir()
    (earlier.parent / "dir" / "plot.svg").write_text("<svg/>")
    TrialFolder(FolderPlace(str(tmp_path / "trial")), earlier, "trial-0").copy_beside(later)
    assert (later.parent / "dir" / "plot.svg").read_text() == "<svg/>"
    assert not (tmp_path / "trial").exists()


def test_what_is_written_after_a_checkpoint_is_not_in_it(tmp_path: Path) -> None:
    folder, checkpoint = TrialFolder(FolderPlace(str(tmp_path / "trial")), None, "trial-0"), saved_in(tmp_path, 1)
    (folder.path / "log.txt").write_text("one")
    folder.copy_beside(checkpoint)
    with (folder.path / "log.txt").open("a") as file:
        file.write(" two")
    assert (checkpoint.parent / "dir" / "log.txt").read_text() == "one"


def test_a_folder_that_the_trial_removed_is_no_error(tmp_path: Path) -> None:
    folder, checkpoint = TrialFolder(FolderPlace(str(tmp_path / "trial")), None, "trial-0"), saved_in(tmp_path, 1)
    folder.path.rmdir()
    folder.copy_beside(checkpoint)
    folder.require_small()
    assert not (checkpoint.parent / "dir").exists()


def test_links_and_pipes_are_left_out_and_empty_folders_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "file").write_text("1")
    (source / "link").symlink_to("/etc")
    os.mkfifo(source / "pipe")
    copy(source, tmp_path / "target", "trial-0")
    found = sorted(str(path.relative_to(tmp_path / "target")) for path in (tmp_path / "target").rglob("*"))
    assert found == ["deep", "deep/er", "deep/er/file", "empty"]


def test_a_folder_that_is_too_large_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes(1_500))
    require_small(tmp_path, 1_500, "trial-7")
    with pytest.raises(UsageError) as caught:
        require_small(tmp_path, 1_499, "trial-7")
    assert str(caught.value) == (
        "trial.dir of trial-7 holds 1,500 bytes, and 1,499 are allowed: write less there, or allow more, "
        "Study(..., checkpoints=Checkpoints(dir_bytes=2_000))."
    )


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_folder, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / str(number)).touch()
    with pytest.raises(UsageError, match=r"trial-7 holds 3 files, and 2 are allowed: write fewer"):
        require_small(tmp_path, 10, "trial-7")


def test_a_name_that_is_no_text_is_refused_with_the_trial(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / os.fsdecode(b"a\xff.txt")).touch()
    with pytest.raises(UsageError, match=r"trial\.dir of trial-7 holds a name that is not UTF-8, b'deep/a\\xff\.txt'"):
        require_small(tmp_path, 10, "trial-7")


def test_other_libraries_names_for_it_are_answered() -> None:
    with pytest.raises(AttributeError, match=r"A trial has no 'logdir': write trial\.dir\."):
        StandaloneTrial({}).logdir  # type: ignore[attr-defined]  # noqa: B018
