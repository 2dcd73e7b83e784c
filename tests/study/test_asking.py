"""Trials that are evaluated elsewhere are asked for and told of; the study is one like any other."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Reached, Study, choice, uniform
from asyncsearch.engine import snapshot
from asyncsearch.engine.invariants import check
from asyncsearch.errors import StoreError, StoreLockedError, UsageError
from asyncsearch.journal.opening import replay
from asyncsearch.journal.writer import Journal
from asyncsearch.study.asking.asked_trial import AskedTrial, NextStep
from asyncsearch.study.asking.asking_study import evaluated_elsewhere
from asyncsearch.study.read_study import ELSEWHERE
from asyncsearch.trial import TrialState
from tests.shares import seeds
from tests.study.test_order_of_asha import TRIALS, algorithm_2, starts_of


def study_in(place: Path, **options: Any) -> Study:
    settings: dict[str, Any] = {"space": {"x": uniform(0, 1)}, "scheduler": ASHA(max_resource=27)} | options
    return Study.to_ask(metric="loss", mode="min", store=place / "st", **settings)


def evaluate(trial: AskedTrial) -> NextStep:
    step = trial.tell(trial.params["x"])
    while step is NextStep.GO_ON:
        step = trial.tell(trial.params["x"])
    return step


def test_a_closed_study_is_shown_as_one_that_goes_on(tmp_path: Path) -> None:
    assert evaluated_elsewhere.__qualname__ == ELSEWHERE
    with study_in(tmp_path) as study:
        study.ask()
    assert "its driver ended" not in study.summary()
    assert "1 running" in study.summary()


def test_a_study_that_is_asked_and_told_speaks_of_no_worker(tmp_path: Path) -> None:
    with study_in(tmp_path) as study:
        trial = study.ask()
        assert trial is not None
        evaluate(trial)
        study.ask()
        shown = [study.summary(), study.explain(0), Study.open(tmp_path / "st").summary()]
    assert not any("worker" in text for text in shown)
    assert not study.time_spent().total.total


def test_a_lone_asker_is_given_trials_as_the_paper_does(tmp_path: Path) -> None:
    with study_in(tmp_path) as study:
        while trial := study.ask(num_trials=TRIALS):
            evaluate(trial)
        losses = [trial.params["x"] for trial in study.trials]
    assert starts_of(study) == algorithm_2(losses)


def test_a_failure_of_undecodable_bytes_is_kept_and_ends_nothing(tmp_path: Path) -> None:
    with study_in(tmp_path) as study:
        trial = study.ask()
        assert trial is not None
        trial.fail("not text \udcff")
        assert study.ask() is not None
    assert r"not text \udcff" in study.trials[0].reason


def test_an_asked_trial_has_the_objects_of_choices_themselves(tmp_path: Path) -> None:
    with study_in(tmp_path, space={"kind": choice(NextStep.PAUSE, NextStep.STOP)}) as study:
        trial = study.ask()
        assert trial is not None
        assert isinstance(trial.params["kind"], NextStep)
    with Study.resume(tmp_path / "st") as study:
        assert study.asked()[0].params == trial.params


SCRIPT = """\
import os, signal, sys
from pathlib import Path
from tests.study.test_asking import study_in

study = study_in(Path(sys.argv[1]))
for _ in range(3):
    trial = study.ask()
