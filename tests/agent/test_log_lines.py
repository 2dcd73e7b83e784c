"""Bytes to lines, and of too many lines the newest."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.agent.config import LogLimits
from asyncsearch.agent.log_lines import LineReader, LogBuffer, clean

MARKER = b"\0asyncsearch:0123456789abcdef\n"


def feed(reader: LineReader, data: bytes, cuts: list[int]) -> tuple[list[bytes], list[bytes] | None]:
    """Feed data in pieces, and return the lines before and after the marker."""
    before: list[bytes] = []
    after: list[bytes] | None = None
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in itertools.pairwise(places):
        lines, rest = reader.feed(data[begin:end])
        (before if after is None else after).extend(lines)
        if rest is not None:
            assert after is None
            after = rest
    return before, after


cuts = st.lists(st.integers(0, 10_000), max_size=6)
texts = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=6)


@given(texts, st.binary(max_size=10).map(lambda rest: rest.replace(b"\n", b"")), texts, cuts)
def test_lines_stay_on_their_side_of_the_marker_wherever_reads_are_cut(
    before: list[bytes], unended: bytes, after: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(line + b"\n" for line in before) + unended + MARKER + b"".join(line + b"\n" for line in after)
    expected = [*before, unended] if unended else before
    assert feed(LineReader(MARKER, 10_000), data, cuts) == (expected, after)


@given(st.integers(0, 5_000), cuts)
def test_a_marker_is_found_behind_a_line_of_any_length(length: int, cuts: list[int]) -> None:
    reader = LineReader(MARKER, 100)
    before, after = feed(reader, b"x" * length + MARKER + b"next\n", cuts)
    assert after == [b"next"]
    assert len(before) == (length > 0)
    assert all(line[:100] == b"x" * min(length, 100) for line in before)


def test_a_line_without_an_end_does_not_grow_for_ever() -> None:
    reader = LineReader(MARKER, 100)
    for _ in range(1_000):
        assert reader.feed(b"x" * 10_000) == ([], None)
    (rest,) = reader.end()
    assert len(rest) < 200
    assert reader.end() == []


def test_a_progress_bar_shows_what_it_showed_last() -> None:
    reader = LineReader(MARKER, 100)
    for percent in range(10_000):
        reader.feed(b"\r%5d of 10000" % percent)
    lines, _ = reader.feed(b"\r done\r\n")
    assert [clean(line, 100) for line in lines] == [" done"]


def test_long_lines_are_cut_and_bytes_that_are_no_text_are_replaced() -> None:
    assert clean(b"x" * 50, 10) == "x" * 10 + " ..."
    assert clean("é".encode() * 10, 10) == "é" * 10
    assert clean(b"\xff\xfe", 10) == "\ufffd\ufffd"
    assert clean(b"50%\r100%\r", 10) == "100%"


def lines(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_all_lines_are_sent_in_order_while_they_are_few() -> None:
    buffer = LogBuffer(LogLimits())
    buffer.add(lines(1, 2), False, 10.0)
    buffer.add(lines(3), True, 11.0)
    sent, left_out = buffer.take(0.0)
    assert [(line.time_s, line.text, line.is_stderr) for line in sent] == [
        (10.0, "1", False),
        (10.0, "2", False),
        (11.0, "3", True),
    ]
    assert left_out == 0
    assert buffer.is_empty


def test_of_too_many_lines_the_newest_are_kept_and_the_others_counted() -> None:
    buffer = LogBuffer(LogLimits(lines_per_s=3))
    buffer.add(lines(*range(5)), False, 0.0)
    buffer.add(lines(5, 6), False, 0.0)
    sent, left_out = buffer.take(0.0)
    assert [line.text for line in sent] == ["4", "5", "6"]
    assert left_out == 4


def test_the_budget_of_lines_refills_with_time() -> None:
    buffer = LogBuffer(LogLimits(lines_per_s=10))
    sent = []
    for tick in range(11):
        buffer.add(lines(*range(10)), False, 0.0)
        batch, left_out = buffer.take(tick / 10)
        assert len(batch) + left_out == 10
        sent.append(len(batch))
    assert sent[0] == 10
    assert 9 <= sum(sent[1:]) <= 10


def test_long_lines_use_up_the_budget_of_characters() -> None:
    buffer = LogBuffer(LogLimits(chars_per_s=100, line_chars=40))
    buffer.add([b"x" * 40] * 10, False, 0.0)
    sent, left_out = buffer.take(0.0)
    assert (len(sent), left_out) == (3, 7)


def test_the_last_lines_are_remembered_when_they_are_sent_or_left_out() -> None:
    buffer = LogBuffer(LogLimits())
    buffer.add(lines(*range(30)), False, 0.0)
    buffer.take(0.0)
    assert buffer.tail() == [str(number) for number in range(10, 30)]
