"""A trial that comes later reads what was reported on its way, and nothing beside it."""

from __future__ import annotations

from asyncsearch.ids import NodeKey, PathStep
from asyncsearch.plan.known import Known

TRUNK, TWIG = NodeKey("trunk"), NodeKey("twig")
LONG = (PathStep(0, TRUNK),)
PARTING = (PathStep(0, TRUNK), PathStep(4, TWIG))


def known() -> Known:
    found = Known()
    for resource in range(1, 9):
        found.report(TRUNK, resource, resource / 10)
    found.report(TWIG, 5, 0.05)
    return found


def test_a_way_reads_each_node_up_to_where_it_leaves_it() -> None:
    assert list(known().between(PARTING, 2, 9)) == [(3, 0.3), (4, 0.4), (5, 0.05)]
    assert list(known().between(LONG, 6, 7)) == [(7, 0.7)]


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
