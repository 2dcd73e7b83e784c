"""Whatever outlives a trial, or was forked from its process, can neither report by it nor read what is for others."""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import StopTraining
from asyncsearch.errors import UsageError
from asyncsearch.events import Outcome
from asyncsearch.runner.agent_link import AgentLink
from asyncsearch.runner.channel import Channel, RunnerEnd, agent_end, runner_end
from asyncsearch.runner.link import Link
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import FromRunner, LaneReported, ToRunner, Train
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import TrialContext
from tests.agent.driver import lease, make_stage
from tests.agent.recorder import Recorder
from tests.runner.test_packed_training import NoInterrupts
from tests.untimed import untimed

Agent = Channel[FromRunner, ToRunner]
Use = Callable[[TrialContext], Any]

USES: dict[str, Use] = {
    "report()": lambda trial: trial.report(loss=-99.0),
    "epochs()": lambda trial: trial.epochs(),
    "trial.dir": lambda trial: trial.dir,
    "process_group()": lambda trial: trial.process_group(),
}


@pytest.fixture
def ends() -> Iterator[tuple[Agent, RunnerEnd]]:
    one, other = socket.socketpair()
    with one, other:
        yield agent_end(one), runner_end(other)


def train(channel: RunnerEnd, function: Use, number: int = 0) -> AgentLink:
    """Train a trial on the channel to its end, as a runner does, and return its link."""
    guard: SigtermGuard = NoInterrupts()
    link = AgentLink(channel, guard)
    ended = run_training(function, Train((make_stage(number, stop=None, max_resource=None),)), link, guard, "loss")
    assert ended.outcome is Outcome.RETURNED, ended.error
    return link


@pytest.mark.parametrize("what", USES)
def test_an_ended_trial_is_refused_by_name_while_the_next_one_trains(ends: tuple[Agent, RunnerEnd], what: str) -> None:
    agent, channel = ends
    kept: list[TrialContext] = []

    def first(trial: TrialContext) -> None:
        kept.append(trial)
        trial.report(loss=0.0)

    def second(trial: TrialContext) -> None:
        with pytest.raises(UsageError, match=r"trial-0 has ended.*" + what.replace("(", r"\(").replace(")", r"\)")):
            USES[what](kept[0])
        assert kept[0].should_stop
        assert kept[0].params["lr"] == 0.5
        trial.report(loss=1.0)

    train(channel, first)
    train(channel, second, 1)
    assert [untimed(agent.receive()) for _ in range(2)] == [
        LaneReported(1, {"loss": 0.0}),
        LaneReported(1, {"loss": 1.0}),
    ]
    assert not agent.receive_now()


@pytest.mark.parametrize("is_inline", [True, False])
def test_an_iterator_that_outlives_its_trial_yields_no_further_epoch(
    ends: tuple[Agent, RunnerEnd], tmp_path: Path, is_inline: bool
) -> None:
    _, channel = ends
    kept: list[Iterator[int]] = []

    def first(trial: TrialContext) -> None:
        kept.append(trial.epochs())
        assert next(kept[0]) == 1
        trial.report(loss=0.0)

    guard = NoInterrupts()
    link: Link = Recorder(tmp_path) if is_inline else AgentLink(channel, guard)
    run_training(first, Train((make_stage(stop=3, max_resource=3),)), link, guard, "loss")
    with pytest.raises(UsageError, match="trial-0 has ended"):
        next(kept[0])


def test_a_thread_that_waits_takes_no_message_of_the_next_trial(
    ends: tuple[Agent, RunnerEnd],
) -> None:
    agent, channel = ends
    waiting, errors = threading.Event(), list[UsageError]()
    guard = NoInterrupts()
    link = AgentLink(channel, guard)

    def wait() -> None:
        waiting.set()
        try:
            link.wait()
        except UsageError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    link.close("trial-0 has ended")
    agent.send(StopTraining(lease(1), "not worth it"))
    thread.join(60)
    assert [str(error) for error in errors] == ["trial-0 has ended"]
    later = AgentLink(channel, guard)
    assert later.stop_reason() == "not worth it"


def in_child(use: Callable[[], object]) -> str:
    """Return what a forked child raises, or what it returns, in words."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            words = repr(use())
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
        os.write(writing, words.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


@pytest.mark.parametrize("what", [*USES, "should_stop"])
def test_a_child_is_told_to_leave_the_trial_to_its_parent(ends: tuple[Agent, RunnerEnd], what: str) -> None:
    agent, channel = ends
    use: Use = USES.get(what, lambda trial: trial.should_stop)

    def forks(trial: TrialContext) -> None:
        agent.send(StopTraining(lease(9), "for nobody", 9))
        words = in_child(lambda: use(trial))
        assert words.startswith("UsageError: trial-0 trains in process")
        assert what in words
        assert in_child(lambda: trial.params["lr"]) == "0.5"
        assert in_child(lambda: trial.once(abs, -3)) == "3"
        trial.report(loss=2.0)

    train(channel, forks)
    assert untimed(agent.receive()) == LaneReported(1, {"loss": 2.0})


def test_a_child_may_write_its_parents_folder_and_its_end_leaves_it(tmp_path: Path) -> None:
    trial = StandaloneTrial({"lr": 0.1}, max_resource=1)
    folder = trial.dir
    assert in_child(lambda: (trial.dir / "part").write_text("x")) == "1"
    (finalizer,) = [one for one in weakref.finalize._registry if one.peek()[0] is trial._folder]  # type: ignore[attr-defined]
    in_child(finalizer)  # as at the end of its interpreter
    assert (folder / "part").read_text() == "x"


def test_what_a_trial_outside_a_search_changes_in_its_params_is_its_own() -> None:
    params = {"layers": [1, {"width": 2}], "opt": {"lr": 0.1}}
    trial = StandaloneTrial(params)
    trial.params["layers"][1]["width"] = 99
    trial.params["layers"].append(3)
    trial.params["opt"].clear()
    assert params == {"layers": [1, {"width": 2}], "opt": {"lr": 0.1}}