study.tell(1, 0.25)
print([one.id for one in study.asked()], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_asked_for_can_be_told_after_a_kill_by_the_same_line(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "[0, 2]\n"), done.stderr
    with study_in(tmp_path, resume=True) as study:
        asked: dict[int, AskedTrial] = {trial.id: trial for trial in study.asked()}
        assert sorted(asked) == [0, 2]
        assert asked[2].params == study.trials[2].params
        assert study.tell(2, 0.5, resource=1) is NextStep.PAUSE
        assert study.tell(0, 0.75) is NextStep.PAUSE
        best = study.ask()
        assert best is not None
        assert (best.id, best.begins_at, best.target) == (1, 1, 3)


def test_metrics_are_told_by_name_as_they_are_reported(tmp_path: Path) -> None:
    with study_in(tmp_path, scheduler=FIFO(max_resource=3)) as study:
        trial = study.ask()
        assert trial is not None
        trial.tell(loss=0.5, cost=2, resource=1)
        trial.tell(0.25, cost=3, resource=2)
        study.tell(0, {"loss": 0.125}, cost=4)
        with pytest.raises(UsageError, match=r"without a result: write tell\(0.93\), or tell\(loss=0.93\)"):
            study.tell(study.ask() or 1)
    told = [{"loss": 0.5, "cost": 2}, {"loss": 0.25, "cost": 3}, {"loss": 0.125, "cost": 4}]
    assert [metrics for _, metrics in study.history(0)] == told


def test_units_that_were_told_before_a_study_is_opened_again_count_once(tmp_path: Path) -> None:
    scheduler = ASHA(max_resource=9, variant="stopping")
    with study_in(tmp_path, scheduler=scheduler) as study:
        study.ask()
    for resource in (2, 5, 9):
        with study_in(tmp_path, scheduler=scheduler, resume=True) as study:
            (trial,) = study.asked()
            trial.tell(1 / resource, resource=resource)
    assert [(one.state, one.trained) for one in study.trials] == [(TrialState.COMPLETED, 9)]


def test_a_trial_that_is_not_worth_finishing_is_told_so(tmp_path: Path) -> None:
    with study_in(tmp_path, scheduler=ASHA(max_resource=9, variant="stopping")) as study:
        steps = []
        for value in (0.1, 0.2, 0.3, 0.4):
            trial = study.ask()
            assert trial is not None
            steps.append(trial.tell(value, resource=1))
        assert steps[0] is NextStep.GO_ON
        assert steps[-1] is NextStep.STOP
        assert study.trials[3].state is TrialState.STOPPED
        assert 3 not in [trial.id for trial in study.asked()]


def test_a_stop_rule_ends_asking_once_all_have_been_told(tmp_path: Path) -> None:
    with study_in(tmp_path, scheduler=FIFO(), stop_when=Reached(0.5)) as study:
        first, second = study.ask(), study.ask()
        assert first is not None
        assert second is not None
        first.tell(0.4)
        assert study.ask() is None
        assert second.tell(0.6) is NextStep.COMPLETE
        assert study.ask() is None


def test_a_failure_is_asked_for_again_as_often_as_it_may_fail(tmp_path: Path) -> None:
    with study_in(tmp_path, max_failures=1) as study:
        trial = study.ask()
        assert trial is not None
        assert trial.fail("the probe broke") is NextStep.PAUSE
        again = study.ask()
        assert again is not None
        assert again.id == trial.id
        assert again.fail("it broke again") is NextStep.STOP
        assert study.trials[0].state is TrialState.FAILED
        assert "it broke again" in study.explain(0)


@pytest.mark.parametrize("seed", seeds(8))
def test_whatever_is_asked_and_told_the_journal_leads_to_the_same_state(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    options: dict[str, Any] = {"scheduler": [ASHA(max_resource=9), FIFO(max_resource=3), FIFO()][seed % 3]}
    study = study_in(tmp_path, max_failures=1, **options)
    for _ in range(60):
        asked = study.asked()
        if len(asked) < 4 and chance.random() < 0.5:
            trial = study.ask(num_trials=12)
            assert trial is None or trial.id not in [one.id for one in asked]
        elif asked and chance.random() < 0.9:
            one = chance.choice(asked)
            if chance.random() < 0.1:
                one.fail("a chance")
            else:
                one.tell({"loss": chance.choice([chance.random(), math.nan]), "cost": 1})
        else:
            before = [one.id for one in asked]
            study.close()
            study = study_in(tmp_path, max_failures=1, resume=True, **options)
            assert [one.id for one in study.asked()] == before
        session = study._session
        assert session is not None
        check(session.state)
        again = study._described("ask").fresh_state()
        replay(study.store, again)
        assert snapshot.encode(again, 0) == snapshot.encode(session.state, 0)
    study.close()


def test_only_one_process_has_it_open_and_nothing_trains_it(tmp_path: Path) -> None:
    with study_in(tmp_path) as study:
        study.ask()
        with pytest.raises(StoreLockedError):
            study_in(tmp_path, resume=True).ask()
    for wrong in (study, Study.resume(tmp_path / "st")):
        with pytest.raises(UsageError, match=r"are evaluated elsewhere: write trial = study.ask\(\)"):
            wrong.run(num_trials=3)
    with Study.resume(tmp_path / "st") as resumed:
        assert [trial.id for trial in resumed.asked()] == [0]
    trained = Study(abs, space={"x": choice(1)}, metric="y", mode="max", store=tmp_path / "own")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"has a trainable, and study.run\(\) trains"):
        trained.ask()


def test_a_closed_trial_writes_nothing_and_is_told_of_by_its_number(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    trial = study.ask()
    assert trial is not None
    study.close()
    for call in (lambda: trial.tell(0.5), lambda: trial.fail("late"), lambda: trial.note("a", "b")):
        with pytest.raises(UsageError, match=r"was closed since this trial was asked for: write study.tell\("):
            call()
    assert study.tell(0, 0.25) is NextStep.PAUSE
    study.close()
    with study_in(tmp_path, resume=True) as again:
        assert (again.trials[0].value, again.asked()) == (0.25, [])


def test_a_result_that_was_not_written_can_be_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with study_in(tmp_path) as study:
        study.ask()

        def is_full(_journal: Journal, _lines: bytes) -> None:
            raise StoreError("no space left")

        with monkeypatch.context() as full:
            full.setattr(Journal, "append", is_full)
            with pytest.raises(StoreError, match="no space left"):
                study.tell(0, 0.5)
        assert study.tell(0, 0.25) is NextStep.PAUSE
    with study_in(tmp_path, resume=True) as again:
        assert [trial.value for trial in again.trials] == [0.25]


@pytest.mark.parametrize("argument", ["stop_when", "stop_trial_when"])
def test_what_a_rule_raises_is_told_to_who_asks_next(argument: str, tmp_path: Path) -> None:
    def wrong(_progress: Any) -> bool:
        raise KeyError("los")

    rules: dict[str, Any] = {argument: wrong}
    with study_in(tmp_path, **rules) as study:
        trial = study.ask()
        assert trial is not None
        trial.tell(0.5)
        for _ in range(2):
            with pytest.raises(UsageError, match=rf"{argument}=.*wrong raised KeyError: 'los'"):
                study.ask()
        assert study.trials[0].value == 0.5


@pytest.mark.parametrize(
    ("number", "value", "resource", "words"),
    [
        pytest.param(9, 1.0, None, "trial-9 is not being evaluated (there is no such trial)", id="unknown"),
        pytest.param(1, 1.0, None, "(it is paused: paused at 1); those that are: trial-0", id="paused"),
        pytest.param(0, "good", None, "loss='good' is not a number", id="text"),
        pytest.param(0, {"cost": 1}, None, "lacks the study's metric: write {'loss': ..., ...}", id="metric"),
        pytest.param(0, 1.0, 5, "beyond 1, up to which trial-0 is to be evaluated now", id="beyond"),
        pytest.param(0, 1.0, 0, "resource=0 must be a positive integer", id="zero"),
    ],
)
def test_a_result_that_does_not_fit_is_answered(
    number: int, value: Any, resource: int | None, words: str, tmp_path: Path
) -> None:
    with study_in(tmp_path) as study:
        study.ask()
        second = study.ask()
        assert second is not None
        second.tell(0.5)
        with pytest.raises(UsageError) as refused:
            study.tell(number, value, resource=resource)
        assert words in str(refused.value)
        assert study.trials[0].resource == 0
