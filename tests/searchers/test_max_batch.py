"""How many trials of a searcher that learns may train together, in whole searches."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch.engine.handling import replay
from asyncsearch.errors import UsageError
from asyncsearch.schedulers import ASHA
from asyncsearch.searchers import OptunaSearch
from asyncsearch.space import Space, uniform
from tests.engine.tools import packed_state, record

pytest.importorskip("optuna")

LINE = Space({"x": uniform(0, 1)})


def lanes_at_once(searcher: OptunaSearch) -> int:
    """Return how many trials trained together at most in a whole search with packs of up to 8 on one worker.

    One that has trained all of its units is only to save, and another one may have its place.
    """
    recorded = record(packed_state(ASHA(max_resource=9), pack=8, space=LINE, searcher=searcher), 30, 1)
    assert len(recorded.state.trials) == 30
    state, most = packed_state(ASHA(max_resource=9), pack=8, space=LINE, searcher=searcher), 0
    for now, event, actions in recorded.steps:
        replay(state, event, actions, now)
        for lease in {attempt.lease for attempt in state.attempts.values()}:
            most = max(most, state.lanes_staying(lease))
    return most


def test_max_batch_bounds_how_many_train_together_in_a_whole_search() -> None:
    assert lanes_at_once(OptunaSearch()) == 8
    assert lanes_at_once(OptunaSearch(max_batch=3)) == 3
    assert OptunaSearch(max_batch=3).describe() == "OptunaSearch('tpe', max_batch=3)"


@pytest.mark.parametrize("count", [0, True, 2.0])
def test_a_max_batch_that_is_no_number_of_trials_is_refused(count: Any) -> None:
    with pytest.raises(UsageError, match=r"OptunaSearch\(max_batch=.*: write a number of trials from 1 on, or None"):
        OptunaSearch(max_batch=count)
