"""Each kind of fact and of decision is known wherever one is looked up by its kind."""

from __future__ import annotations

from typing import get_args

from asyncsearch.actions import AnyAction
from asyncsearch.engine import affected, applying, deciding, learning
from asyncsearch.events import (
    AnyEvent,
    Consulted,
    EnoughTrials,
    NodeFreed,
    PackMeasured,
    PacksTimed,
    Reported,
    VolumeMeasured,
    WorkerAttached,
)

KINDS = set(get_args(AnyEvent))


def test_each_kind_of_event_is_learned_and_asked_whether_it_is_stale() -> None:
    assert set(learning._BY_KIND) == KINDS == set(affected._BY_KIND)


def test_the_other_kinds_of_events_have_no_response_of_their_own() -> None:
    without = {Reported, WorkerAttached, NodeFreed, PackMeasured, PacksTimed, VolumeMeasured, Consulted, EnoughTrials}
    assert set(deciding._BY_KIND) == KINDS - without


def test_each_kind_of_action_is_applied() -> None:
    assert set(applying._BY_KIND) == set(get_args(AnyAction))
