"""Stop rules answer by their definitions, and a wrong one is answered by the one to write."""

from __future__ import annotations

import math
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import UsageError
from asyncsearch.stop_rules import (
    Elapsed,
    Plateau,
    Reached,
    RunningBest,
    StopProgress,
    Trained,
    study_rule,
    trial_rule,
)


def progress_of(values: list[float], mode: str = "min", **facts: Any) -> StopProgress:
    curve = RunningBest()
    for value in values:
        curve.report(value if math.isfinite(value) else None, mode)
        curve.trials += 1
    best = curve.improvements[-1].value if curve.improvements else None
    known = {"units": len(values), "seconds": float(len(values)), "trials": curve.trials} | facts
    return StopProgress(
        metric="loss",
        mode=mode,
        value=curve.value,
        best=best,
        reports=curve.reports,
        improvements=curve.improvements,
        **known,
    )


def has_plateau(values: list[float], patience: int, min_delta: float) -> bool:
    """The definition, word for word: the best of all against the best of all but the last ones."""
    finite = [value for value in values[:-patience] if math.isfinite(value)]
    if len(values) < patience or not finite:
        return False
    return min(finite) - min(value for value in values if math.isfinite(value)) <= min_delta


@settings(max_examples=300, deadline=None)
@given(
    values=st.lists(st.sampled_from([*range(6), math.nan]), max_size=12),
    patience=st.integers(1, 5),
    min_delta=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_a_plateau_is_what_its_definition_says(values: list[float], patience: int, min_delta: float) -> None:
    for mode, sign in (("min", 1), ("max", -1)):
        progress = progress_of([sign * value for value in values], mode)
        for rule in (Plateau(reports=patience, min_delta=min_delta), Plateau(trials=patience, min_delta=min_delta)):
            assert bool(rule.reason(progress)) == has_plateau(values, patience, min_delta)


@settings(max_examples=100, deadline=None)
@given(truth=st.lists(st.booleans(), min_size=3, max_size=3))
def test_rules_join_as_the_truths_do(truth: list[bool]) -> None:
    a, b, c = (Trained(1 if one else 9) for one in truth)
    progress = progress_of([1.0])
    assert bool((a | b & c).reason(progress)) == (truth[0] or (truth[1] and truth[2]))
    assert bool(((a | b) & c).reason(progress)) == ((truth[0] or truth[1]) and truth[2])


def test_rules_are_written_as_they_are_shown_and_travel() -> None:
    rule = (Reached(0.5) | Plateau(trials=20, min_delta=0.1)) & Trained(9) & Elapsed(timedelta(minutes=1))
    assert rule.describe() == "(Reached(0.5) | Plateau(trials=20, min_delta=0.1)) & Trained(9) & Elapsed(60)"
    assert pickle.loads(pickle.dumps(rule)) == rule


def test_a_function_says_yes_or_why_and_is_asked_from_the_first_value_on() -> None:
    rule = study_rule(lambda progress: f"{progress.best} will do" if progress.best < 2 else False)
    assert [rule.reason(progress_of(values)) for values in ([], [math.nan], [3.0], [3.0, 1.0])] == [
        "",
        "",
        "",
        "1.0 will do",
    ]
    with pytest.raises(UsageError, match=r"returned 3\.0 where a stop rule returns True, False or a reason"):
        study_rule(lambda progress: progress.best).reason(progress_of([3.0]))


def test_time_is_due_where_it_alone_may_let_a_rule_hold() -> None:
    progress = progress_of([1.0], seconds=10.0)
    assert (Elapsed(30) | Elapsed(20) & Trained(5)).due_s(progress) == 20
    assert (Elapsed(5) | Reached(0.1)).due_s(progress) is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: study_rule(0.5), "stop_when=0.5 is no stop rule: write Reached", id="number"),
        pytest.param(lambda: study_rule(Plateau), "stop_when=Plateau is a class: write", id="class"),
        pytest.param(Plateau, "needs its patience", id="no patience"),
        pytest.param(lambda: Plateau(trials=3, reports=3), "Plateau(trials=20) & Plateau(reports=100)", id="both"),
        pytest.param(lambda: Plateau(trials=0), "trials=0 must be a positive integer", id="zero"),
        pytest.param(lambda: Reached(math.nan), "value=nan must be a finite number", id="nan"),
        pytest.param(lambda: Elapsed(-1), "seconds=-1 must be a positive, finite number of seconds", id="past"),
        pytest.param(
            lambda: trial_rule(Reached(1) | Plateau(trials=3)), "a trial counts its reports, not trials", id="trials"
        ),
        pytest.param(lambda: bool(Reached(1)), "neither true nor false: join rules by | and &", id="and"),
        pytest.param(lambda: Reached(1) | 3, "3 is no stop rule", id="joined"),
    ],
)
def test_a_wrong_rule_is_answered_by_the_one_to_write(make: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        make()
    assert words in str(refused.value)
