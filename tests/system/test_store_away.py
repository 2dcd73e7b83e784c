"""Searches whose store cannot be used for a while, or for too long: nothing is lost, and no trial is charged."""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from asyncsearch import Checkpoints, Study
from asyncsearch.errors import StoreError
from asyncsearch.trial import TrialState
from tests.shares import first
from tests.system.tools import PATIENCE_S, Running, make_study
from tests.system.trained import Gate, make_trainable

TRIALS = 9
Break = Callable[[contextlib.ExitStack], None]
"""Breaks a store, and pushes what mends it."""


def succeeds(*command: object) -> bool:
    """Run a command of the system; return whether it is there and may do that."""
    if shutil.which(str(command[0])) is None:
        return False
    return not subprocess.run([str(part) for part in command], capture_output=True, check=False).returncode


def make_immutable(path: Path, mending: contextlib.ExitStack) -> None:
    """Make a file or folder immutable, for root too."""
    if not succeeds("chattr", "+i", path):
        pytest.skip("chattr +i is not allowed here")
    mending.callback(subprocess.run, ["chattr", "-i", str(path)], check=True)


def fill(folder: Path, mending: contextlib.ExitStack) -> None:
    """Fill the disk of a folder up."""
    for size in (65_536, 512, 1):
        filler = folder / f"filler-{size}"
        mending.callback(filler.unlink)
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(size)):
                pass


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not succeeds("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk):
        pytest.skip("mount is not allowed here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    folder = tmp_path / "gate"
    folder.mkdir()
    return Gate(folder).make()


@pytest.fixture
def notice() -> Iterator[threading.Event]:
    """Set when the user is told that the store cannot be used."""
    told = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "cannot use the store" in record.getMessage():
                told.set()

    listener = Listener()
    logging.getLogger("asyncsearch").addHandler(listener)
    yield told
    logging.getLogger("asyncsearch").removeHandler(listener)


def require_whole(study: Study) -> None:
    """Check that all trials are there, that one was trained to the end, and that none was charged."""
    assert [trial.id for trial in study.trials] == list(range(TRIALS))
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETED, TrialState.PAUSED}
    assert {(trial.failures, trial.losses) for trial in study.trials} == {(0, 0)}


AWAY_S = 3.0
"""Longer than a worker takes to be launched again: while it is, another one that waits alone is lost."""


def end_without_its_store(store: Path, gate: Gate, break_it: Break) -> None:
    """Break the store in the middle of a run until the run ends, then mend it and go on."""
    study = make_study(make_trainable(gate, at=1), store, checkpoints=Checkpoints(store_timeout=AWAY_S))
    search = Running(study, num_trials=TRIALS)
    gate.pids()
    with contextlib.ExitStack() as mending:
        break_it(mending)
        gate.open()
        with pytest.raises(StoreError, match=rf"could not be used for {AWAY_S:g} s.*Study\.resume"):
            search.wait()
    assert TrialState.FAILED not in {trial.state for trial in Study.open(store).trials}
    study.run(num_trials=TRIALS, parallelism=2, display="none")
    require_whole(Study.open(store))


@pytest.mark.parametrize("folder", first(["checkpoints", "tmp"]))
def test_a_run_that_can_save_nothing_ends_in_words_and_resumes_mended(tmp_path: Path, gate: Gate, folder: str) -> None:
    store = tmp_path / "study"
    end_without_its_store(store, gate, lambda mending: make_immutable(store / folder, mending))


def test_a_run_with_an_unwritable_journal_ends_in_words_and_resumes_mended(tmp_path: Path, gate: Gate) -> None:
    journal = tmp_path / "study" / "journal"

    def break_it(mending: contextlib.ExitStack) -> None:
        for path in (*journal.iterdir(), journal):
            make_immutable(path, mending)

    end_without_its_store(journal.parent, gate, break_it)


def test_a_run_with_a_full_disk_ends_in_words_and_resumes_mended(small_disk: Path, gate: Gate) -> None:
    end_without_its_store(small_disk / "study", gate, lambda mending: fill(small_disk, mending))


@pytest.mark.parametrize("folder", ["checkpoints", "journal"])
def test_a_run_whose_store_comes_back_in_time_ends_well(
    tmp_path: Path, gate: Gate, notice: threading.Event, folder: str
) -> None:
    store = tmp_path / "study"
    study = make_study(make_trainable(gate, at=1), store, checkpoints=Checkpoints(store_timeout=PATIENCE_S))
    search = Running(study, num_trials=TRIALS)
    gate.pids()
    with contextlib.ExitStack() as mending:
        for path in (*(store / "journal").iterdir(), store / folder) if folder == "journal" else [store / folder]:
            make_immutable(path, mending)
        gate.open()
        assert notice.wait(PATIENCE_S)
    search.wait()
    require_whole(Study.open(store))
