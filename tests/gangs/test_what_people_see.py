"""What people read of trials on several workers: the table, and what a search would take."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch import FIFO, Autoscale, Gang
from asyncsearch.engine.handling import handle
from asyncsearch.errors import UsageError
from asyncsearch.events import AnyEvent, DriverStarted, RunRequested, WorkerAttached, WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.journal.format import Record, SegmentReader
from asyncsearch.report.live.lines import workers_line
from asyncsearch.report.live.status_of import status_of
from asyncsearch.report.timeline import SpanEnd, worker_timeline
from asyncsearch.report.tree.reading import read_tree
from asyncsearch.report.tree.view import Kind
from tests.engine.player import Player
from tests.engine.tools import Recorded, make_state
from tests.gangs.searches import Digits, digits


def test_a_preview_counts_gangs_and_says_so(tmp_path: Path) -> None:
    study = digits(tmp_path / "s", 2, Digits, scheduler=FIFO(max_resource=4))
    alone = digits(tmp_path / "t", None, Digits, scheduler=FIFO(max_resource=4))
    seen = study.preview(8, parallelism=4, seconds_per_unit=1.0)
    assert seen.expected is not None
    assert seen.expected == alone.preview(8, parallelism=2, seconds_per_unit=1.0).expected
    assert "2 workers train each trial; the time of a unit is theirs together." in str(seen)
    with pytest.raises(UsageError, match="parallelism=1 counts workers, and each trial trains on 2 workers"):
        study.preview(8, parallelism=1)
    assert "simulated on 2 workers" in str(study.preview(8, parallelism=3)), "a run would start no third one"
    with pytest.raises(UsageError, match=r"says what autoscaling gains.*autoscale=Autoscale"):
        study.preview(8, parallelism=4, gang_speedup={2: 1.5})
    fewer = digits(tmp_path / "u", Gang(4, min_size=2), Digits, scheduler=FIFO(max_resource=4))
    assert "3 workers train each trial" in str(fewer.preview(8, parallelism=3))


def test_the_table_says_how_many_workers_train_a_trial() -> None:
    state = make_state(FIFO(max_resource=3))
    state.gang = Gang(2)
    player = Player(state)
    for event in (DriverStarted("test"), RunRequested(4, 4), WorkerAttached(WorkerId(0), 1)):
        player.tell(event)
    assert workers_line(status_of(state)) == "1 of 4 workers, 2 to a trial, after 0:00:00"


def test_the_table_names_the_trials_on_more_workers_than_others() -> None:
    state = make_state(FIFO(max_resource=100), can_save=True)
    state.gang = Gang(1, autoscale=Autoscale(0.5))
    player = Player(state)
    player.tell(DriverStarted("test"))
    player.tell(RunRequested(1, 2))
    for worker in (WorkerId(0), WorkerId(1)):
        player.tell(WorkerAttached(worker, 1))
    state.attempts[0].size = 2
    assert workers_line(status_of(state)).startswith("2 of 2 workers, trial-0 on 2, after ")


def gang_that_lost(worker: WorkerId) -> list[Record]:
    """Return the journal of a gang of two that has lost one of its workers."""
    state = make_state(FIFO(max_resource=3))
    state.gang = Gang(2)
    recorded = Recorded(state)
    attached = [WorkerAttached(WorkerId(number), 1) for number in (0, 1)]
    events: list[AnyEvent] = [DriverStarted("test"), RunRequested(1, 2), *attached]
    for now, event in enumerate([*events, WorkerLost(worker, 1, "killed")]):
        recorded(float(now), event, handle(state, event, float(now)))
    return list(SegmentReader().read("000001.jsonl", recorded.lines))


@pytest.mark.parametrize("rank", [0, 1])
def test_the_timeline_shows_a_gang_on_each_of_its_workers(rank: int) -> None:
    found = worker_timeline(gang_that_lost(WorkerId(rank)))
    (span,) = found.spans
    assert found.busy_share == pytest.approx(2 / 3), "the first one has waited for the other"
    assert span.workers == (0, 1)
    assert (span.start_s, span.end_s, span.end) == (3.0, 4.0, SpanEnd.LOST)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_tree_shows_no_training_of_a_gang_that_has_lost_a_worker(rank: int) -> None:
    tree = read_tree(gang_that_lost(WorkerId(rank)), "loss")
    assert {one.kind for node in tree.nodes.values() for one in node.intervals} == {Kind.WAITING}
