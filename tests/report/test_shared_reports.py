"""Who read what, where trials share: reports that came late, and stages for more trials than are listed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from asyncsearch.actions import AnyAction, Assign, CreateTrial, Inherit
from asyncsearch.events import AnyEvent, DriverStarted, Reported
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import history, trained_with
from asyncsearch.report.tree.reading import read_tree
from asyncsearch.trial import TrialState
from asyncsearch.work import Lane, Stage, Work

NODE = NodeKey("0" * 32)


def journal(*steps: tuple[AnyEvent | None, Sequence[AnyAction]]) -> list[Record]:
    began = DriverStarted("test")
    return [
        Record(number, float(number), event or began, tuple(actions)) for number, (event, actions) in enumerate(steps)
    ]


def create(trial: int, target: int = 9) -> CreateTrial:
    return CreateTrial(TrialId(trial), {"x": 1}, NODE, target)


def assign(number: int, start: int, stop: int, trials: Sequence[int], more: int = 0) -> Assign:
    stage = Stage(NODE, {"x": 1}, tuple(TrialId(t) for t in trials), 0, start, stop, 9, more=more)
    load = CheckpointRef(NODE, start) if start else None
    return Assign(Work(lease(number), (Lane((stage,), load),)))


def lease(number: int) -> Lease:
    return Lease(number, WorkerId(0), 1)


def report(number: int, resource: int) -> Reported:
    return Reported(lease(number), resource, {"loss": float(resource)})


def test_a_latecomer_reads_reports_in_order_however_late_evaluated() -> None:
    records = journal(
        (None, [create(0), assign(0, 0, 9, [0])]),
        (report(0, 4), []),
        (report(0, 8), [create(1, target=6), assign(1, 6, 6, [1])]),
        (report(1, 6), [create(2), Inherit(TrialId(2), 8)]),
    )
    assert [at for at, _ in history(records, TrialId(2))] == [4, 6, 8]


@pytest.mark.parametrize(("trial", "is_reader"), [(0, False), (1, True), (2, True)])
def test_a_trial_reads_from_a_stage_that_only_counts_it(trial: int, is_reader: bool) -> None:
    records = journal((None, [create(0), create(1), create(2), assign(0, 0, 4, [0], more=2)]))
    found = [(0, 4, TrialId(0))] if is_reader else []
    assert trained_with(records, TrialId(trial)) == found
    listed = journal((None, [create(0), create(1), create(2), assign(0, 0, 4, [0])]))
    assert trained_with(listed, TrialId(trial)) == [], "it was created by then and asked for something else"


def test_a_trial_that_has_read_as_far_is_not_counted() -> None:
    records = journal(
        (None, [create(0), create(1, target=4), assign(0, 0, 4, [0], more=1)]),
        (report(0, 4), [assign(1, 4, 9, [0], more=1)]),
    )
    assert trained_with(records, TrialId(1)) == [(0, 4, TrialId(0))]


def test_the_picture_shows_as_running_whom_a_stage_only_counts() -> None:
    records = journal((None, [create(0), create(1), create(2, target=6), assign(0, 0, 6, [0], more=2)]))
    states = [path.state for path in read_tree(records, "loss").paths]
    assert states == [TrialState.WAITING, TrialState.WAITING, TrialState.RUNNING]
