"""A trial that comes later reads what was reported on its way, and nothing beside it."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.ids import NodeKey, PathStep
from asyncsearch.plan.known_reports import KnownReports, NodeReports, ReportRow

TRUNK, TWIG = NodeKey("trunk"), NodeKey("twig")
LONG = (PathStep(0, TRUNK),)
PARTING = (PathStep(0, TRUNK), PathStep(4, TWIG))


def known() -> KnownReports:
    found = KnownReports()
    for resource in range(1, 9):
        found.report(TRUNK, resource, resource / 10)
    found.report(TWIG, 5, 0.05)
    return found


def test_a_way_reads_each_node_up_to_where_it_leaves_it() -> None:
    assert list(known().between(PARTING, 2, 9)) == [(3, 0.3), (4, 0.4), (5, 0.05)]
    assert list(known().between(LONG, 6, 7)) == [(7, 0.7)]


def test_a_way_that_ends_before_the_first_report_reads_nothing() -> None:
    found = KnownReports()
    for resource in range(6, 12):
        found.report(TRUNK, resource, 0.1)
    assert list(found.between(LONG, 0, 2)) == []


def test_what_is_known_stays_as_it_was_first_reported() -> None:
    found = known()
    found.report(TRUNK, 3, 9.0)
    assert list(found.between(LONG, 2, 3)) == [(3, 0.3)]


def test_an_end_counts_for_those_who_had_not_left_before_it() -> None:
    found = known()
    found.end(TRUNK, 8)
    assert found.ended(LONG) == 8
    assert found.ended(PARTING) is None
    found.end(TWIG, 5)
    assert found.ended(PARTING) == 5


RESOURCES, VALUES = st.integers(1, 7), st.floats(-9, 9)
REPORTS: st.SearchStrategy[list[tuple[int, float | None]]] = st.one_of(
    st.lists(st.tuples(RESOURCES, VALUES), max_size=9),
    st.lists(st.tuples(RESOURCES, VALUES | st.none()), max_size=9),
    st.lists(VALUES | st.none(), max_size=9).map(lambda values: list(enumerate(values, 2))),
)
"""Reports in any order, with gaps and repeats."""


@given(REPORTS, st.lists(st.integers(0, 14), min_size=2, max_size=2))
def test_reports_in_any_order_are_those_of_a_dictionary(
    reports: list[tuple[int, float | None]], ends: list[int]
) -> None:
    found, expected = KnownReports(), dict[int, float | None]()
    for resource, value in reports:
        found.report(TRUNK, resource, value)
        expected.setdefault(resource, value)
    for resource in range(14):
        assert found.has(TRUNK, resource) is (resource in expected)
    after, upto = ends
    way = [(resource, value) for resource, value in sorted(expected.items()) if after < resource <= upto]
    assert list(found.between(LONG, after, upto)) == way
    assert list(found.between((PathStep(5, TRUNK),), 0, upto)) == [
        (resource, value) for resource, value in sorted(expected.items()) if 5 < resource <= upto
    ]


@given(REPORTS, st.one_of(st.none(), st.integers(1, 12)))
def test_what_is_known_of_a_node_is_written_as_two_lists_and_read_again(
    reports: list[tuple[int, float | None]], ended: int | None
) -> None:
    found, expected = KnownReports(), dict[int, float | None]()
    if ended is not None:
        found.end(TRUNK, ended)
    for resource, value in reports:
        found.report(TRUNK, resource, value)
        expected.setdefault(resource, value)
    again = KnownReports()
    again.restore(read(written(found)))
    assert written(again) == written(found)
    if found.nodes:
        resources = sorted(expected)
        lists = {"resources": resources, "values": [expected[at] for at in resources], "ended": ended}
        assert written(found) == msgspec.json.encode({TRUNK: lists})
        again.report(TRUNK, 13, 0.5)
        assert list(again.between(LONG, 0, 13)) == [*sorted(expected.items()), (13, 0.5)]
        assert again.ended(LONG) == ended


def written(known: KnownReports) -> bytes:
    def in_lists(row: Any) -> NodeReports:
        assert isinstance(row, ReportRow)
        return row.reports()

    return msgspec.json.encode(known.nodes, enc_hook=in_lists)


def read(data: bytes) -> dict[NodeKey, NodeReports]:
    return msgspec.json.decode(data, type=dict[NodeKey, NodeReports])


def test_a_report_takes_no_more_than_8_bytes_where_all_follow_one_another() -> None:
    found, again = KnownReports(), KnownReports()
    for resource in range(3, 1_003):
        found.report(TRUNK, resource, resource / 7)
    found.report(TRUNK, 500, None)
    again.restore(read(written(found)))
    for node in (found.nodes[TRUNK], again.nodes[TRUNK]):
        assert isinstance(node, ReportRow)
        assert sys.getsizeof(node) < 1_000 * 9 + 200


def test_a_settled_trial_has_no_room_to_spare_and_still_reads_reports() -> None:
    found = KnownReports()
    for resource in range(1, 11):
        found.report(TRUNK, resource, resource / 7)
    before = sys.getsizeof(found.nodes[TRUNK])
    found.settle(TRUNK)
    found.settle(TWIG)
    assert sys.getsizeof(found.nodes[TRUNK]) < before
    found.report(TRUNK, 11, 0.5)
    assert list(found.between(LONG, 0, 20)) == [(at, at / 7) for at in range(1, 11)] + [(11, 0.5)]
    assert list(found.nodes) == [TRUNK]
