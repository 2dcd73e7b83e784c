"""Scratch folders are removed at the end of the process that made them, or by the next process."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from asyncsearch.store import scratch
from asyncsearch.testing.store_checkpoints import together
from tests.system.tools import PATIENCE_S

HOLDER = """
from asyncsearch.store import scratch
folder = scratch.make_folder("stage")
(folder / "checkpoint").write_text("weights")
print(folder, flush=True)
"""
WAITS = "input()"
FORKS = """
import os, signal
if not os.fork():
    print(os.getpid(), flush=True)
    signal.pause()
input()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    mine = scratch._Roots()
    monkeypatch.setattr(scratch, "_mine", mine)
    yield place
    mine.close()
    while started:
        kill(started.pop())


started: list[subprocess.Popen[str]] = []
"""Those of the present test."""


def start(place: Path, code: str = HOLDER + WAITS) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    started.append(process)
    return process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    if process.stdout is not None and not process.stdout.closed:
        process.communicate()


def end(process: subprocess.Popen[str]) -> int:
    process.communicate("\n")
    return process.returncode


def base(place: Path) -> Path:
    return place / scratch._base_name()


def roots(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if (path / "lock").exists()]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_folder_is_new_private_and_gone_after_use(place: Path) -> None:
    with scratch.temporary_folder("fetch") as first, scratch.temporary_folder("fetch") as second:
        assert first != second
        assert first.parent == second.parent
        assert first.name.startswith("fetch-")
        assert base(place).stat().st_mode & 0o777 == 0o700
        (first / "checkpoint").write_text("weights")
    assert list(base(place).iterdir()) == []


def test_removing_one_folder_leaves_the_others(place: Path) -> None:
    first, second = scratch.make_folder("stage"), scratch.make_folder("stage")
    (second / "checkpoint").write_text("weights")
    scratch.remove_folder(first)
    assert not first.exists()
    assert (second / "checkpoint").exists()


def test_an_ended_process_leaves_nothing(place: Path) -> None:
    process = start(place)
    assert Path(line_of(process)).exists()
    assert end(process) == 0
    assert list(base(place).iterdir()) == []


def test_the_next_process_removes_roots_of_killed_and_not_of_living_ones(place: Path) -> None:
    killed = start(place)
    left = Path(line_of(killed))
    kill(killed)
    assert left.exists()
    living = start(place)
    held = Path(line_of(living))
    wait_until(lambda: not left.parent.exists())
    killed = start(place)
    left = Path(line_of(killed))
    kill(killed)
    assert left.exists(), "who lives has looked already"
    following = start(place)
    mine = Path(line_of(following))
    wait_until(lambda: not left.parent.exists())
    assert (held / "checkpoint").read_text() == (mine / "checkpoint").read_text() == "weights"
    assert (end(living), end(following)) == (0, 0)
    assert list(base(place).iterdir()) == []


def test_what_a_sweep_did_not_finish_is_swept_by_the_next(place: Path) -> None:
    process = start(place)
    left = Path(line_of(process))
    kill(process)
    (left / "checkpoint").unlink()
    left.rmdir()
    scratch.sweep(base(place))
    assert list(base(place).iterdir()) == []
    bare = base(place) / left.parent.name
    bare.mkdir()
    scratch.sweep(base(place))
    assert not bare.exists()


def test_a_forked_child_does_not_hold_what_its_parent_left(place: Path) -> None:
    process = start(place, HOLDER + FORKS)
    left, child = Path(line_of(process)), int(line_of(process))
    try:
        process.kill()
        process.wait()
        scratch.sweep(base(place))
        assert not left.parent.exists()
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_a_forked_child_that_ends_takes_nothing_from_its_parent(place: Path) -> None:
    process = start(place, HOLDER + "import os, sys\nif not os.fork():\n    sys.exit()\nos.wait()\nprint()\ninput()")
    held = Path(line_of(process))
    line_of(process)
    assert (held / "checkpoint").exists()
    assert end(process) == 0


