"""Nodes that need no look at the end of a run: only trainings that ended as they should have written there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, CheckpointFailed, Outcome, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.sizing.gangs import Gang

NODE = NodeKey("a")


def lease(attempt: int = 4) -> Lease:
    return Lease(attempt, WorkerId(0), 1)


def ended(outcome: Outcome = Outcome.REACHED, saved: int | None = 3) -> TrainingEnded:
    return TrainingEnded(lease(), outcome, 3, saved)


def committed(resource: int = 3) -> CheckpointCommitted:
    return CheckpointCommitted(lease(), CheckpointRef(NODE, resource), 7)


def state(*, losses: int = 0, has_gangs: bool = False) -> StudyState:
    needed = CheckpointRef(NODE, 3)
    trial = SimpleNamespace(losses=losses, checkpoint=needed)
    stages = [SimpleNamespace(node=NODE)]
    found: Any = SimpleNamespace(
        references={needed: 1},
        trials=[trial],
        attempts={2: SimpleNamespace(batch=SimpleNamespace(stages=stages))},
        gang=Gang(2) if has_gangs else None,
    )
    return cast(StudyState, found)


def after(*events: AnyEvent) -> NodeWriters:
    writers = NodeWriters()
    writers.begin(4, [NODE])
    for event in events:
        writers.note(event)
    return writers


@pytest.mark.parametrize(
    "events", [(committed(), ended()), (ended(), committed()), (committed(1), ended(), committed())]
)
def test_a_node_is_settled_once_the_last_checkpoint_is_committed(events: tuple[AnyEvent, ...]) -> None:
    assert after(*events).settled(state()) == {NODE}


@pytest.mark.parametrize(
    "events",
    [
        (),
        (committed(),),
        (ended(),),
        (ended(), committed(1)),
        (committed(), ended(Outcome.STOPPED)),
        (committed(), ended(Outcome.FAILED)),
        (committed(), ended(saved=None)),
        (CheckpointFailed(lease(), CheckpointRef(NODE, 1), "full"), committed(), ended()),
    ],
)
def test_a_node_is_looked_into_after_any_other_end(events: tuple[AnyEvent, ...]) -> None:
    assert after(*events).settled(state()) == set()


def test_a_node_of_several_writers_is_settled_after_the_last_one() -> None:
    writers = after()
    writers.begin(5, [NODE])
    writers.note(committed())
    writers.note(ended())
    assert writers.settled(state()) == set()


def test_a_node_of_a_lost_trial_or_of_a_gang_is_looked_into() -> None:
    writers = after(committed(), ended())
    assert writers.settled(state(losses=1)) == writers.settled(state(has_gangs=True)) == set()


def test_what_earlier_drivers_gave_out_may_still_be_written() -> None:
    writers = NodeWriters()
    writers.take_over(state())
    assert writers.settled(state()) == set()


def test_a_deletion_that_failed_leaves_a_doubt() -> None:
    writers = after(committed(), ended())
    writers.doubt(NODE)
    assert writers.settled(state()) == set()
