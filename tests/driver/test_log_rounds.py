"""What logs cost a store, counted on a virtual clock: calls, rounds that wait for others, and the end of a run."""

from __future__ import annotations

import pytest

from asyncsearch.driver.log_backlog import LogBounds
from asyncsearch.store.logs.reader import LogReader
from tests.driver.virtual_logs import VirtualLogs

TRIALS, SECONDS = 200, 300


@pytest.mark.parametrize("kind", ["hidden", "whole"])
def test_logs_of_200_chatty_trials_take_one_call_a_second_without_waits(kind: str) -> None:
    logs = VirtualLogs(kind)
    for second in range(SECONDS):
        for trial in range(TRIALS):
            logs.prints(trial, f"epoch {second}")
        logs.loop.run_until(second + 1.0)
    assert logs.end() < 0.5, "some calls of 45 ms"
    assert logs.world.calls <= SECONDS
    assert logs.thread.most_queued == 0
    for trial in (0, 7, TRIALS - 1):
        lines = list(LogReader(logs.world, f"trial-{trial}").lines())
        assert [line.split(" O ")[1] for line in lines] == [f"epoch {second}" for second in range(SECONDS)]


def test_many_short_trials_take_no_call_each() -> None:
    logs = VirtualLogs("hidden")
    for trial in range(1_500):
        logs.prints(trial, "done")
        logs.loop.run_until(logs.world.now_s + 0.003)
    assert logs.end() < 0.5
    assert logs.world.calls < 10
    assert len(list(LogReader(logs.world, "trial-1499").lines())) == 1


@pytest.mark.parametrize("kind", ["shown", "hidden", "whole"])
def test_a_store_slower_than_the_interval_gets_one_round_at_a_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.store.log_worlds.CALL_S", 20.0)
    logs = VirtualLogs(kind)
    for second in range(600):
        logs.prints(0, f"epoch {second}")
        logs.loop.run_until(second + 1.0)
    assert logs.thread.most_queued == 0
    logs.end()
    assert len(list(LogReader(logs.world, "trial-0").lines())) == 600


def test_unwritten_lines_come_in_order_once_the_store_is_back() -> None:
    logs = VirtualLogs("hidden")
    for second in range(200):
        logs.prints(0, f"epoch {second}")
        logs.world.fails = ["behind" if second % 2 else "before"] * 9 if 20 <= second < 120 else []
        logs.loop.run_until(second + 1.0)
    logs.end()
    lines = list(LogReader(logs.world, "trial-0").lines())
    assert [line.split(" O ")[1] for line in lines] == [f"epoch {second}" for second in range(200)]


def test_a_store_away_for_long_costs_bounded_memory_and_the_gap_is_named() -> None:
    logs = VirtualLogs("hidden", LogBounds(waiting=50_000))
    for second in range(2_000):
        logs.prints(0, f"epoch {second}")
        logs.prints(1, "x" * 200)
        logs.world.fails = ["before"] * 9 if second < 1_990 else []
        logs.loop.run_until(second + 1.0)
        assert logs.sink._backlog.waiting_bytes <= 50_000
    logs.end()
    lines = list(LogReader(logs.world, "trial-1").lines())
    assert any("lines (" in line and "were left out here" in line for line in lines)
    assert lines[-1].endswith("x" * 200)


def test_what_nobody_prints_makes_no_file_and_takes_no_call() -> None:
    logs = VirtualLogs("hidden")
    logs.loop.run_until(1_000.0)
    logs.end()
    assert (logs.world.calls, logs.world.files) == (0, {})


def test_a_closed_segment_is_seen_although_nobody_prints_any_more() -> None:
    logs = VirtualLogs("hidden")
    logs.prints(0, "the last line for hours")
    logs.loop.run_until(30.0)
    assert len(list(LogReader(logs.world, "trial-0").lines())) == 1
    calls = logs.world.calls
    logs.loop.run_until(1_000.0)
    assert logs.world.calls <= calls + 3, "nothing is asked of the store meanwhile"
