"""Laws of the order of trials by their scores."""

from __future__ import annotations

from bisect import bisect_left, insort

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import order_statistics as ranking
from asyncsearch.schedulers.order_statistics import Ranking

Entry = tuple[float, TrialId]

SCORES = st.sampled_from([-1.5, 0.0, 1.0, 1.5, 2.0, 3.25])
"""Few, so that equal ones fill several blocks."""
ENTRIES = st.tuples(SCORES, st.integers(0, 40).map(TrialId))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_MOST", 4)
    monkeypatch.setattr(ranking, "_GROUP", 3)


@settings(max_examples=300, deadline=None)
@given(start=st.lists(ENTRIES, unique=True), steps=st.lists(st.tuples(st.booleans(), ENTRIES), max_size=120))
def test_a_ranking_is_a_sorted_list_whatever_is_added_and_removed(
    start: list[Entry], steps: list[tuple[bool, Entry]]
) -> None:
    model = sorted(start)
    order = Ranking(start)
    for is_added, entry in steps:
        if is_added and entry not in model:
            insort(model, entry)
            assert order.add(*entry) == (model[0] == entry)
        elif not is_added:
            assert order.remove(*entry) == (entry in model)
            model = [kept for kept in model if kept != entry]
        assert list(order) == model
        assert len(order) == len(model)
        assert order.first() == (model[0] if model else None)
        assert (entry in order) == (entry in model)
        assert order.before(*entry) == bisect_left(model, entry)
        assert order.below(entry[0]) == sum(score < entry[0] for score, _ in model)
        assert order.up_to(entry[0]) == sum(score <= entry[0] for score, _ in model)


def test_a_ranking_made_of_entries_is_the_one_to_which_they_were_added() -> None:
    entries = [(float(number * 37 % 11), TrialId(number)) for number in range(50)]
    grown = Ranking()
    for score, trial in entries:
        grown.add(score, trial)
    assert list(Ranking(entries)) == list(grown) == sorted(entries)
