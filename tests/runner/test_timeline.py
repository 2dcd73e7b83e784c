"""Where a lane stands among its stages, and what is due there: tables, without a trial."""

from __future__ import annotations

import pytest

from asyncsearch.actions import CutWork, SaveAt
from asyncsearch.ids import NodeKey
from asyncsearch.runner.timeline import LaneTimeline
from tests.agent.driver import lease, make_stage

A, B, C = NodeKey("a" * 32), NodeKey("b" * 32), NodeKey("c" * 32)


def make_batch(*, save: bool = False, max_resource: int | None = 20) -> LaneTimeline:
    """Three stages: 4 to 6 and 6 to 9 with a checkpoint, and 9 to 12."""
    return LaneTimeline(
        [
            make_stage(node=A, start=4, stop=6, max_resource=max_resource, save=True),
            make_stage(node=B, start=6, stop=9, max_resource=max_resource, save=True),
            make_stage(node=C, start=9, stop=12, max_resource=max_resource, save=save),
        ]
    )


def nodes_of_saves(batch: LaneTimeline) -> list[tuple[int, NodeKey]]:
    """Walk over the whole lane, and save wherever that is due."""
    found, done = [], batch.start
    while True:
        if batch.is_save_due(done):
            found.append((done, batch.stages[batch.index_at(done)].node))
            batch.saved(done)
        if batch.is_over(done):
            return found
        done += 1


def test_a_unit_belongs_to_the_stage_in_which_it_begins() -> None:
    assert [make_batch().next_stage(done).node for done in range(4, 13)] == [A, A, B, B, B, C, C, C, C]


def test_a_checkpoint_stands_under_the_stage_that_ends_there() -> None:
    batch = make_batch()
    assert [batch.stages[batch.index_at(done)].node for done in range(4, 13)] == [A, A, A, B, B, B, C, C, C]


def test_checkpoints_are_due_at_the_stops_of_the_stages_that_want_them() -> None:
    assert nodes_of_saves(make_batch()) == [(6, A), (9, B)]
    assert nodes_of_saves(make_batch(save=True)) == [(6, A), (9, B), (12, C)]


def test_a_wished_checkpoint_is_due_once_where_it_is_wished() -> None:
    """Trap 2.4.8 (i): a new split inside a running stage is saved where the lane comes past it."""
    batch = make_batch()
    for node, resource in ((A, 5), (B, 9), (C, 11), (C, 11)):
        batch.amend(SaveAt(lease(0), node, resource))
    assert nodes_of_saves(batch) == [(5, A), (6, A), (9, B), (11, C)]


def test_the_start_of_a_node_is_saved_under_its_parent_only() -> None:
    batch = make_batch()
    batch.amend(SaveAt(lease(0), C, 9))
    batch.amend(SaveAt(lease(0), B, 11))
    assert nodes_of_saves(batch) == [(6, A), (9, B)]


def test_what_was_loaded_is_not_saved_again() -> None:
    batch = make_batch()
    batch.amend(SaveAt(lease(0), A, 4))
    assert nodes_of_saves(batch) == [(6, A), (9, B)]


@pytest.mark.parametrize(
    ("stop", "ends", "saves"),
    [
        (3, 4, []),
        (4, 4, []),
        (5, 5, [(5, A)]),
        (6, 6, [(6, A)]),
        (7, 7, [(6, A), (7, B)]),
        (12, 12, [(6, A), (9, B)]),
        (99, 12, [(6, A), (9, B)]),
    ],
)
def test_a_cut_lane_ends_there_and_saves_there(stop: int, ends: int, saves: list[tuple[int, NodeKey]]) -> None:
    """Trap 2.4.9: the tail of a batch that nobody wants any more is not trained."""
    batch = make_batch()
    batch.amend(CutWork(lease(0), stop))
    assert nodes_of_saves(batch) == saves
    assert next(done for done in range(4, 99) if batch.is_over(done)) == ends


def test_the_lowest_cut_counts() -> None:
    batch = make_batch()
    for stop in (10, 8, 11):
        batch.amend(CutWork(lease(0), stop))
    assert nodes_of_saves(batch) == [(6, A), (8, B)]


def test_a_cut_behind_the_lane_ends_it_there_without_a_checkpoint() -> None:
    batch = make_batch()
    batch.amend(CutWork(lease(0), 5))
    assert (batch.is_cut(8), batch.is_over(8), batch.is_save_due(8), batch.is_save_needed(8)) == (
        True,
        True,
        True,
        False,
    )
    assert batch.is_save_needed(5)


def test_a_lane_that_is_complete_does_not_pause_and_one_that_is_cut_does() -> None:
    batch = make_batch(max_resource=12)
    assert not batch.is_pause(12)
    batch.amend(CutWork(lease(0), 10))
    assert batch.is_pause(10)


def test_a_lane_without_an_end_can_be_cut() -> None:
    batch = LaneTimeline([make_stage(node=A)])
    assert not batch.is_over(2**60)
    batch.amend(CutWork(lease(0), 7))
    assert (batch.is_over(6), batch.is_over(7), batch.is_pause(7)) == (False, True, True)


def test_a_stage_without_length_is_an_evaluation() -> None:
    assert LaneTimeline([make_stage(start=5, stop=5)]).is_evaluation
    assert not LaneTimeline([make_stage(start=0, stop=0)]).is_evaluation
    assert not make_batch().is_evaluation
