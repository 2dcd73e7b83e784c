"""Tools of all tests of faults: the script's runs, and the laws that hold after each of them."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import psutil

from asyncsearch import Study
from asyncsearch.actions import Assign
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Reported, TrainingEnded, WorkerLost
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.store import LocalStore, scratch
from asyncsearch.trial import TrialState
from tests.faults.search import CONFIGURATIONS, UNITS
from tests.system.tools import PATIENCE_S, require_committed_once

_TAGS = ("reported", "training_ended", "checkpoint_committed", "checkpoint_failed")
REPOSITORY = Path(__file__).parents[2]
_MARK = "ASYNCSEARCH_TEST_RUN"
_PROMISED = msgspec.json.Decoder(Reported | TrainingEnded | CheckpointCommitted | CheckpointFailed)


class Search:
    """A study in a folder, whose script is run until it has found the best configuration."""

    def __init__(self, folder: Path, module: str = "tests.faults.search") -> None:
        self.module = module
        self.folder, self.study = folder, folder / "study"
        self.tmp = folder / "tmp"
        self.tmp.mkdir(parents=True)
        self._mark = uuid.uuid4().hex

    def run(self, *, meanwhile: Callable[[psutil.Popen], None] = lambda driver: None, **order: Any) -> tuple[int, str]:
        """Run the script; return its exit code and output once it and all of its processes have ended.

        Args:
            meanwhile: called with the driver's process while it runs.
            order: see ``tests.faults.search``.
        """
        environment = os.environ | {_MARK: self._mark, "TMPDIR": str(self.tmp), "PYTHONFAULTHANDLER": "1"}
        command = script({"folder": str(self.folder), **order}, self.module)
        with tempfile.TemporaryFile() as output:  # not a pipe, which a process that is left would keep open
            driver = psutil.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT)
            try:
                meanwhile(driver)
                _require_end(driver, output)
                left = self.processes()
                _, alive = psutil.wait_procs(left, timeout=PATIENCE_S)
                assert not alive, f"left over: {[(process.pid, process.cmdline()) for process in alive]}"
            finally:
                for process in self.processes():
                    process.kill()
                driver.wait()
            output.seek(0)
            return driver.returncode, output.read().decode(errors="replace")

    def processes(self) -> list[psutil.Process]:
        """Return the living processes of this search, by the environment that they have inherited."""
        return [process for process in psutil.process_iter() if _has(process, _MARK, self._mark)]

    def lines(self, name: str) -> list[bytes]:
        """Return the whole lines of a file that the script has left."""
        path = self.folder / name
        return (
            [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
            if path.exists()
            else []
        )

    def files_left(self) -> list[str]:
        """Return the files that its processes have left in temporary folders, here and in the store.

        Without those that the next process removes: the last one may have been killed where it was slow to end.
        """
        for base in self.tmp.glob("asyncsearch-*"):
            scratch.sweep(base)
        return [str(path) for folder in (self.tmp, self.study / "tmp") for path in folder.rglob("*") if path.is_file()]

    def move_away(self) -> None:
        """Move what lies in the place of the store elsewhere."""
        self.study.rename(self.folder / "impostor")

    def finish(self, **order: Any) -> str:
        """Run it to its end."""
        code, output = self.run(**order)
        assert code == 0, output
        assert "best: 1\n" in output
        return output


def _require_end(driver: psutil.Popen, output: IO[bytes]) -> None:
    """Wait until a driver has ended; of one that hangs, show what it wrote and where each of its threads stands."""
    try:
        driver.wait(PATIENCE_S)
    except psutil.TimeoutExpired:
        driver.send_signal(signal.SIGABRT)  # PYTHONFAULTHANDLER writes the stacks
        driver.wait(PATIENCE_S)
        output.seek(0)
        raise AssertionError(f"the driver hangs: {output.read().decode(errors='replace')}") from None


def script(order: Mapping[str, object], module: str = "tests.faults.search") -> list[str]:
    """Return the command of a search; see ``tests.faults.search``."""
    return [sys.executable, "-m", module, msgspec.json.encode(order).decode()]


def _has(process: psutil.Process, name: str, value: str) -> bool:
    try:
        return process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def require_kept(search: Search) -> None:
    """Everything that was acknowledged is in the store, which any process may read and lock."""
    store = LocalStore(search.study)
    if not (search.study / "study.json").exists():
        assert not search.lines("acknowledged")
        return
    journal = {line for name in store.journal_segments() for line in store.read_segment(name)}
    assert not [line for line in search.lines("witness") if line not in journal], "a durable record is gone"
    records = list(read_records(store))
    events, broken, gone = {_known(record.event) for record in records}, broken_gangs(records), set()
    for event in (_PROMISED.decode(line) for line in search.lines("acknowledged") if _is_promise(line)):
        if _known(event) in events:
            assert event.lease not in gone, "an acknowledged message is gone, and a later one is not"
        else:
            assert event.lease in broken, "an acknowledged message is gone"
            gone.add(event.lease)
    assert not store.is_locked()
    with store.lock():
        pass


def broken_gangs(records: Sequence[Record]) -> set[Lease]:
    """Return the leases of gangs that have lost a process: what others say after that is acknowledged and dropped."""
    leases: dict[tuple[WorkerId, int], set[Lease]] = {}
    broken: set[Lease] = set()
    for record in records:
        event = record.event
        if isinstance(event, WorkerLost):
            broken |= leases.get((event.worker, event.epoch), set())
        elif isinstance(event, TrainingEnded) and event.error.startswith("In rank "):
            broken.add(event.lease)
        for work in (action.work for action in record.actions if isinstance(action, Assign)):
            for one in work.followers:
                leases.setdefault((one.worker, one.epoch), set()).add(work.lease)
    return broken


def _is_promise(line: bytes) -> bool:
    return any(f'"{tag}"'.encode() in line[:60] for tag in _TAGS)


def _known(event: object) -> bytes:
    return msgspec.json.encode(event)


def require_whole(search: Search, *, is_trained_once: bool = True) -> Study:
    """The same trials as of an undisturbed search, none failed, none trained twice, and nothing left lying about."""
    require_kept(search)
    study = Study.open(search.study)
    assert [trial.params["x"] for trial in study.trials] == list(range(1, CONFIGURATIONS + 1))
    assert {trial.state for trial in study.trials} <= {TrialState.PAUSED, TrialState.COMPLETED}
    assert study.best_trial.params == {"x": 1}
    assert study.best_trial.resource == UNITS
    if is_trained_once:
        require_committed_once(study.store)
    for trial in study.trials:
        assert [resource for resource, _ in study.history(trial)] == list(range(1, trial.resource + 1))
    assert not search.files_left(), search.files_left()
    assert os.listdir(search.study / "tmp") == []
    return study


@functools.cache
def counts() -> dict[str, int]:
    """Return how often an undisturbed search makes each call."""
    with tempfile.TemporaryDirectory() as folder:
        search = Search(Path(folder))
        search.finish()
        return msgspec.json.decode((search.folder / "counts").read_bytes(), type=dict[str, int])
