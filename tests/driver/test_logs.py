"""Lines that trials print reach the store in their order, the last ones too when the driver ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.driver.logs import LogSink
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.rpc.messages import LogLine, LogLines
from asyncsearch.store.local.store import LocalLog, LocalStore


class SlowStore(LocalStore):
    """Takes its first lines when it is allowed to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def begin_log(self, name: str) -> LocalLog | None:
        self.may_go_on.wait()
        return super().begin_log(name)


class Bench:
    """A sink, its loop, and what goes wrong in the loop's callbacks."""

    def __init__(self, folder: Path) -> None:
        self.store = SlowStore(folder)
        self.store.prepare()
        self.loop = asyncio.new_event_loop()
        self.errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda loop, context: self.errors.append(context))
        self.sink = LogSink(self.store, self.loop)

    def take(self, text: str, lease: int = 0, start: int = 0) -> None:
        self.sink.take("trial-0", LogLines(Lease(lease, WorkerId(lease % 2), 1), (LogLine(1.0, text),)), start)

    def turn(self) -> None:
        """Let the loop call all that is due."""
        for _ in range(3):
            self.loop.run_until_complete(asyncio.sleep(0))

    def close(self) -> None:
        self.loop.run_until_complete(self.sink.close())

    def settle(self) -> None:
        """Let the loop call all that is due, and wait for what is being written."""
        self.turn()
        while (writing := self.sink._round) is not None:
            writing.result(60.0)
            self.turn()

    def lines(self) -> list[str]:
        return [line.split()[-1] for line in self.store.read_log("trial-0")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(LocalStore, "log_interval_s", 0.0)
    bench = Bench(tmp_path)
    yield bench
    bench.store.may_go_on.set()
    bench.close()
    bench.loop.close()


def test_lines_are_written_by_and_by(bench: Bench) -> None:
    bench.take("one")
    bench.settle()
    bench.take("two")
    bench.settle()
    assert bench.lines() == ["one", "two"]
    assert bench.errors == []


def test_a_line_is_one_line(bench: Bench) -> None:
    bench.take("one\n1.000 O forged\r\ntwo")
    bench.sink.note("trial-0", "three\nfour")
    bench.close()
    assert list(bench.store.read_log("trial-0")) == ["1.000 O one 1.000 O forged two", "... three four ..."]
    assert [line.text for _, line in bench.sink.shown] == ["one 1.000 O forged two"]


def test_lines_just_before_the_end_are_written_and_none_follow(bench: Bench) -> None:
    bench.take("last")
    bench.close()
    bench.turn()
    assert bench.lines() == ["last"]
    bench.sink.note("trial-0", "late")
    bench.turn()
    bench.close()
    assert bench.lines() == ["last"]
    assert bench.errors == []


def test_the_last_lines_come_behind_those_that_are_still_being_written(bench: Bench) -> None:
    bench.store.may_go_on.clear()
    bench.take("one")
    bench.turn()
    bench.take("two")
    bench.loop.call_later(0.01, bench.store.may_go_on.set)
    bench.close()
    assert bench.lines() == ["one", "two"]


def test_a_line_stands_between_the_attempts_of_a_trial(bench: Bench) -> None:
    for text, lease, start in (("one", 0, 0), ("two", 0, 0), ("one", 3, 0), ("two", 4, 1), ("three", 4, 1)):
        bench.take(text, lease, start)
    bench.settle()
    assert list(bench.store.read_log("trial-0")) == [
        "1.000 O one",
        "1.000 O two",
        "... begins again on worker-1 ...",
        "1.000 O one",
        "... goes on from unit 1 on worker-0 ...",
        "1.000 O two",
        "1.000 O three",
    ]


def test_a_line_stands_before_what_another_run_goes_on_with(bench: Bench) -> None:
    bench.take("four", 7, 3)
    bench.settle()
    assert next(iter(bench.store.read_log("trial-0"))) == "... goes on from unit 3 on worker-1 ..."
