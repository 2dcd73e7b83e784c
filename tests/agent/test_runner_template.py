"""Runners that a template forks: their ends are told as those of started ones."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.agent import runner_template
from asyncsearch.agent.runner_template import ForkedRunner, Template

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks runners")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def started(template: Template) -> ForkedRunner:
    runner = template.start()
    assert runner is not None
    return runner


@pytest.fixture
def template() -> Iterator[Template]:
    made = Template.program(ENVIRONMENT)
    yield made
    made.close()


def release(*runners: ForkedRunner) -> None:
    """Close what the agent's handle would close."""
    for runner in runners:
        runner.channel.close()
        runner.stdout.close()
        runner.stderr.close()


def test_runner_that_is_hung_up_on_exits_with_code_zero(template: Template) -> None:
    runner = started(template)
    runner.channel.close()
    runner.await_end()
    assert runner.wait() == 0
    release(runner)
    os.close(runner.lifeline)


def test_signal_that_killed_a_runner_is_told_and_others_live(template: Template) -> None:
    one, other = started(template), started(template)
    os.killpg(one.pid, signal.SIGKILL)
    one.await_end()
    assert one.wait() == -signal.SIGKILL
    assert one.peak_bytes > 2**20, "a process with an interpreter holds more"
    waiting = threading.Thread(target=other.await_end)
    waiting.start()
    assert waiting.is_alive()
    other.channel.close()
    waiting.join()
    assert other.wait() == 0
    release(one, other)
    os.close(one.lifeline)
    os.close(other.lifeline)


def test_runner_ends_when_its_lifeline_breaks(template: Template) -> None:
    runner = started(template)
    os.close(runner.lifeline)
    runner.await_end()
    assert runner.wait() != 0
    release(runner)


def test_template_that_failed_forks_no_more_runners(template: Template) -> None:
    assert template.ask(b"no process id") is None
    assert template.start() is None


def test_template_that_is_gone_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_template, "_STARTED", [])
    first = runner_template.fork_runner(ENVIRONMENT)
    assert first is not None
    [template] = runner_template._STARTED
    template._process.kill()
    template._process.wait()
    assert runner_template.fork_runner(ENVIRONMENT) is None
    second = runner_template.fork_runner(ENVIRONMENT)
    assert second is not None
    for runner in (first, second):
        runner.channel.close()
        runner.await_end()
    assert (first.wait(), second.wait()) == (-signal.SIGKILL, 0)
    for runner in (first, second):
        release(runner)
        os.close(runner.lifeline)
    runner_template._STARTED[0].close()


LOOK = """
import json, os, sys, threading
from asyncsearch.agent import runner_template
from asyncsearch.runner.template import main_in_fork

{before}
runner_template.fork_template(main_in_fork)
print(len(runner_template._STARTED))
for template in runner_template._STARTED:
    template.close()
"""


@pytest.mark.parametrize(
    ("before", "templates"),
    [
        ("", "1"),
        ("import grpc", "0"),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "0"),
    ],
)
def test_template_is_forked_before_grpc_and_threads_only(before: str, templates: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(before=before)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == templates


def test_forked_template_inherits_no_descriptor_and_runs_no_exit_function(tmp_path: Path) -> None:
    code = f"""
import atexit, os, sys
from asyncsearch.agent.runner_template import Template
from asyncsearch.runner.template import main_in_fork

def note():
    with open({str(tmp_path / "ends")!r}, "a") as file:
        file.write("an end\\n")

atexit.register(note)
reading, writing = os.pipe()
template = Template.fork(main_in_fork)
runner = template.start()
os.close(writing)
assert os.read(reading, 1) == b"", "the other end is closed everywhere"
runner.channel.close()
runner.await_end()
assert runner.wait() == 0
template.close()
"""
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)
    assert (tmp_path / "ends").read_text() == "an end\n", "the parent's alone"


def test_template_ends_with_the_process_that_started_it() -> None:
    code = """
import os, sys
from asyncsearch.agent.runner_template import Template
from asyncsearch.runner.template import main_in_fork

template = Template.fork(main_in_fork)
print(template._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        end = os.pidfd_open(int(done.stdout))
        poll = select.poll()
        poll.register(end, select.POLLIN)
        assert poll.poll(60_000), "it goes on alone"
        os.close(end)
