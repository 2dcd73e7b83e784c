"""What the tests of schedulers share."""

from __future__ import annotations

import msgspec

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import Scheduler, SchedulerState

Move = tuple[int, int, int]


def drain(state: SchedulerState) -> list[Move]:
    """Ask and state promotions until there are none; return them as (trial, from, to)."""
    moves: list[Move] = []
    while (promotion := state.next_promotion()) is not None:
        state.promoted(promotion.trial, promotion.from_resource, promotion.to_resource)
        moves.append((promotion.trial, promotion.from_resource, promotion.to_resource))
    return moves


def pause_new(state: SchedulerState, scores: list[float | None], first: int = 0) -> None:
    """Begin trials, and bring each to its first target with its score."""
    for number, score in enumerate(scores, start=first):
        trial = TrialId(number)
        target = state.first_target(trial)
        assert target is not None
        state.created(trial, {})
        state.paused(trial, target, score)


def begun(scheduler: Scheduler, scores: list[float | None]) -> SchedulerState:
    """Return the state of a scheduler whose trials have come to their first targets with these scores."""
    state = scheduler.begin()
    pause_new(state, scores)
    return state


def restored(scheduler: Scheduler, state: SchedulerState) -> SchedulerState:
    """Return a copy made through the snapshot's JSON, which must be the same to the byte when written again."""
    text = msgspec.json.encode(state.snapshot())
    copy = scheduler.begin()
    copy.restore(msgspec.json.decode(text))
    assert msgspec.json.encode(copy.snapshot()) == text
    return copy
