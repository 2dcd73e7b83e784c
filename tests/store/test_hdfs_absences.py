"""When content that no DataNode has counts as gone."""

from __future__ import annotations

import pytest

from asyncsearch.store.hdfs.store import Absences


@pytest.mark.parametrize(("now", "is_gone"), [(100.0, False), (129.9, False), (130.0, True)])
def test_content_is_gone_once_it_was_away_for_long_enough(now: float, is_gone: bool) -> None:
    absences = Absences(30.0)
    assert not absences.note("a", 100.0)
    assert absences.note("a", now) is is_gone


def test_content_that_came_back_is_waited_for_anew() -> None:
    absences = Absences(30.0)
    absences.note("a", 0.0)
    absences.forget("a")
    assert not absences.note("a", 100.0)
    absences.forget("never away")


def test_each_file_is_waited_for_by_itself() -> None:
    absences = Absences(30.0)
    absences.note("a", 0.0)
    assert not absences.note("b", 100.0)
    assert absences.note("a", 100.0)


def test_who_does_not_wait_takes_it_for_gone_at_once() -> None:
    assert Absences(0.0).note("a", 5.0)
