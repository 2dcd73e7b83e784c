"""Trials that another library's program answers: its answers are facts, and it says when there are enough trials."""

from __future__ import annotations

import msgspec

from asyncsearch.actions import CreateTrial, EndRun
from asyncsearch.engine.invariants import check
from asyncsearch.engine.lanes import lane_for
from asyncsearch.events import Consulted, EnoughTrials, Outcome, TrainingEnded
from asyncsearch.journal.format import Record, encode_record
from asyncsearch.journal.head import unseal
from asyncsearch.schedulers import FIFO
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import make_state

FACTS = {"suggested": "lr", "value": 0.5, "distribution": {"FloatDistribution": [0.0, 1.0, False, None]}}


def test_after_enough_trials_none_begins_and_those_that_train_end() -> None:
    player = Player(make_state(FIFO()))
    player.begin(10, 2)
    lease = lease_of(player.last)
    assert player.tell(EnoughTrials("the study was stopped")) == []
    first, second = (attempt.lease for attempt in player.state.attempts.values())
    assert lease in (first, second)
    player.report(first, 1)
    player.report(second, 1)
    assert not only(player.tell(TrainingEnded(first, Outcome.RETURNED, 1)), CreateTrial)
    (end,) = only(player.tell(TrainingEnded(second, Outcome.RETURNED, 1)), EndRun)
    assert end.is_complete
    assert len(player.state.trials) == 2
    check(player.state)


def test_an_answer_is_a_fact_that_decides_nothing_and_is_read_as_written() -> None:
    player = Player(make_state(FIFO()))
    player.begin(1, 1)
    event = Consulted(lease_of(player.last), FACTS)
    assert player.tell(event) == []
    line = unseal(encode_record(1, 0.0, event, ()))
    assert line is not None
    assert msgspec.json.decode(line, type=Record).event == event


def test_parameters_of_an_answer_are_read_and_train_nothing() -> None:
    player = Player(make_state(FIFO()))
    player.begin(1, 1)
    lease = lease_of(player.last)
    proposed = player.state.trials[0].params
    facts = {"several": [{"params": {"rate": 0.5}}, {"reported": 1.0}, {"params": {"kind": "a"}}]}
    assert player.tell(Consulted(lease, facts)) == []
    (trial,) = player.state.trials
    assert trial.params == {**proposed, "rate": 0.5, "kind": "a"}
    assert lane_for(player.state, player.state.attempts[lease.number].batch).stages[0].params == proposed
    assert player.tell(Consulted(lease, {"params": {"rate": 0.25}})) == []
    assert trial.params == {**proposed, "rate": 0.25, "kind": "a"}
    check(player.state)


def test_a_run_whose_library_judges_failures_goes_on_after_all_have_failed() -> None:
    player = Player(make_state(FIFO(), ends_on_failures=False))
    player.begin(6, 1)
    error = 'File "program.py", line 7\nValueError: no'
    for _ in range(5):
        actions = player.tell(
            TrainingEnded(lease_of(player.last), Outcome.FAILED, 0, error=error, error_kind="ValueError")
        )
        assert not only(actions, EndRun)
    (end,) = only(
        player.tell(TrainingEnded(lease_of(player.last), Outcome.FAILED, 0, error=error, error_kind="ValueError")),
        EndRun,
    )
    assert end.is_complete
    assert not end.error_kind
    assert player.states() == [TrialState.FAILED] * 6
