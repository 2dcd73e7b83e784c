"""The ranks of a gang do what rank 0 is told, at the same unit; it alone reports and saves for all."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from asyncsearch.actions import CutWork, SaveAt, StopTraining
from asyncsearch.events import Outcome
from asyncsearch.runner.agent_link import AgentLink
from asyncsearch.runner.channel import Channel, agent_end, runner_end
from asyncsearch.runner.gangs.agreement import GangContext, GangLink
from asyncsearch.runner.process.process_state import rank_connections
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import Ended, FromRunner, GangSeat, LaneReported, Note, ToRunner, Train
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import TrialContext, TrialPaused, TrialStopped
from tests.agent.driver import NODE, lease, make_stage

STOP, SAVE, CUT = StopTraining(lease(0), "rank 7 of 20"), SaveAt(lease(0), NODE, 3), CutWork(lease(0), 2)


class Rank(NamedTuple):
    """A rank, and its agent's end of the channel."""

    agent: Channel[FromRunner, ToRunner]
    link: AgentLink
    gang: GangLink

    def notes(self) -> list[Note]:
        """Return what it has told the others since the last call."""
        return [message for message in self.agent.receive_now() if isinstance(message, Note)]

    def context(self) -> GangContext:
        return GangContext([make_stage(stop=4, max_resource=9)], self.gang, None)


@pytest.fixture
def make() -> Iterator[Callable[[int], Rank]]:
    opened: list[socket.socket] = []

    def make_one(rank: int) -> Rank:
        opened.extend(pair := socket.socketpair())
        link = AgentLink(runner_end(pair[1]), SigtermGuard())
        return Rank(agent_end(pair[0]), link, GangLink(link, GangSeat(rank, 2, "127.0.0.1")))

    yield make_one
    for one in opened:
        one.close()


def agree(first: Rank, second: Rank) -> None:
    """Let both come to the end of a unit."""
    first.gang.agree(None)
    for note in first.notes():
        second.agent.send(note)
    second.gang.agree(None)


def test_what_rank_0_learns_holds_in_all_ranks_from_the_units_end_on(make: Callable[[int], Rank]) -> None:
    ranks = make(0), make(1)
    agree(*ranks)
    for message in (SAVE, CUT, STOP):
        ranks[0].agent.send(message)
    assert [rank.gang.stop_reason() for rank in ranks] == [None, None]
    assert [list(rank.gang.amendments()) for rank in ranks] == [[], []]
    agree(*ranks)
    assert [rank.gang.stop_reason() for rank in ranks] == [STOP.reason, STOP.reason]
    assert [list(rank.gang.amendments()) for rank in ranks] == [[SAVE, CUT], [SAVE, CUT]]
    assert [list(rank.gang.amendments()) for rank in ranks] == [[], []], "each once"


def test_ranks_that_are_connected_agree_without_the_driver(make: Callable[[int], Rank]) -> None:
    first, second = make(0), make(1)
    passed: list[bytes] = []

    def pass_on(data: bytes) -> bytes:
        passed.append(data)
        return data

    first.gang.agree_by(pass_on)
    second.gang.agree_by(lambda _: passed[-1])
    for message in (None, SAVE, STOP, None):
        if message is not None:
            first.agent.send(message)
        for rank in (first, second):
            rank.gang.agree(None)
        assert first.gang.stop_reason() == second.gang.stop_reason()
        assert list(first.gang.amendments()) == list(second.gang.amendments())
    assert passed[0] == b"", "the shortest message: most units change nothing"
    assert second.gang.stop_reason() == STOP.reason
    assert first.notes() == []


def test_a_connection_is_made_once_and_closed_when_a_training_begins(make: Callable[[int], Rank]) -> None:
    class Connection:
        closed = 0

        def close(self) -> None:
            self.closed += 1

        def is_lost_rank(self, error: BaseException) -> bool:
            return str(error) == "lost"

    gang = make(0).gang
    found = gang.connected(Connection, Connection)
    assert gang.connected(Connection, Connection) is found
    assert [rank_connections.is_lost_rank(ValueError(words)) for words in ("lost", "other")] == [True, False]
    rank_connections.close()
    rank_connections.close()
    assert found.closed == 1
    assert not rank_connections.is_lost_rank(ValueError("lost"))


def test_a_rank_that_waits_for_another_heeds_the_end_of_its_gang(make: Callable[[int], Rank]) -> None:
    rank = make(1)
    rank.agent.send(STOP)
    with pytest.raises(TrialStopped, match="rank 7 of 20"):
        rank.gang.await_value(0, "address")


def test_a_value_is_that_of_the_rank_and_the_key_that_were_asked_for(make: Callable[[int], Rank]) -> None:
    rank = make(2)
    for note in (Note(1, "address", "b"), Note(0, "secret", "c"), Note(0, "address", "a")):
        rank.agent.send(note)
    assert (rank.gang.await_value(0, "address"), rank.gang.await_value(1, "address")) == ("a", "b")
    rank.agent.send(Note(3, "place", "d"))
    assert rank.gang.await_value(None, "place") == "d", "of any rank"


@pytest.mark.parametrize(("number", "reports"), [(0, 1), (1, 0)])
def test_rank_0_alone_reports(make: Callable[[int], Rank], number: int, reports: int) -> None:
    rank = make(number)
    rank.gang.report(1, {"loss": 0.5})
    assert len([one for one in rank.agent.receive_now() if isinstance(one, LaneReported)]) == reports


def test_a_rank_above_0_pauses_with_rank_0_and_saves_nothing(make: Callable[[int], Rank]) -> None:
    first, second = make(0), make(1)
    first.gang.agree(None)
    first.agent.send(CUT)
    first.gang.agree(None)
    for note in [*first.notes(), Note(0, "decision 3", "{}")]:
        second.agent.send(note)
    trained: list[int] = []
    saved: list[Path] = []
    with pytest.raises(TrialPaused):
        trained.extend(second.context().epochs(save=saved.append, load=saved.append))
    assert (trained, saved) == ([1, 2], [])


@pytest.mark.parametrize(("rank", "outcome"), [(0, Outcome.FAILED), (1, Outcome.RETURNED)])
def test_a_rank_above_0_need_not_report(make: Callable[[int], Rank], rank: int, outcome: Outcome) -> None:
    def silent(trial: TrialContext) -> None:
        assert trial.rank == rank

    train = Train((make_stage(),), gang=GangSeat(rank, 2, "127.0.0.1"))
    ended = run_training(silent, train, make(rank).link, SigtermGuard(), "loss")
    assert isinstance(ended, Ended)
    assert ended.outcome is outcome
