"""Who trained what when, read from journals: simulated ones, written ones, and those of released versions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from asyncsearch.actions import AddLane, AnyAction, Assign, DismissWorker, EndRun, MoveTrial
from asyncsearch.events import (
    AnyEvent,
    DriverStarted,
    Outcome,
    Reported,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import Lease, NodeKey, TrialId, WorkerId
from asyncsearch.journal.format import Record, SegmentReader
from asyncsearch.report.timeline import SpanEnd, WorkerTimeline, joint_timeline, worker_timeline
from asyncsearch.trial import TrialState
from asyncsearch.work import Lane, Stage, Work
from tests.report.tools import FAILING, records_of, simulated

JOURNALS = sorted((Path(__file__).parents[1] / "golden" / "journals").glob("*.jsonl"))
WORKER = WorkerId(0)
ATTACHED = WorkerAttached(WORKER, 1)
LEASE = Lease(0, WORKER, 1)


def lane(trial: int, start: int = 0) -> Lane:
    return Lane((Stage(NodeKey(f"node-{trial}"), {}, (TrialId(trial),), 0, start, 3, 9),))


def assign(*lanes: Lane, lease: Lease = LEASE) -> Assign:
    return Assign(Work(lease, lanes))


def ended(outcome: Outcome = Outcome.REACHED, resource: int = 3, lane: int = 0, error: str = "") -> TrainingEnded:
    return TrainingEnded(LEASE, outcome, resource, lane=lane, error=error)


def read(*happened: tuple[float, AnyEvent, Sequence[AnyAction]]) -> WorkerTimeline:
    return worker_timeline(Record(n, t, event, tuple(actions)) for n, (t, event, actions) in enumerate(happened, 1))


def test_every_work_is_a_span_and_a_worker_does_one_after_the_other() -> None:
    records = records_of(simulated())
    found = worker_timeline(records)
    given = [action for record in records for action in record.actions if isinstance(action, Assign)]
    assert len(found.spans) == len(given)
    assert found.workers == [0, 1, 2]
    for worker in found.workers:
        spans = [span for span in found.spans if span.workers == (worker,)]
        assert all(one.end_s <= other.start_s for one, other in itertools.pairwise(spans))
    assert 0 < found.busy_share < 1


def test_all_units_that_were_trained_lie_in_spans() -> None:
    recorded = simulated()
    found = worker_timeline(records_of(recorded))
    assert sum(span.resource - span.start for span in found.spans) == sum(t.trained for t in recorded.state.trials)


def test_a_failure_and_a_lost_worker_end_their_spans_with_the_reason() -> None:
    found = worker_timeline(records_of(simulated()))
    [failed] = [span for span in found.spans if span.end is SpanEnd.FAILED]
    [lost] = [span for span in found.spans if span.end is SpanEnd.LOST]
    assert (failed.trials, failed.reason) == ((FAILING,), "it raised as the script says")
    assert (lost.workers, lost.end_s, lost.reason) == ((1,), 5.5, "it was killed by the script")
    assert next((one.epoch, one.end_s, one.loss) for one in found.presences if one.worker == 1) == (1, 5.5, lost.reason)
    assert [one.start_s for one in found.presences if one.worker == 1] == [0.0, 7.5]


def test_what_became_of_the_trial_is_the_reason() -> None:
    moved = MoveTrial(TrialId(7), TrialState.STOPPED, "rank 7 of 20, 5 go on")
    found = read((0.0, ATTACHED, [assign(lane(7))]), (4.0, ended(Outcome.STOPPED), [moved]))
    assert [(span.end, span.reason) for span in found.spans] == [(SpanEnd.STOPPED, "rank 7 of 20, 5 go on")]


def test_work_that_has_not_ended_runs_until_the_last_record() -> None:
    found = read((0.0, ATTACHED, [assign(lane(7))]), (4.0, Reported(LEASE, 2, {"loss": 1.0}), []))
    [span] = found.spans
    assert (span.end, span.end_s, span.resource) == (SpanEnd.RUNNING, 4.0, 2)
    assert [one.end_s for one in found.presences] == [4.0]


def test_work_that_a_worker_did_not_get_is_no_span() -> None:
    found = read((0.0, ATTACHED, [assign(lane(7))]), (0.1, WorkRefused(LEASE, "others train there"), []))
    assert found.spans == []


def test_a_packs_lanes_are_stacked_and_a_joining_lane_takes_a_free_place() -> None:
    joined = AddLane(LEASE, 2, lane(3))
    found = read(
        (0.0, ATTACHED, [assign(lane(1), lane(2))]),
        (4.0, ended(lane=0), [joined]),
        (6.0, ended(lane=1), []),
        (9.0, ended(lane=2), [EndRun("done")]),
    )
    places = [(span.trials[0], span.start_s, span.end_s, span.position, span.positions) for span in found.spans]
    assert places == [(1, 0.0, 4.0, 0, 2), (2, 0.0, 6.0, 1, 2), (3, 4.0, 9.0, 0, 2)]
    assert found.busy_share == 1.0


def test_time_between_two_drivers_is_left_out_and_ends_spans_of_the_first() -> None:
    found = read(
        (100.0, DriverStarted("1"), []),
        (101.0, ATTACHED, [assign(lane(1))]),
        (103.0, Reported(LEASE, 1, {"loss": 1.0}), []),
        (5_000.0, DriverStarted("1"), []),
        (5_002.0, ATTACHED, [assign(lane(1, start=1))]),
        (5_004.0, ended(), []),
    )
    assert [(span.end, found.elapsed(span.start_s), found.elapsed(span.end_s)) for span in found.spans] == [
        (SpanEnd.LOST, 1.0, 3.0),
        (SpanEnd.TRAINED, 5.0, 7.0),
    ]
    assert [(one.start_s, one.end_s) for one in found.pauses] == [(103.0, 5_000.0)]
    assert found.elapsed(found.end_s) == 7.0


def test_an_event_of_a_lost_worker_ends_no_span_of_the_next_one() -> None:
    second = Lease(1, WORKER, 2)
    found = read(
        (0.0, ATTACHED, [assign(lane(1))]),
        (1.0, WorkerLost(WORKER, 1, "it was silent"), []),
        (2.0, WorkerAttached(WORKER, 2), [assign(lane(1), lease=second)]),
        (3.0, WorkerLost(WORKER, 1, "it was silent"), []),
    )
    assert [span.end for span in found.spans] == [SpanEnd.LOST, SpanEnd.RUNNING]


def test_a_worker_that_changes_its_study_counts_once_at_any_time() -> None:
    first = read((0.0, ATTACHED, [assign(lane(1))]), (2.0, ended(), [DismissWorker(WORKER, 1, "no work")]))
    second = read((2.0, ATTACHED, [assign(lane(1))]), (5.0, ended(), []))
    found, names = joint_timeline({"first": first, "second": second})
    assert list(names.values()) == ["first: worker-0", "second: worker-0"]
    assert found.most_at_once == 1


def test_an_empty_journal_has_no_timeline() -> None:
    found = read()
    assert (found.spans, found.workers, found.busy_share, found.elapsed(found.end_s)) == ([], [], 0.0, 0.0)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_journals_of_released_versions_have_a_timeline(path: Path) -> None:
    found = worker_timeline(SegmentReader().read("000001.jsonl", path.read_bytes().splitlines(keepends=True)))
    assert found.spans
    assert 0 < found.busy_share <= 1
    assert all(span.start_s <= span.end_s for span in found.spans)
