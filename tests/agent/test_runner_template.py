"""Runners that a template forks: their ends are told as those of started ones."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator

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
    made = Template(ENVIRONMENT)
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
