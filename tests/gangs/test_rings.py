"""A ring of ranks: all have the same sums, a lost rank is named as such, and strangers are sent away."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

from asyncsearch.errors import RankLostError, UsageError
from asyncsearch.trainers.keras.gangs import ring_meeting, strangers
from asyncsearch.trainers.keras.gangs.ring_meeting import meet
from asyncsearch.trainers.keras.gangs.rings import Ring


class Seat(NamedTuple):
    rank: int
    size: int
    host: str = "127.0.0.1"


class Board:
    """What ranks in threads have told each other."""

    def __init__(self) -> None:
        self.told: dict[tuple[int, str], str] = {}
        self.news = threading.Condition()


class Rank:
    """A rank that tells and hears in one process, as through the driver."""

    def __init__(self, board: Board, seat: Seat) -> None:
        self.seat = seat
        self._board = board

    def tell(self, key: str, value: str) -> None:
        with self._board.news:
            self._board.told[self.seat.rank, key] = value
            self._board.news.notify_all()

    def await_value(self, rank: int, key: str) -> str:
        with self._board.news:
            self._board.news.wait_for(lambda: (rank, key) in self._board.told)
            return self._board.told[rank, key]


def in_threads(calls: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    with ThreadPoolExecutor(len(calls)) as threads:
        return [threads.submit(call) for call in calls]


def joined(rank: Rank) -> Ring:
    return Ring(rank.seat.rank, rank.seat.size, *meet(rank))


@contextlib.contextmanager
def ring_of(*ranks: Rank) -> Iterator[list[Ring]]:
    rings = [one.result() for one in in_threads([functools.partial(joined, rank) for rank in ranks])]
    yield rings
    for ring in rings:
        ring.close()


def ranks_of(size: int, host: str = "127.0.0.1") -> list[Rank]:
    board = Board()
    return [Rank(board, Seat(rank, size, host)) for rank in range(size)]


def numbers(rank: int, length: int) -> Any:
    return np.random.default_rng(rank).normal(size=length)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("length", [1, 7, 400_003])
def test_all_ranks_have_the_same_bits_of_the_sums(size: int, length: int) -> None:
    with ring_of(*ranks_of(size)) as rings:
        for _ in range(2):
            calls = [functools.partial(ring.sum, numbers(ring.rank, length)) for ring in rings]
            sums = [one.result() for one in in_threads(calls)]
            np.testing.assert_allclose(sums[0], sum(numbers(rank, length) for rank in range(size)), atol=1e-12)
            assert {one.tobytes() for one in sums} == {sums[0].tobytes()}


def test_ranks_meet_where_there_is_ipv6_alone() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with ring_of(*ranks_of(2, "::1")) as rings:
        sums = [one.result() for one in in_threads([functools.partial(ring.sum, np.ones(2)) for ring in rings])]
        assert [one.tolist() for one in sums] == [[2.0, 2.0], [2.0, 2.0]]


def test_a_rank_that_is_gone_is_a_lost_rank_to_those_beside_it() -> None:
    with ring_of(*ranks_of(2)) as rings:
        rings[1].close()
        with pytest.raises(RankLostError, match="Rank 0 lost the connection"):
            rings[0].sum(np.ones(3))
        assert isinstance(rings[0].error, RankLostError)


def test_ranks_that_sum_different_things_are_told() -> None:
    with ring_of(*ranks_of(2)) as rings:
        ends = in_threads([lambda: rings[0].sum(np.ones(3)), lambda: rings[1].sum(np.ones(4))])
        for end in ends:
            with pytest.raises(UsageError, match="must apply gradients of the same variables"):
                end.result()


def test_a_stranger_that_connects_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "STRANGER_S", 0.2)
    board, answers = Board(), list[bytes]()

    class WithStrangers(Rank):
        def await_value(self, rank: int, key: str) -> str:
            if (found := super().await_value(rank, key)) and key == "ring address" and not answers:
                host, port = found.split()
                with socket.create_connection((host, int(port))) as stranger:
                    stranger.sendall(bytes(32))
                    stranger.shutdown(socket.SHUT_WR)
                    answers.append(b"")
            return found

    with ring_of(WithStrangers(board, Seat(0, 2)), Rank(board, Seat(1, 2))) as rings:
        sums = [one.result() for one in in_threads([functools.partial(ring.sum, np.ones(2)) for ring in rings])]
    assert answers
    assert [one.tolist() for one in sums] == [[2.0, 2.0], [2.0, 2.0]]


def test_strangers_are_answered_in_parallel_so_silent_ones_delay_no_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "STRANGER_S", 600.0)  # longer than any rank waits: in turn, none would be heard
    with contextlib.ExitStack() as opened:
        board, silent = Board(), list[socket.socket]()

        class WithStrangers(Rank):
            def await_value(self, rank: int, key: str) -> str:
                if (found := super().await_value(rank, key)) and key == "ring address" and not silent:
                    host, port = found.split()
                    for number in range(12):
                        one = opened.enter_context(socket.create_connection((host, int(port))))
                        one.sendall(bytes(number))
                        silent.append(one)
                return found

        with ring_of(WithStrangers(board, Seat(0, 2)), Rank(board, Seat(1, 2))) as rings:
            sums = [one.result() for one in in_threads([functools.partial(ring.sum, np.ones(2)) for ring in rings])]
    assert len(silent) == 12
    assert [one.tolist() for one in sums] == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize("crowd", [1, strangers.MOST_AT_ONCE + 3])
def test_who_sends_a_proof_byte_by_byte_is_sent_away_and_a_member_is_heard(
    monkeypatch: pytest.MonkeyPatch, crowd: int
) -> None:
    monkeypatch.setattr(strangers, "STRANGER_S", 0.2)
    proof, sent_away = b"p" * strangers.PROOF_BYTES, threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, contextlib.ExitStack() as opened:
        ones = [opened.enter_context(socket.create_connection(listener.getsockname())) for _ in range(crowd)]
        member = opened.enter_context(socket.socket())

        def drip() -> None:
            for one in ones:
                one.settimeout(60.0)
                with contextlib.suppress(OSError):
                    while one.send(b"x") and not sent_away.wait(0.05):
                        if one.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b"":
                            break
            member.connect(listener.getsockname())
            member.sendall(proof)

        thread = threading.Thread(target=drip)
        thread.start()
        found = strangers.await_member(listener, proof, time.monotonic() + 60.0)
        thread.join()
        assert found is not None
        with found:
            assert found.getpeername() == member.getsockname()


def test_something_else_at_the_address_of_a_rank_gets_no_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_meeting, "_PATIENCE_S", 1.0)
    ranks = ranks_of(3)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            found, _ = other.accept()
            with found:
                found.sendall(bytes(32))
                found.recv(64)

        class Misled(Rank):
            def await_value(self, rank: int, key: str) -> str:
                value = super().await_value(rank, key)
                return "{} {}".format(*other.getsockname()) if (rank, key) == (1, "ring address") else value

        misled = Misled(ranks[0]._board, ranks[0].seat)
        calls = [functools.partial(joined, rank) for rank in (misled, ranks[1], ranks[2])]
        ends = in_threads([answer, *calls])
    with pytest.raises(RankLostError, match="something else answers there"):
        ends[1].result()
    assert isinstance(ends[2].exception(), RankLostError), "nobody has come to rank 1"
    ends[3].result().close()


def test_an_address_at_which_nobody_listens_is_a_lost_rank() -> None:
    board = Board()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        board.told[1, "ring address"] = "{} {}".format(*closed.getsockname())
    with pytest.raises(RankLostError, match="Rank 1 of the trial cannot be reached"):
        meet(Rank(board, Seat(0, 2)))
