"""Workers as processes: what they get, how their end is told, and that none outlives the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import UsageError
from asyncsearch.ids import WorkerId
from asyncsearch.launch import processes
from asyncsearch.launch.base_launcher import TOO_LATE, AgentFunction
from asyncsearch.launch.machine import cores
from asyncsearch.launch.processes import ProcessLauncher
from tests.launch.tools import TOKEN, Ends, Line, config_for

Launch = Callable[..., ProcessLauncher]
W0, W1 = WorkerId(0), WorkerId(1)


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def launch(tmp_path: Path, ends: Ends) -> Iterator[Launch]:
    """Launch worker 0 with an agent, and end everything after the test."""
    launchers: list[ProcessLauncher] = []

    def started(agent: AgentFunction, *, bundle: bytes = b"") -> ProcessLauncher:
        launcher = ProcessLauncher(agent=agent)
        launchers.append(launcher)
        launcher.start(lambda worker, epoch: config_for(tmp_path, bundle), ends)
        launcher.launch(W0, 1)
        return launcher

    yield started
    for launcher in launchers:
        launcher.stop(0.0)


def endless(line: str) -> AgentFunction:
    """Return an agent that says its process id on the line and does not end."""

    def agent(config: WorkerConfig) -> str:
        import os
        import signal

        os.write(os.open(line, os.O_WRONLY), str(os.getpid()).encode())
        while True:
            signal.pause()

    return agent


def test_agent_gets_its_configuration_and_its_last_words_are_told(launch: Launch, ends: Ends) -> None:
    launch(lambda config: f"{config.study} {config.endpoint.token} {len(config.bundle)}", bundle=bytes(3_000_000))
    assert ends.next() == (0, 1, f"digits {TOKEN} 3000000")


def test_agent_runs_in_the_main_thread(launch: Launch, ends: Ends) -> None:
    def agent(config: WorkerConfig) -> str:
        import threading

        return threading.current_thread().name

    launch(agent)
    assert ends.reason() == "MainThread"


def test_token_is_neither_in_arguments_nor_in_environment(launch: Launch, ends: Ends) -> None:
    def agent(config: WorkerConfig) -> str:
        import os
        import sys

        return repr((sys.argv, sys.orig_argv, dict(os.environ)))

    launch(agent)
    assert TOKEN not in ends.reason()


def test_agent_imports_what_the_driver_imports(
    launch: Launch, ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "only_the_driver_has_it.py").write_text("WORD = 'found'")
    monkeypatch.syspath_prepend(str(folder))

    def agent(config: WorkerConfig) -> str:
        import only_the_driver_has_it  # type: ignore[import-not-found]

        return str(only_the_driver_has_it.WORD)

    launch(agent)
    assert ends.reason() == "found"


def test_what_is_printed_is_not_the_last_word(launch: Launch, ends: Ends) -> None:
    def agent(config: WorkerConfig) -> str:
        import subprocess
        import sys

        print("noise", flush=True)  # noqa: T201
        subprocess.run(["echo", "more noise"], check=True)
        return f"heard {sys.stdin.read()!r}"

    launch(agent)
    assert ends.reason() == "heard ''"


def test_exception_is_told_with_its_last_line_first(launch: Launch, ends: Ends) -> None:
    def agent(config: WorkerConfig) -> str:
        raise OSError("no route to the driver")

    launch(agent)
    first, *rest = ends.reason().splitlines()
    assert first.endswith("exited with code 1: OSError: no route to the driver")
    assert any("Traceback" in line for line in rest)


def test_signal_is_named(launch: Launch, ends: Ends) -> None:
    def agent(config: WorkerConfig) -> str:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)
        return "never"

    launch(agent)
    assert "was killed by SIGSEGV" in ends.reason()


def test_exit_with_nothing_said_is_told(launch: Launch, ends: Ends) -> None:
    def agent(config: WorkerConfig) -> str:
        import os

        os._exit(3)

    launch(agent)
    assert ends.reason().endswith("exited with code 3")


def test_what_cannot_start_is_told(launch: Launch, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    launch(lambda config: "never")
    assert "its process could not be started: FileNotFoundError" in ends.reason()


def test_kill_ends_one_launch_and_no_other(launch: Launch, ends: Ends, tmp_path: Path) -> None:
    first, second = Line(tmp_path / "first"), Line(tmp_path / "second")
    lines = iter([first.path, second.path])
    launcher = ProcessLauncher(agent=_dispatch)
    launcher.start(lambda worker, epoch: config_for(tmp_path, next(lines).encode()), ends)
    launcher.launch(W0, 1)
    first.hear()
    launcher.launch(W1, 1)
    second.hear()
    launcher.kill(W0, 2)
    launcher.kill(W0, 1)
    assert ends.next()[:2] == (0, 1)
    first.await_end()
    assert ends.is_empty
    launcher.stop(0.0)
    assert ends.next()[:2] == (1, 1)
    second.await_end()


def _dispatch(config: WorkerConfig) -> str:
    return endless(config.bundle.decode())(config)


def test_launch_that_is_killed_before_it_starts_is_told(tmp_path: Path) -> None:
    launch = processes._Launch()
    launch.kill()
    assert launch.run() == "it was called off before it started"


def test_launch_after_stop_starts_nothing_and_is_told_until_the_next_start(
    launch: Launch, ends: Ends, tmp_path: Path
) -> None:
    launcher = launch(lambda config: "done")
    assert ends.reason() == "done"
    launcher.stop(0.0)
    launcher.launch(W1, 1)
    assert ends.next() == (1, 1, TOO_LATE)
    launcher.start(lambda worker, epoch: config_for(tmp_path), ends)
    launcher.launch(W1, 2)
    assert ends.next() == (1, 2, "done")


def test_stop_waits_for_those_that_end_by_themselves(launch: Launch, ends: Ends, tmp_path: Path) -> None:
    line = Line(tmp_path / "line")

    def agent(config: WorkerConfig) -> str:
        with open(line.path, "w") as words:
            words.write("here")
        return "dismissed"

    launcher = launch(agent)
    line.hear()
    launcher.stop(60.0)
    assert ends.reason() == "dismissed"


def test_stop_ends_those_that_do_not(launch: Launch, ends: Ends, tmp_path: Path) -> None:
    line = Line(tmp_path / "line")
    launcher = launch(endless(line.path))
    line.hear()
    launcher.stop(0.0)
    assert "was ended by the driver" in ends.reason()
    line.await_end()


def test_what_the_agent_leaves_behind_ends_with_it(launch: Launch, ends: Ends, tmp_path: Path) -> None:
    line = Line(tmp_path / "line")

    def agent(config: WorkerConfig) -> str:
        import os
        import subprocess

        writing = os.open(line.path, os.O_WRONLY)
        subprocess.Popen(["sleep", "1000"], pass_fds=[writing])
        os.write(writing, b"here")
        return "gone"

    launch(agent)
    line.hear()
    assert ends.reason() == "gone"
    line.await_end()


def test_ctrl_c_in_a_terminal_reaches_the_driver_alone(launch: Launch, ends: Ends) -> None:
    def agent(config: WorkerConfig) -> str:
        import os

        return str(os.getpgrp())

    launch(agent)
    assert int(ends.reason()) != os.getpgrp()


DRIVER = """
import os, sys
from pathlib import Path
from asyncsearch.launch.processes import ProcessLauncher
from tests.launch.test_processes import endless
from tests.launch.tools import config_for

