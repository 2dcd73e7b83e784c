"""Params of finished trials are kept packed, and nobody can tell."""

from __future__ import annotations

import copy
import sys
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.plan.known_reports import ReportRow, row
from asyncsearch.schedulers import ASHA, FIFO, PBT
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space, uniform
from asyncsearch.testing.recording import restored, restored_from
from asyncsearch.trial import CompactParams, Params, Trial
from asyncsearch.values.json_values import INT_MAX, INT_MIN, plain
from tests.engine.tools import Recorded, make_state, record, replayed

CONSTANTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(INT_MIN, INT_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    CONSTANTS, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=3), inner)), max_leaves=6
)
SCHEDULERS = [
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(PBT(max_resource=9, perturbation_interval=3), id="pbt"),
]


def searched(scheduler: Scheduler) -> Recorded:
    return record(make_state(scheduler), 12, 3)


class Own(Searcher):
    """A searcher whose proposals nobody looks at."""

    def begin(self, space: Space, seed: int) -> SearcherState:
        return OwnState()

    def describe(self) -> str:
        return "Own()"


class OwnState(SearcherState):
    def propose(self, number: int) -> Params:
        return {"x": 2**70}


def exact(value: Any) -> str:
    """Tell 1 from 1.0, 0.0 from -0.0, and one order from another."""
    return repr(value)


@given(st.dictionaries(st.text(max_size=3), VALUES))
def test_packed_params_are_the_same_to_the_bit_and_in_the_same_order(params: Params) -> None:
    trial = Trial(TrialId(0), plain(params), NodeKey("a"))
    written = msgspec.json.encode(trial)
    trial.pack()
    assert exact(trial.params) == exact(plain(params))
    assert msgspec.json.encode(trial, enc_hook=snapshot.to_json) == written
    trial.pack()
    assert exact(trial.params) == exact(plain(params))


def test_who_changes_the_params_of_a_packed_trial_changes_his_own_copy() -> None:
    trial = Trial(TrialId(0), {"x": [1]}, NodeKey("a"))
    trial.pack()
    trial.params["x"].append(2)
    assert trial.params == {"x": [1]}


def test_a_trial_looks_the_same_whether_its_params_are_packed_or_not() -> None:
    trial = Trial(TrialId(0), {"x": [1]}, NodeKey("a"))
    shown = repr(trial)
    assert shown == "<trial-0: no value yet, waiting; x=[1]>"
    trial.pack()
    assert repr(trial) == shown


def test_params_that_cannot_be_packed_stay_and_their_study_is_readable() -> None:
    def fresh() -> StudyState:
        return make_state(FIFO(max_resource=2), Own())

    searched_for = record(fresh(), 1, 1)
    read = replayed(fresh(), searched_for.lines)
    for state in (searched_for.state, read, restored(read, fresh())):
        (trial,) = state.trials
        assert trial.state.is_finished
        assert trial.params == {"x": 2**70}


def test_packed_params_take_little_more_than_their_text() -> None:
    params = {"lr": {"sequence": "values", "values": [0.125, 0.25], "milestones": [3]}}
    trials = [Trial(TrialId(0), params, NodeKey("a")) for _ in range(1_000)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for trial in trials:
        trial.pack()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / len(trials) < len(msgspec.msgpack.encode(params)) + 100


def unpacked(state: StudyState) -> list[Trial]:
    trials = copy.deepcopy([msgspec.structs.asdict(trial) | {"kept": trial.params} for trial in state.trials])
    return [Trial(**trial) for trial in trials]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_snapshot_is_the_same_whether_params_are_packed_or_not(scheduler: Scheduler) -> None:
    state = searched(scheduler).state
    written = snapshot.encode(state, 1)
    state.trials = unpacked(state)
    assert not any(isinstance(trial.kept, CompactParams) for trial in state.trials)
    assert snapshot.encode(state, 1) == written


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_only_finished_trials_are_packed_in_search_replay_and_restore(
    scheduler: Scheduler,
) -> None:
    recorded, finished = searched(scheduler), [False]
    for cut in (len(recorded.lines) // 2, len(recorded.lines)):
        state = replayed(make_state(scheduler), recorded.lines[:cut])
        restored = restored_from(snapshot.encode(state, 1), make_state(scheduler))
        finished = [trial.state.is_finished for trial in state.trials]
        for trials in (state.trials, restored.trials):
            assert [isinstance(trial.kept, CompactParams) for trial in trials] == finished
        assert restored.trials == state.trials
    assert any(finished)


def test_what_is_known_of_a_finished_trial_has_no_room_to_spare() -> None:
    scheduler = PBT(max_resource=12, perturbation_interval=3)
    state = record(make_state(scheduler, space=Space({"lr": uniform(0.0, 1.0)})), 8, 3).state
    rows = [found for trial in state.trials if isinstance(found := state.plan.reports.nodes.get(trial.node), ReportRow)]
    assert len(rows) == 8
    for found in rows:
        assert sys.getsizeof(found) == sys.getsizeof(row(found.first, found))
