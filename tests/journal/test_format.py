"""The journal's format: what was acknowledged is read back, and damage is told from a crash."""

from __future__ import annotations

import json

import pytest

from asyncsearch.actions import MoveTrial
from asyncsearch.errors import JournalDamagedError
from asyncsearch.events import DriverStarted, Reported
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.journal.format import FORMAT, Header, SegmentReader, encode_header, encode_record
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


def test_a_line_is_json_that_a_person_can_read_and_spells_out_what_is_not_finite() -> None:
    line = json.loads(segment(1)[1])
    assert line["event"]["kind"] == "reported"
    assert line["event"]["metrics"] == {"loss": "NaN", "accuracy": 0.1, "top": "Infinity"}
    assert line["actions"][0]["to"] == "STOPPED"


@pytest.mark.parametrize("kept", range(1, 30, 7))
def test_a_last_line_that_was_cut_off_is_dropped_and_said(kept: int) -> None:
    lines = segment(3)
    reader = SegmentReader()
    records = list(reader.read("000001.jsonl", [*lines[:-1], lines[-1][:-kept]]))
    assert [record.n for record in records] == [1, 2]
    assert "000001.jsonl" in reader.dropped[0]


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
