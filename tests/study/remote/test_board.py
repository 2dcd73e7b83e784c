"""What a driver in the cluster shows to its client: each line once, and how many were too many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.report.live.display import Display
from asyncsearch.report.live.status import StudyStatus, TrialRow
from asyncsearch.rpc.messages import LogLine
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.study.remote.board import BOARD, BoardDisplay, BoardReader
from asyncsearch.trial import TrialState


class Shown(Display):
    def __init__(self) -> None:
        self.shown: list[Any] = []

    def warn(self, sentences: Sequence[str]) -> None:
        self.shown += sentences

    def update(self, status: StudyStatus) -> None:
        self.shown.append(status)

    def log_lines(self, lines: Sequence[tuple[str, LogLine]]) -> None:
        self.shown += [(trial, line.text) for trial, line in lines]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = open_store(tmp_path)
    made.prepare()
    return made


def lines(*texts: str) -> list[tuple[str, LogLine]]:
    return [("trial-0", LogLine(1.0, text)) for text in texts]


def written(store: Store, attempt: str = "mine") -> BoardDisplay:
    return BoardDisplay(store, attempt, logs=True, is_shown=True, stop=lambda: None)


def test_each_line_is_shown_once_and_in_order(store: Store) -> None:
    board, shown = written(store), Shown()
    reader = BoardReader(store, shown)
    board.log_lines(lines("one", "two"))
    board.warn(["A worker was lost."])
    board.log_lines(lines("three"))
    row = TrialRow("trial-0", TrialState.RUNNING, 3, 9, math.nan, {"x": 1, "of": "words"})
    status = StudyStatus(name="digits", metric="loss", mode="min", counts={TrialState.RUNNING: 1}, rows=(row,))
    board.update(status)
    board.end()
    assert not reader.look("of before")
    assert reader.look("mine")
    assert not reader.look("mine")
    said = [("trial-0", "one"), ("trial-0", "two"), "A worker was lost.", ("trial-0", "three")]
    assert shown.shown[:-1] == said
    assert repr(shown.shown[-1]) == repr(status)  # a value that is not a number is one after the way through the store
    other = written(store, "another")
    other.log_lines(lines("four"))
    other.end()
    reader.look("another")
    assert shown.shown[5:] == [("trial-0", "four")]


def test_a_board_is_bounded_and_says_what_it_left_out(store: Store) -> None:
    board, shown = written(store), Shown()
    board.log_lines(lines(*("x" * 1_000 for _ in range(5_000))))
    board.warn(["Kept."])
    board.end()
    assert len(store.read(BOARD) or b"") < 150_000
    BoardReader(store, shown).look("mine")
    assert shown.shown[0] == "4,900 lines came faster than they are read; `asyncsearch logs` has them all."
    assert len(shown.shown) == 1 + 100 + 1