launcher = ProcessLauncher(agent=endless(sys.argv[1]))
launcher.start(lambda worker, epoch: config_for(Path(sys.argv[2])), print)
launcher.launch(0, 1)
if sys.argv[3] == "forks":
    sys.stdin.readline()  # the agent runs
    if os.fork() == 0:
        os.write(os.open(sys.argv[4], os.O_WRONLY), str(os.getpid()).encode())
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["plain", "forks"])
def test_agent_dies_with_a_driver_that_is_killed(kind: str, tmp_path: Path) -> None:
    agent, fork = Line(tmp_path / "agent"), Line(tmp_path / "fork")
    command = [sys.executable, "-c", DRIVER, agent.path, str(tmp_path), kind, fork.path]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert driver.stdin is not None
    agent.hear()
    forked = None
    if kind == "forks":  # it holds all pipes of the driver open, so no end of file tells of its death
        driver.stdin.write(b"\n")
        driver.stdin.flush()
        forked = int(fork.hear())
    driver.kill()
    agent.await_end()
    if forked is not None:
        os.kill(forked, signal.SIGKILL)
    driver.stdin.close()
    driver.wait()


def test_check_divides_the_cores_among_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 8)
    launcher = ProcessLauncher()
    assert (launcher.check(None).parallelism, launcher.check(None).cpu_threads) == (8, 1)
    assert (launcher.check(3).parallelism, launcher.check(3).cpu_threads) == (3, 2)
    assert launcher.check(8).warnings == ()


def test_check_warns_when_workers_share_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 2)
    preflight = ProcessLauncher().check(5)
    assert preflight.cpu_threads == 1
    assert preflight.warnings == ("5 workers share 2 cores; each trial takes longer than with parallelism=2.",)


def test_check_refuses_no_workers() -> None:
    with pytest.raises(UsageError, match="parallelism=0"):
        ProcessLauncher().check(0)


@pytest.mark.parametrize(
    ("limit", "expected"), [("max 100000", None), ("100000 100000", 1), ("10000 100000", 1), ("nonsense", None)]
)
def test_cores_heed_the_limit_of_a_container(limit: str, expected: int | None, tmp_path: Path) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(limit)
    assert cores(path) == (expected or cores(tmp_path / "missing"))


def test_process_that_was_started_before_its_launch_becomes_that_launch(tmp_path: Path, ends: Ends) -> None:
    launcher = ProcessLauncher(agent=lambda config: "done")
    launcher.warm_up(1)
    launcher.start(lambda worker, epoch: config_for(tmp_path), ends)
    launcher.launch(W0, 1)
    launcher.launch(W1, 1)
    assert {ends.next(), ends.next()} == {(0, 1, "done"), (1, 1, "done")}
    launcher.stop(0.0)


def test_a_process_that_no_launch_asked_for_ends_with_the_run_silently(tmp_path: Path, ends: Ends) -> None:
    launcher = ProcessLauncher(agent=lambda config: "done")
    launcher.start(lambda worker, epoch: config_for(tmp_path), ends)
    launcher.warm_up(2)
    threads = [thread for thread in threading.enumerate() if thread.name == "asyncsearch-worker"]
    launcher.stop(60.0)
    for thread in threads:
        thread.join(60.0)
    assert len(threads) == 2
    assert not any(thread.is_alive() for thread in threads)
    launcher.launch(W0, 1)
    assert ends.next() == (0, 1, TOO_LATE)
