"""The process that forks workers: it serves all runs, hands on what a program would inherit, and may be lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.files.paths import import_path
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import AgentFunction
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.launch.worker_template import TEMPLATES
from tests.launch.tools import PATIENCE_S, Ends, config_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks workers")


def served_by(agent: AgentFunction, folder: Path) -> str:
    """Return what an agent answers, in a launcher of its own."""
    ends, launcher = Ends(), ProcessLauncher(agent=agent)
    launcher.start(lambda worker, epoch: config_for(folder, b""), ends)
    try:
        launcher.launch(WorkerId(0), 1)
        return ends.next()[2]
    finally:
        launcher.stop(0.0)


def parent(_config: WorkerConfig) -> str:
    return str(os.getppid())


def inherited(_config: WorkerConfig) -> str:
    mask = os.umask(0)
    os.umask(mask)
    return " ".join(map(str, [os.environ.get("A_VARIABLE"), os.getcwd(), mask, sorted(os.sched_getaffinity(0))]))


@pytest.fixture
def _put_back() -> Iterator[None]:
    mask, folder, cores = os.umask(0o22), os.getcwd(), os.sched_getaffinity(0)
    yield
    os.umask(mask)
    os.chdir(folder)
    os.sched_setaffinity(0, cores)


def test_workers_of_all_launchers_are_forked_from_one_process(tmp_path: Path) -> None:
    assert served_by(parent, tmp_path) == served_by(parent, tmp_path) != str(os.getpid())


@pytest.mark.usefixtures("_put_back")
def test_worker_inherits_what_this_process_has_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served_by(parent, tmp_path)  # a template that has inherited what was before
    core = min(os.sched_getaffinity(0))
    monkeypatch.setenv("A_VARIABLE", "set later")
    assert served_by(inherited, tmp_path).startswith("set later ")
    os.chdir(tmp_path)
    os.umask(0o77)
    os.sched_setaffinity(0, [core])
    assert served_by(inherited, tmp_path) == f"set later {tmp_path} {0o77} [{core}]"


def blocked(_config: WorkerConfig) -> str:
    return str(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_worker_hears_signals_that_this_process_has_blocked(tmp_path: Path) -> None:
    TEMPLATES.close()  # one that was started before would not inherit it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        assert served_by(blocked, tmp_path) == "set()"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_lost_template_costs_its_workers_and_nothing_later(tmp_path: Path) -> None:
    lost = int(served_by(parent, tmp_path))

    def waits(_config: WorkerConfig) -> str:
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
        return "it lived on"

    assert "was killed by SIGKILL" in served_by(waits, tmp_path)
    assert int(served_by(parent, tmp_path)) != lost


def test_template_ends_when_it_has_had_no_worker_for_its_time() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = "import sys; from asyncsearch.runner import template; template.main(int(sys.argv[1]), None, 0.01)"
    with ours, theirs:
        command = [sys.executable, "-c", code, str(theirs.fileno())]
        assert subprocess.run(command, check=False, pass_fds=[theirs.fileno()], timeout=PATIENCE_S).returncode == 0


FORKED = """
import os, sys
from pathlib import Path
from tests.launch.test_worker_template import parent, served_by

def main():
    first = served_by(parent, Path(sys.argv[1]))
    child = os.fork()
    if child == 0:
        os._exit(served_by(parent, Path(sys.argv[1])) == first)
    assert os.waitpid(child, 0)[1] == 0
    assert served_by(parent, Path(sys.argv[1])) == first

main()
"""


def test_fork_of_this_process_has_a_template_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)], check=False, timeout=PATIENCE_S, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


WITHOUT_PIDFDS = """
import os

def pidfd_open(pid, flags=0):
    raise OSError(38, "Function not implemented")

os.pidfd_open = pidfd_open
"""
SEARCH = """
import sys
from asyncsearch import Study, choice

study = Study(
    lambda trial: trial.params["x"],
    space={"x": choice(1, 2, 3)}, searcher="grid", metric="y", mode="min", store=sys.argv[1], backend="processes",
).run(parallelism=2, display="none")
assert [trial.value for trial in study.trials] == [1, 2, 3], study.trials
"""


def test_search_runs_on_a_kernel_without_pidfds(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_PIDFDS)
    environment = {**os.environ, "PYTHONPATH": import_path([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", SEARCH, str(tmp_path / "study")]
    done = subprocess.run(
        command, check=False, timeout=PATIENCE_S, capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
