"""Ranks in threads of one process, which tell each other values as through the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple


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

    def await_value(self, rank: int | None, key: str) -> str:
        with self._board.news:
            self._board.news.wait_for(lambda: self._found(rank, key) is not None)
            return self._found(rank, key) or ""

    def _found(self, rank: int | None, key: str) -> str | None:
        told = self._board.told
        return next((value for place, value in told.items() if place[1] == key and rank in (None, place[0])), None)


def in_threads(calls: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    with ThreadPoolExecutor(len(calls)) as threads:
        return [threads.submit(call) for call in calls]


def ranks_of(size: int, host: str = "127.0.0.1") -> list[Rank]:
    board = Board()
    return [Rank(board, Seat(rank, size, host)) for rank in range(size)]
