"""Following a trial's log from another process."""

from __future__ import annotations

import contextlib
from pathlib import Path

from asyncsearch.ids import TrialId
from asyncsearch.journal.format import FORMAT, Header, encode_header
from asyncsearch.report.live.shown_logs import follow
from asyncsearch.store import open_store
from tests.report.tools import simulated, store_of


def test_following_a_run_that_is_over_gives_the_log_and_ends(tmp_path: Path) -> None:
    store = open_store(store_of(simulated(), tmp_path / "study"))
    store.append_log("trial-0", ["1", "2"])
    assert list(follow(store, TrialId(0), wait=lambda _: None)) == ["1", "2"]


def test_following_gives_each_line_once_and_ends_with_the_run(tmp_path: Path) -> None:
    recorded = simulated()
    store = open_store(store_of(recorded, tmp_path / "study", lines=5))
    segment = store.open_segment()
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) <= 3:
            store.append_log("trial-0", [str(len(waits))])
        elif len(waits) == 8:
            segment.append(encode_header(Header(FORMAT, "test", 5)))
            segment.append(b"".join(recorded.lines[5:]))
            store.append_log("trial-0", ["written late"])

    with store.lock():
        assert list(follow(store, TrialId(0), wait)) == ["1", "2", "3", "written late"]
    segment.close()


def test_following_ends_when_the_driver_was_killed(tmp_path: Path) -> None:
    store = open_store(store_of(simulated(), tmp_path / "study", lines=5))
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)

    with store.lock():
        lines = follow(store, TrialId(0), wait)
        store.append_log("trial-0", ["1"])
        assert next(lines) == "1"
    assert list(lines) == []
    assert len(waits) == 2


def test_looks_become_rarer_while_nothing_comes(tmp_path: Path) -> None:
    store = open_store(store_of(simulated(), tmp_path / "study", lines=5))
    waits: list[float] = []

    class EnoughError(Exception):
        pass

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 6:
            raise EnoughError

    with store.lock(), contextlib.suppress(EnoughError):
        list(follow(store, TrialId(0), wait))
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
