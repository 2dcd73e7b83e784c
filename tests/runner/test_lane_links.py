"""The links of lanes that train together share one channel: each message reaches the lane that it names."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.actions import CutWork, SaveAt, StopTraining
from asyncsearch.runner.agent_link import AgentLink, PackLinks
from asyncsearch.runner.channel import Channel, agent_end, runner_end
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import (
    UNASKED,
    Folder,
    FromRunner,
    LaneAnswer,
    LaneQuestion,
    LaneReported,
    ToRunner,
)
from asyncsearch.runner.seal import Seal
from asyncsearch.trainable import TrialStopped
from tests.agent.driver import NODE, lease
from tests.untimed import untimed

Agent = Channel[FromRunner, ToRunner]


@pytest.fixture
def ends() -> Iterator[tuple[Agent, dict[int, AgentLink]]]:
    one, other = socket.socketpair()
    links = PackLinks()
    channel, guard = runner_end(other), SigtermGuard()
    for lane in range(2):
        AgentLink(channel, guard, lane=lane, lanes=links)
    with one, other:
        yield agent_end(one), links


def test_a_stop_reaches_its_lane_whichever_lane_reads_it(ends: tuple[Agent, dict[int, AgentLink]]) -> None:
    agent, links = ends
    agent.send(StopTraining(lease(0), "not worth it", 1))
    assert links[0].stop_reason() is None
    assert links[1].stop_reason() == "not worth it"


def test_an_amendment_reaches_its_lane_whichever_lane_reads_it(ends: tuple[Agent, dict[int, AgentLink]]) -> None:
    agent, links = ends
    save, cut = SaveAt(lease(0), NODE, 3, 1), CutWork(lease(0), 5, 0)
    agent.send(save)
    agent.send(cut)
    assert links[1].stop_reason() is None
    assert (links[0].amendments(), links[1].amendments()) == ([cut], [save])


def test_a_folder_for_a_lane_that_was_stopped_meanwhile_is_no_other_lane_s(
    ends: tuple[Agent, dict[int, AgentLink]],
) -> None:
    agent, links = ends
    agent.send(StopTraining(lease(0), "not worth it", 0))
    with pytest.raises(TrialStopped, match="not worth it"):
        links[0].folder(0, 1)
    agent.send(Folder("/of/lane/0"))
    agent.send(Folder("/of/lane/1", lane=1))
    assert links[1].folder(0, 1) == Path("/of/lane/1/checkpoint")


def test_what_a_trial_is_unasked_answer_answers_no_question(ends: tuple[Agent, dict[int, AgentLink]]) -> None:
    agent, links = ends
    driver = Seal(b"", is_driver=True)
    links[1].ask(b"a word", is_awaited=False)
    question = agent.receive()
    assert isinstance(question, LaneQuestion)
    assert question.number > UNASKED
    for number, content in ((question.number + 1, b"the answer"), (UNASKED, b"its beginning")):
        agent.send(LaneAnswer(number, driver.closed(number, content), lane=1))
    assert links[1].ask(b"a question") == b"the answer"
    assert links[1].unasked_answer() == b"its beginning"


def test_reports_name_their_lane(ends: tuple[Agent, dict[int, AgentLink]]) -> None:
    agent, links = ends
    links[1].report(1, {"accuracy": 0.5})
    assert untimed(agent.receive()) == LaneReported(1, {"accuracy": 0.5}, 1)