def test_processes_that_begin_at_once_and_sweep_leave_each_other_alone(place: Path) -> None:
    again = """
from asyncsearch.store import scratch
for _ in range(200):
    with scratch.temporary_folder("stage") as folder:
        (folder / "checkpoint").write_text("weights")
        scratch.sweep(folder.parent.parent)
        assert (folder / "checkpoint").read_text() == "weights"
        assert folder.parent.parent.name == scratch._base_name()
"""
    processes = [start(place, "input()\n" + again) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [end(process) for process in processes] == [0] * 4
    assert list(base(place).iterdir()) == []


def test_threads_share_one_root(place: Path) -> None:
    folders: list[Path] = []
    together(8, lambda number: folders.append(scratch.make_folder("stage")))
    assert len(set(folders)) == 8
    assert len({folder.parent for folder in folders}) == 1
    together(8, lambda number: scratch.remove_folder(folders[number]))
    assert list(base(place).iterdir()) == []


def test_a_root_that_somebody_took_away_is_made_anew(place: Path) -> None:
    first = scratch.make_folder("stage")
    shutil.rmtree(first.parent, ignore_errors=True)  # the first sweep, in a thread, may run at the same moment
    second = scratch.make_folder("stage")
    assert second.parent != first.parent
    assert second.exists()


def test_a_root_that_is_in_use_does_not_look_old(place: Path) -> None:
    lock = scratch.make_folder("stage").parent / "lock"
    os.utime(lock, (0, 0))
    scratch.make_folder("stage")
    assert lock.stat().st_mtime > 0


@pytest.mark.parametrize("spoil", ["file", "link", "open"])
def test_a_folder_that_is_not_this_users_alone_is_not_used(place: Path, tmp_path: Path, spoil: str) -> None:
    if spoil == "file":
        base(place).write_text("")
    elif spoil == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        base(place).symlink_to(tmp_path / "elsewhere")
    else:
        base(place).mkdir()
        base(place).chmod(0o777)
    with scratch.temporary_folder("stage") as folder:
        assert folder.parent.parent == place
        assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in place.iterdir()] == [base(place).name]


@pytest.mark.parametrize("how", ["no users", "no locks"])
def test_where_there_are_no_locks_folders_go_at_the_end_of_their_process(
    place: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    if how == "no users":
        monkeypatch.delattr(os, "getuid")
    else:
        monkeypatch.setattr("fcntl.flock", fail)
    folder = scratch.make_folder("stage")
    assert folder.parent.parent == place
    scratch._mine.close()
    assert not folder.parent.exists()
    assert all(path == base(place) and list(path.iterdir()) == [] for path in place.iterdir())


def test_roots_of_other_machines_stay_and_those_of_containers_here_do_not(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, boot = scratch._machine()
    names = {"elsewhere.0000.a": True, f"elsewhere.{boot or '0000'}.b": not boot, f"{host}.0000.c": False}
    for name in names:
        root = base(place) / name
        root.mkdir(parents=True)
        (root / "lock").write_text("")
        (root / "stage-1").mkdir()
    scratch.sweep(base(place))
    assert {name: (base(place) / name).exists() for name in names} == names
    assert "." not in host
    monkeypatch.setattr(socket, "gethostname", lambda: "a.b/c")
    assert scratch._machine()[0] == "a-b-c"


def test_a_root_that_is_swept_before_it_is_locked_is_made_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweeper may run at any moment: before the lock file is made, and between its creation and its locking."""
    import fcntl

    sweeps = iter(["bare", "unlocked"])
    mkdtemp, flock = tempfile.mkdtemp, fcntl.flock
    inside = threading.local()

    def sweep(when: str) -> None:
        if not getattr(inside, "sweeping", False):
            inside.sweeping = True
            scratch.sweep(base(place))
            inside.sweeping = False
            done.append(when)

    def made(prefix: str, **options: Path) -> str:
        path = mkdtemp(prefix=prefix, dir=options["dir"])
        if options["dir"] == base(place) and next(sweeps, "") == "bare":
            sweep("bare")
        return path

    def locked(descriptor: int, flags: int) -> None:
        if done == ["bare"] and not getattr(inside, "sweeping", False):
            sweep("unlocked")
        flock(descriptor, flags)

    done: list[str] = []
    monkeypatch.setattr(tempfile, "mkdtemp", made)
    monkeypatch.setattr(fcntl, "flock", locked)
    folder = scratch.make_folder("stage")
    assert done == ["bare", "unlocked"]
    assert folder.parent.parent == base(place)
    assert roots(place) == [folder.parent]
    with contextlib.suppress(FileNotFoundError):
        scratch.sweep(base(place))
    assert folder.exists()
