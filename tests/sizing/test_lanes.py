"""How many lanes a pack has: the smallest of all limits, and the words of the one that decides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.sizing.lanes import Lanes, fair_share, most_joined, most_lanes
from asyncsearch.sizing.packing import KnownPacks, Packing

COUNTS = st.none() | st.integers(1, 40)
AUTO = Packing(1024, is_measured=True)


@given(asked=st.integers(1, 40), memory=COUNTS, fits=COUNTS, batch=COUNTS)
def test_the_smallest_limit_decides_and_is_named(
    asked: int, memory: int | None, fits: int | None, batch: int | None
) -> None:
    found = most_lanes(Packing(asked), KnownPacks(memory=memory, fits=fits), batch=batch)
    limits = {f"pack={asked}": asked, "memory": min(memory or 99, fits or 99), "searcher proposes": batch or 99}
    assert found.count == min(limits.values())
    assert any(words in found.reason for words, count in limits.items() if count == found.count)


def test_a_refused_structure_trains_alone_in_the_refusals_words() -> None:
    found = most_lanes(Packing(8), KnownPacks(refusal="its loss is its own"))
    assert found == Lanes(1, "they train one after another: its loss is its own")


def test_measured_packs_say_what_gains_most_and_what_is_timed_next() -> None:
    assert most_lanes(AUTO, KnownPacks()) == Lanes(18, "the first pack times 18")
    over = KnownPacks({1: 1.0, 2: 1.05, 4: 1.2, 8: 2.4})
    assert most_lanes(AUTO, over) == Lanes(4, "4 together gain most")
    rising = KnownPacks({1: 1.0, 2: 1.05, 4: 1.2, 8: 1.4})
    assert most_lanes(AUTO, rising) == Lanes(24, "16 more than gain most so far are timed")


def test_free_workers_get_their_part() -> None:
    assert fair_share(Lanes(8, "asked"), 10, 4) == Lanes(3, "10 are left to begin, for 4 free workers")
    assert fair_share(Lanes(2, "asked"), 10, 4) == Lanes(2, "asked")
    assert fair_share(Lanes(8, "asked"), None, 4) == Lanes(8, "asked")


def test_a_process_that_has_trained_many_lanes_gets_no_more() -> None:
    most = Lanes(8, "asked")
    assert most_joined(Packing(8), KnownPacks(), most, lanes=8, given=256) == most
    assert most_joined(Packing(8), KnownPacks(), most, lanes=2, given=255) == Lanes(
        3, "its process has trained 255, and is to end before it leaks"
    )
