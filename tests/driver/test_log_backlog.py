"""Lines that wait to be written are bounded in bytes, and the log says what was left out."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.driver.log_backlog import LogBacklog, LogBounds

LEFT_OUT = re.compile(r"\.\.\. ([\d,]+) lines \([^)]*\) were left out here")


def drained(backlog: LogBacklog, most_bytes: int = 1 << 20) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    while lines := backlog.drain(most_bytes):
        for name, ones in lines.items():
            found.setdefault(name, []).extend(ones)
    return found


def left_out(lines: Sequence[str]) -> int:
    return sum(int(found[1].replace(",", "")) for line in lines if (found := LEFT_OUT.match(line)))


def own(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not line.startswith("... ")]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300), st.integers(1, 40)), max_size=30),
    st.sampled_from([LogBounds(), LogBounds(waiting=2_000), LogBounds(trial=1_500), LogBounds(study=3_000)]),
    st.integers(1, 2_000),
)
def test_each_line_is_written_in_order_or_counted_where_left_out(
    batches: list[tuple[str, int, int]], bounds: LogBounds, most_bytes: int
) -> None:
    backlog = LogBacklog(bounds)
    printed: dict[str, list[str]] = {}
    for number, (name, length, count) in enumerate(batches):
        for one in range(count):
            line = f"{number}.{one:03} O {'x' * length}"
            printed.setdefault(name, []).append(line)
            backlog.add(name, line)
            assert backlog.waiting_bytes <= max(bounds.waiting, 2_000) + 500
    backlog.end()
    found = drained(backlog, most_bytes)
    assert backlog.waiting_bytes == 0
    for name, lines in printed.items():
        kept = own(found[name])
        assert sorted(kept, key=lines.index) == kept, "their order"
        assert len(kept) + left_out(found[name]) == len(lines), "none is left out without a word"
        assert lines[-1] in kept or len(lines[-1]) > 300, "the last one says how it ended"


def test_one_trial_that_floods_takes_nothing_from_the_others() -> None:
    backlog = LogBacklog(LogBounds(waiting=100_000))
    for number in range(20_000):
        backlog.add("flood", f"{number}.000 O {'x' * 100}")
        if number % 100 == 0:
            backlog.add("quiet", f"{number}.000 O epoch")
    found = drained(backlog)
    assert len(found["quiet"]) == 200
    assert left_out(found["flood"]) > 19_000
    assert found["flood"][-1].startswith("19999.000 O")


def test_a_trial_beyond_its_bound_keeps_its_first_lines_and_its_last() -> None:
    backlog = LogBacklog(LogBounds(trial=10_000))
    for number in range(5_000):
        backlog.add("a", f"{number}.000 O {'x' * 100}")
        backlog.drain(1 << 20)
    for number in range(5_000):
        backlog.add("b", f"{number}.000 O {'x' * 100}")
    backlog.end()
    found = drained(backlog)
    assert own(found["b"])[0].startswith("0.000 O")
    assert "lines are left out from here: a run keeps 9.77 kB of a trial" in "".join(found["b"])
    assert own(found["b"])[-1].startswith("4999.000 O")
    assert own(found["a"])[-1].startswith("4999.000 O")
    assert sum(map(len, found["b"])) < 40_000


def test_logs_of_earlier_runs_count_for_the_bound_of_a_study() -> None:
    backlog = LogBacklog(LogBounds(study=10_000))
    backlog.stored_bytes = 9_990
    backlog.add("a", "1.000 O one more line")
    backlog.end()
    assert drained(backlog)["a"] == [
        "... lines are left out from here: the logs of a study keep 9.77 kB ...",
        "1.000 O one more line",
    ]


def test_a_flood_of_any_kind_of_line_takes_bounded_memory() -> None:
    bounds = LogBounds(waiting=1 << 20, trial=1 << 21, study=1 << 22)
    backlog = LogBacklog(bounds)
    tracemalloc.start()
    try:
        for number in range(60_000):
            backlog.add(f"trial-{number % 300}", f"{number} O")
        for number in range(3_000):
            backlog.add(f"trial-{number % 300}", f"{number} O {'ü' * 4_000}")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20 << 20
