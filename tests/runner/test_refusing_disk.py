"""An error of `save` is the disk's where it names a file there, or the disk takes nothing; else it is not for long."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from asyncsearch.runner import saving
from asyncsearch.runner.saving import is_doubtful, refusal_of, write

LOST = OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def tries(folder: Path, error: OSError, most: int = 50) -> int:
    """Return how often a needed checkpoint is tried whose ``save`` always fails alike; ``most`` ends the wait."""
    count = 0

    def place(_needed: bool, _refused: str) -> Path:
        nonlocal count
        count += 1
        if count > most:
            raise TimeoutError("it would be tried for ever")
        return folder / "checkpoint"

    def save(_path: Path) -> None:
        raise error

    with pytest.raises(OSError):
        write(save, place, lambda: True, "trial-0 at resource 1")
    return count


def test_an_error_without_a_file_is_not_the_disks_where_it_takes_all(tmp_path: Path) -> None:
    assert 1 < tries(tmp_path, LOST) < 10


def test_a_disk_that_is_full_for_a_checkpoint_is_waited_for(tmp_path: Path) -> None:
    assert tries(tmp_path, FULL) > 50
    assert tries(tmp_path, OSError(errno.EIO, "bad", str(tmp_path / "checkpoint"))) > 50


def test_a_disk_that_takes_nothing_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "_probe", lambda folder: "Cannot write.")
    assert tries(tmp_path, LOST) > 50


def test_what_a_framework_makes_of_an_error_is_looked_through(tmp_path: Path) -> None:
    wrapped = RuntimeError("unexpected pos 64 vs 0")
    wrapped.__cause__ = LOST
    assert refusal_of(tmp_path, wrapped)
    assert is_doubtful(tmp_path, wrapped)
    wrapped.__cause__ = FULL
    assert not is_doubtful(tmp_path, wrapped)


def test_a_folder_of_any_name_hinders_no_probe(tmp_path: Path) -> None:
    (tmp_path / ".asyncsearch-probe").mkdir()
    assert refusal_of(tmp_path, ValueError("own")) == ""
