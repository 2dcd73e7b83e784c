"""Names inside a store, built and parsed."""

from __future__ import annotations

from asyncsearch.store.layout import Version, not_joined, parse_versions, versions_of

NAMES = [
    "8",
    "81",
    "81.2",
    "81.10-3f0c",
    "81.9-ff",
    "810",
    "810.3",
    "8.1-81",
    "81.",
    "81.x",
    "081",
    "x81",
    "81.2.3",
    "notes",
]


def test_the_versions_of_a_resource_are_those_among_all_of_its_node() -> None:
    for resource in (1, 8, 81, 810):
        assert versions_of(resource, NAMES) == [
            one for one in parse_versions([name for name in NAMES if name != "081"]) if one.resource == resource
        ]
    assert versions_of(81, NAMES) == [Version(81), Version(81, 2), Version(81, 9, "ff"), Version(81, 10, "3f0c")]


def test_a_joined_object_stands_for_those_it_names_alone() -> None:
    names = ["000000000", "000000001-000000002", "000000001", "000000002", "000000003", ".a-z", "~b-z"]
    assert not_joined(names) == [".a-z", "000000000", "000000001-000000002", "000000003", "~b-z"]
