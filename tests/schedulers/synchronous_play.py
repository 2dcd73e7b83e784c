"""Whole searches of schedulers whose trials wait at their rungs, and the same searches by sorting every rung."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import Scheduler
from tests.schedulers.tools import Move, drain, restored


class Search(NamedTuple):
    scores: list[float | None]
    failing: dict[int, bool]
    """Trial that fails -> whether before its first rung, else on its way to the next."""
    order: random.Random


SEARCHES = st.builds(
    Search,
    st.lists(st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(-5, 5)), min_size=1, max_size=45),
    st.dictionaries(st.integers(0, 44), st.booleans(), max_size=12),
    st.randoms(use_true_random=False),
)


def outcome(search: Search, scheduler: Scheduler) -> set[Move]:
    """Return the promotions of a search whose workers finish in a random order, with a restart after every step."""
    scores, failing, order = search
    state = scheduler.begin()
    state.run_requested(len(scores))
    moves: set[Move] = set()
    training: list[tuple[TrialId, int, bool]] = []
    created = TrialId(0)
    while True:
        for trial, start, to in drain(state):
            moves.add((trial, start, to))
            training.append((TrialId(trial), to, False))
        if created < len(scores) and (not training or order.random() < 0.5):
            assert state.may_create(created)
            training.append((created, state.first_target(created) or 0, True))
            state.created(created, {})
            created = TrialId(created + 1)
        elif training:
            trial, target, is_new = training.pop(order.randrange(len(training)))
            if trial in failing and (failing[trial] or not is_new):
                state.failed(trial, target)
            elif target == scheduler.max_resource:
                state.completed(trial, target, scores[trial])
            else:
                state.paused(trial, target, scores[trial])
        else:
            return moves
        state = restored(scheduler, state)


def ideal(search: Search, brackets: Sequence[tuple[Sequence[int], int]], eta: int) -> set[Move]:
    """Return the promotions by sorting: brackets are (levels, size), over and over until all trials are in one."""
    scores, failing, _ = search
    moves: set[Move] = set()
    first = 0
    for levels, size in cycle(brackets):
        if first >= len(scores):
            return moves
        trials = range(first, min(first + size, len(scores)))
        alive = [trial for trial in trials if not failing.get(trial, False)]
        for index, (start, to) in enumerate(pairwise(levels), start=1):
            ranked = sorted((score, trial) for trial in alive if (score := scores[trial]) is not None)
            chosen = [trial for _, trial in ranked[: len(trials) // eta**index]]
            moves |= {(trial, start, to) for trial in chosen}
            alive = [trial for trial in chosen if trial not in failing]
        first += size
    raise AssertionError("there is no bracket")
