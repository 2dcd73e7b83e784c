"""What a study's journal and snapshots say about when it was searched, and for how long."""

from __future__ import annotations

from asyncsearch.engine import snapshot
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import RunTimes, StudyState
from asyncsearch.events import AnyEvent, DriverStarted, RunRequested
from asyncsearch.schedulers import FIFO
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.testing.recording import restored
from tests.engine.tools import SPACE, make_state, record, replayed


def new_state() -> StudyState:
    return make_state(FIFO(max_resource=3), RandomSearch(), SPACE)


def searched() -> StudyState:
    return record(new_state(), 4, workers=2).state


def test_a_run_lasts_from_its_request_to_its_end() -> None:
    times = RunTimes()
    times.begin(10.0, done=0)
    times.end(25.0, done=7)
    assert (times.ended_s, times.total_s, times.runs) == (25.0, 15.0, 1)


def test_a_search_is_over_when_its_last_training_is() -> None:
    times = searched().times
    assert times.runs == 1
    assert times.total_s is not None
    assert times.total_s > 0
    assert times.began_s is None


def test_a_run_that_has_nothing_to_do_changes_no_time() -> None:
    state = searched()
    before = (state.times.ended_s, state.times.total_s, state.times.runs)
    handle(state, DriverStarted("1"), 1e6)
    handle(state, RunRequested(4, 2), 1e6 + 1)
    assert state.run is None
    assert (state.times.ended_s, state.times.total_s, state.times.runs) == before


def test_runs_add_up_and_one_whose_driver_died_lasted_to_its_last_record() -> None:
    state = new_state()
    began: list[AnyEvent] = [DriverStarted("1"), RunRequested(4, 1)]
    for number, event in enumerate(began):
        handle(state, event, 100.0 + number)
    assert state.times.elapsed_s == 0.0
    state.times.seen_s, state.next_lease = 131.0, 1
    handle(state, DriverStarted("1"), 5_000.0)
    assert (state.times.ended_s, state.times.total_s, state.times.runs) == (131.0, 30.0, 1)


def test_a_replay_and_a_snapshot_lead_to_the_same_times() -> None:
    recorded = record(new_state(), 4, workers=2)
    again = replayed(new_state(), recorded.lines)
    assert again.times == restored(recorded.state, new_state()).times == recorded.state.times


def test_the_times_before_an_old_snapshot_are_unknown_not_zero() -> None:
    data = snapshot.encode(searched(), 1)
    begin = data.index(b',"times":')
    old = snapshot.decode(data[:begin] + b"}")
    assert old is not None
    old.times.begin(1.0, done=0)
    old.times.end(2.0, done=1)
    assert (old.times.ended_s, old.times.total_s) == (2.0, None)
