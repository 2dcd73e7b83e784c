"""The journal's format: what was acknowledged is read back, and damage is told from a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.actions import MoveTrial
from asyncsearch.arguments import as_unicode
from asyncsearch.errors import JournalDamagedError
from asyncsearch.events import Consulted, DriverStarted, Reported
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.journal.format import FORMAT, Header, SegmentReader, beginning_of, encode_header, encode_record
from asyncsearch.journal.head import Head, decode_head, encode_head, head_of
from asyncsearch.trial import TrialState

REPORT = Reported(Lease(4, WorkerId(1), 2), 3, {"loss": "NaN", "accuracy": 0.1, "top": "Infinity"})
ACTIONS = (MoveTrial(TrialId(7), TrialState.STOPPED, 'rank "7" of 20 – stop'),)


def segment(count: int, first: int = 1) -> list[bytes]:
    lines = [encode_header(Header(FORMAT, "test", first))]
    lines += [encode_record(n, 1.5 * n, REPORT, ACTIONS) for n in range(first, first + count)]
    return lines


def test_a_record_is_read_back_as_it_was_written() -> None:
    (record,) = SegmentReader().read("1", segment(1))
    assert (record.n, record.t, record.event, record.actions) == (1, 1.5, REPORT, ACTIONS)


def test_a_line_is_readable_json_that_spells_out_nonfinite_values() -> None:
    line = json.loads(segment(1)[1])
    assert line["event"]["kind"] == "reported"
    assert line["event"]["metrics"] == {"loss": "NaN", "accuracy": 0.1, "top": "Infinity"}
    assert line["actions"][0]["to"] == "STOPPED"


TEXTS = st.text(st.characters(exclude_categories=[]))  # surrogates too, of bytes that were not text


def escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {as_unicode(name): escaped(one) for name, one in value.items()}
    return as_unicode(value) if isinstance(value, str) else [escaped(one) for one in value]


@given(TEXTS, TEXTS, st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner)))
def test_any_text_of_a_users_scheduler_or_program_is_written(reason: str, detail: str, value: object) -> None:
    event, move = Consulted(REPORT.lease, {"note": value}), MoveTrial(TrialId(7), TrialState.FAILED, reason, detail)
    lines = [encode_header(Header(FORMAT, "test", 1)), encode_record(1, 1.5, event, (move,))]
    (record,) = SegmentReader().read("1", lines)
    assert record.actions == (MoveTrial(TrialId(7), TrialState.FAILED, as_unicode(reason), as_unicode(detail)),)
    assert isinstance(record.event, Consulted)
    assert record.event.facts == {"note": escaped(value)}


@pytest.mark.parametrize("lost", range(2, 30, 7))
def test_a_last_line_that_was_cut_off_is_dropped_and_said(lost: int) -> None:
    lines = segment(3)
    reader = SegmentReader()
    records = list(reader.read("000001.jsonl", [*lines[:-1], lines[-1][:-lost]]))
    assert [record.n for record in records] == [1, 2]
    assert "000001.jsonl" in reader.dropped[0]


@pytest.mark.parametrize("end", [b"", b"\0", b"\x8a"])
def test_a_last_line_without_newline_is_kept_if_its_checksum_holds(end: bytes) -> None:
    lines = segment(3)
    reader = SegmentReader()
    records = list(reader.read("000001.jsonl", [*lines[:-1], lines[-1][:-1] + end]))
    assert [record.n for record in records] == [1, 2, 3]
    assert "was kept" in reader.dropped[0]


def head(lines: list[bytes], name: str = "000001.jsonl") -> Head:
    found = decode_head(encode_head(head_of(b"".join(lines), name)))
    assert found is not None
    return found


def test_the_head_is_the_last_of_the_lines_and_is_written_in_one_width() -> None:
    heads = [head(segment(count)) for count in (1, 3, 12)]
    assert [found.n for found in heads] == [1, 3, 12]
    assert len({len(encode_head(found)) for found in heads}) == 1


@pytest.mark.parametrize("position", [0, 3, 9, 17, 25, 40])
def test_a_damaged_head_says_nothing(position: int) -> None:
    data = bytearray(encode_head(head(segment(3))))
    data[position] ^= 2
    assert decode_head(bytes(data)) is None


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_records_that_are_missing_at_the_end_are_refused(left: int) -> None:
    reader = SegmentReader(head=head(segment(3)))
    list(reader.read("000001.jsonl", segment(3)[:left]))
    with pytest.raises(JournalDamagedError, match=r"record 3 was durable.*remove head\.json"):
        reader.finish()


@pytest.mark.parametrize("lost", [2, 10, 50])
def test_a_record_that_was_durable_is_not_dropped_as_cut_off_by_a_crash(lost: int) -> None:
    lines = segment(3)
    reader = SegmentReader(head=head(lines))
    with pytest.raises(JournalDamagedError, match="A crash cannot cause this"):
        list(reader.read("000001.jsonl", [*lines[:-1], lines[-1][:-lost]]))


def test_a_record_after_the_head_may_be_cut_off() -> None:
    lines = segment(4)
    reader = SegmentReader(head=head(lines[:-1]))
    assert [record.n for record in reader.read("000001.jsonl", [*lines[:-1], lines[-1][:-9]])] == [1, 2, 3]
    reader.finish()


def test_a_segment_of_another_journal_is_refused() -> None:
    other = [segment(0)[0], *(encode_record(n, 2.0 * n, REPORT, ACTIONS) for n in (1, 2, 3))]
    with pytest.raises(JournalDamagedError, match="replaced"):
        list(SegmentReader(head=head(segment(3))).read("000001.jsonl", other))


def test_unacknowledged_records_of_a_driver_yield_to_the_next_segment() -> None:
    first = segment(4)
    second = [encode_header(Header(FORMAT, "test", 3, cuts=True)), *segment(3, first=3)[1:]]
    until = beginning_of(second[0])
    assert until == 3
    reader = SegmentReader(head=head(second, "000002.jsonl"))
    records = [*reader.read("000001.jsonl", first, until), *reader.read("000002.jsonl", second)]
    reader.finish()
    assert [record.n for record in records] == [1, 2, 3, 4, 5]
    assert "nothing acknowledged was dropped" in reader.dropped[0]


def test_a_segment_of_an_earlier_version_does_not_cut_the_one_before_it() -> None:
    assert beginning_of(segment(1, first=3)[0]) is None
    assert beginning_of(b"") is None
    assert beginning_of(encode_record(1, 0.0, REPORT, ())) is None


def test_a_copy_of_an_earlier_segment_does_not_take_the_place_of_several() -> None:
    copy = [encode_header(Header(FORMAT, "test", 1, cuts=True)), *segment(2)[1:]]
    reader = SegmentReader()
    list(reader.read("000001.jsonl", copy))
    list(reader.read("000002.jsonl", segment(2, first=3), beginning_of(copy[0])))
    with pytest.raises(JournalDamagedError, match="begins with record 1"):
        list(reader.read("000003.jsonl", copy))


def test_the_next_segment_goes_on_after_a_dropped_line() -> None:
    reader = SegmentReader()
    first = segment(3)
    list(reader.read("1", [*first[:-1], first[-1][:9]]))
    assert [record.n for record in reader.read("2", segment(2, first=3))] == [3, 4]


def test_a_segment_whose_header_was_cut_off_holds_nothing() -> None:
    reader = SegmentReader()
    assert list(reader.read("1", [segment(0)[0][:20]])) == []
    assert list(reader.read("2", segment(1))) != []


@pytest.mark.parametrize("position", range(20, 120, 9))
def test_any_changed_byte_before_the_last_line_is_refused_with_its_line(position: int) -> None:
    lines = segment(3)
    broken = bytearray(lines[2])
    broken[position] ^= 1
    with pytest.raises(JournalDamagedError, match="line 3"):
        list(SegmentReader().read("000001.jsonl", [*lines[:2], bytes(broken), lines[3]]))


def test_a_whole_last_line_with_a_wrong_checksum_is_refused() -> None:
    lines = segment(2)
    with pytest.raises(JournalDamagedError, match="line 3"):
        list(SegmentReader().read("s", [*lines[:2], lines[2].replace(b"0.1", b"0.2")]))


def test_missing_records_are_refused() -> None:
    lines = segment(3)
    with pytest.raises(JournalDamagedError, match="missing"):
        list(SegmentReader().read("s", [lines[0], lines[1], lines[3], b""]))


def test_a_missing_segment_is_refused() -> None:
    with pytest.raises(JournalDamagedError, match="begins with record 5"):
        list(SegmentReader().read("s", segment(1, first=5)))


def test_a_newer_format_is_refused_with_the_version_that_wrote_it() -> None:
    header = encode_header(Header(FORMAT + 1, "test", 1, "9.9"))
    with pytest.raises(JournalDamagedError, match=r"9\.9"):
        list(SegmentReader().read("s", [header]))


def test_records_up_to_a_snapshot_are_checked_but_not_yielded() -> None:
    assert [record.n for record in SegmentReader(skip=2).read("s", segment(4))] == [3, 4]


def test_an_older_record_without_later_fields_is_read() -> None:
    line = encode_record(1, 0.0, DriverStarted("0.1.0"), ())
    (record,) = SegmentReader().read("s", [segment(0)[0], line])
    assert record.event == DriverStarted("0.1.0")
