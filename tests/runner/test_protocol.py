"""How messages travel between agent and runner."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from asyncsearch.actions import CutWork, SaveAt, StopTraining
from asyncsearch.events import Outcome
from asyncsearch.runner import protocol
from asyncsearch.runner.channel import Channel, agent_end, runner_end
from asyncsearch.runner.protocol import FromRunner, ToRunner
from tests.agent.driver import NODE, lease, make_stage

Pair = tuple[Channel[FromRunner, ToRunner], Channel[ToRunner, FromRunner]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield agent_end(ours), runner_end(theirs)


def test_messages_arrive_as_they_were_sent(pair: Pair) -> None:
    agent, runner = pair
    to_runner: list[ToRunner] = [
        protocol.Load(b"bundle", "accuracy", b"\0marker"),
        protocol.Train((make_stage(stop=3, params={"nested": {"list": [1, 2.5, None, "x"]}}),), "/a/b"),
        protocol.Train((make_stage(),), amendments=(CutWork(lease(0), 5), SaveAt(lease(0), NODE, 3))),
        protocol.Folder("", "full"),
        SaveAt(lease(0), NODE, 3),
        CutWork(lease(0), 5),
        StopTraining(lease(0), "rank 7"),
    ]
    from_runner: list[FromRunner] = [
        protocol.RunnerReady(),
        protocol.LaneReported(1, {"accuracy": 0.5, "loss": math.inf}),
        protocol.FolderWanted(0, 1),
        protocol.Saved(0, 1),
        protocol.Saved(1, 2, is_last=True),
        protocol.SaveFailed(0, 1, "why"),
        protocol.Ended(Outcome.FAILED, 1, "text", "kind"),
    ]
    for message in to_runner:
        agent.post(message)
    for other in from_runner:
        runner.send(other)
    assert [runner.receive() for _ in to_runner] == to_runner
    assert agent.receive_now() == from_runner
    assert agent.receive_now() == []
    assert not agent.is_closed


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\0\0\0\2no", b"\0\0\0\1\xc1"])
def test_what_is_no_message_breaks_the_channel_off(pair: Pair, garbage: bytes) -> None:
    agent, runner = pair
    runner.send(protocol.RunnerReady())
    runner.socket.sendall(garbage)
    runner.send(protocol.Saved(0, 1))
    assert agent.receive_now() == [protocol.RunnerReady()]
    assert agent.is_closed


def test_a_message_that_came_with_another_stays_for_the_next_reader(pair: Pair) -> None:
    agent, runner = pair
    agent.post(protocol.Train((make_stage(),)))
    agent.post(StopTraining(lease(0), "at once"))
    assert isinstance(runner.receive(), protocol.Train)
    assert runner.receive_now() == [StopTraining(lease(0), "at once")]


def test_a_message_is_read_whole_however_it_is_cut(pair: Pair) -> None:
    agent, runner = pair
    probe, other = socket.socketpair()
    with probe, other:
        runner_end(other).send(protocol.LaneReported(1, {"accuracy": 0.5}))
        data = probe.recv(1000)
    for byte in data[:-1]:
        runner.socket.sendall(bytes([byte]))
        assert agent.receive_now() == []
    runner.socket.sendall(data[-1:])
    assert agent.receive_now() == [protocol.LaneReported(1, {"accuracy": 0.5})]


def test_a_large_message_is_posted_without_waiting(pair: Pair) -> None:
    agent, runner = pair
    bundle = os.urandom(20_000_000)
    agent.post(protocol.Load(bundle, "accuracy", b""))
    assert agent.has_rest
    received: list[ToRunner] = []
    while not received:
        agent.send_rest()
        received = runner.receive_now()
    assert received == [protocol.Load(bundle, "accuracy", b"")]
    assert not agent.has_rest


def test_an_end_is_seen_after_what_was_sent_before_it(pair: Pair) -> None:
    agent, runner = pair
    runner.send(protocol.RunnerReady())
    runner.socket.close()
    agent.post(StopTraining(lease(0), "nobody reads this"))
    assert agent.receive_rest() == [protocol.RunnerReady()]
    assert agent.is_closed


WITHOUT_THE_KERNEL = """
    import os, sys, time
    from asyncsearch.runner.process import lifeline
    lifeline._kill_group_at_hangup = lambda descriptor: False
    lifeline.end_with_agent(int(sys.argv[1]), os.getppid())
    print("bound", flush=True)
    time.sleep(1000)
"""


def test_where_the_kernel_cannot_a_thread_ends_the_group_with_its_agent() -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-c", textwrap.dedent(WITHOUT_THE_KERNEL), str(reading)]
    with subprocess.Popen(command, pass_fds=[reading], stdout=subprocess.PIPE, start_new_session=True) as process:
        os.close(reading)
        assert process.stdout is not None
        assert process.stdout.readline() == b"bound\n"
        os.close(writing)
        assert process.wait() == -9


def test_a_runner_whose_agent_is_gone_already_does_not_begin() -> None:
    reading, writing = os.pipe()
    code = (
        f"from asyncsearch.runner.process.lifeline import end_with_agent; end_with_agent({reading}, {os.getpid()} + 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], pass_fds=[reading], start_new_session=True, check=False)
    os.close(reading)
    os.close(writing)
    assert done.returncode == 1
