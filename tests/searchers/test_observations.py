"""What learning searchers know of trials, and the resource at which they compare them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.searchers.observations import Observations, Observed, TrialPosition

SCORES = st.one_of(st.none(), st.floats(-5, 5))
TRIALS = st.lists(
    st.tuples(
        st.lists(SCORES, max_size=5),  # at 1, 2, 3, ...
        st.sampled_from(TrialPosition),
    ),
    max_size=8,
)


def observed(trials: list[tuple[list[float | None], TrialPosition]], enough: int) -> Observations:
    found = Observations(enough)
    for number, (scores, position) in enumerate(trials):
        found.add({"x": number})
        for resource, score in enumerate(scores, 1):
            found.report(number, resource, score)
        if position in (TrialPosition.COMPLETED, TrialPosition.STOPPED, TrialPosition.FAILED) and scores:
            found.end(number, position, len(scores), scores[-1])
        elif position is TrialPosition.PAUSED:
            found.trials[number].position = position
    return found


def level_by_force(trials: list[tuple[list[float | None], TrialPosition]], enough: int) -> int:
    def has_result(scores: list[float | None], position: TrialPosition, resource: int) -> bool:
        if position is TrialPosition.FAILED:
            return False
        if resource <= len(scores):
            return scores[resource - 1] is not None
        return position is TrialPosition.COMPLETED and bool(scores) and scores[-1] is not None

    kept = [scores for scores, position in trials if position is not TrialPosition.FAILED]
    reported = {r for scores in kept for r, score in enumerate(scores, 1) if score is not None}
    fitting = [r for r in reported if sum(has_result(*trial, r) for trial in trials) >= enough]
    return max(fitting, default=0)


@given(TRIALS, st.integers(1, 4))
def test_level_is_the_highest_resource_with_enough_results(
    trials: list[tuple[list[float | None], TrialPosition]], enough: int
) -> None:
    assert observed(trials, enough).level == level_by_force(trials, enough)


@given(TRIALS, st.integers(1, 4))
def test_restored_observations_are_those_of_the_snapshot(
    trials: list[tuple[list[float | None], TrialPosition]], enough: int
) -> None:
    in_order = observed(trials, enough)
    restored = Observations(enough)
    restored.restore(json.loads(json.dumps(in_order.snapshot())))
    assert restored.snapshot() == in_order.snapshot()
    numbers = range(len(trials))
    assert [restored.result(n) for n in numbers] == [in_order.result(n) for n in numbers]
    assert restored.level == in_order.level


def test_every_rise_of_the_level_is_said_once() -> None:
    found = Observations(2)
    for number in range(3):
        found.add({"x": number})
    assert not found.report(0, 1, 0.5)
    assert found.report(1, 1, 0.4)
    assert not found.report(2, 1, 0.3)
    assert not found.report(0, 2, 0.5)
    assert not found.report(1, 2, None)
    assert found.report(2, 2, 0.1)
    assert [found.result(number) for number in range(3)] == [0.5, None, 0.1]


def test_trial_that_ended_by_itself_keeps_its_result_at_higher_levels() -> None:
    found = Observations(2)
    for number in range(2):
        found.add({"x": number})
    found.report(0, 1, 0.9)
    found.report(0, 2, 0.8)
    found.report(1, 1, 0.7)
    assert found.level == 1
    assert found.end(1, TrialPosition.COMPLETED, 1, 0.7)
    assert (found.level, found.result(0), found.result(1)) == (2, 0.8, 0.7)


def test_stopped_and_failed_trials_have_no_result_where_they_did_not_come() -> None:
    found = Observations(1)
    for number in range(3):
        found.add({"x": number})
        found.report(number, 1, 0.5)
    found.end(0, TrialPosition.STOPPED, 1, 0.5)
    found.end(1, TrialPosition.FAILED, 1, None)
    assert [found.result(number) for number in range(3)] == [0.5, None, 0.5]
    found.report(2, 2, 0.4)
    assert [found.result(number) for number in range(3)] == [None, None, 0.4]


def test_what_failed_raises_no_level_and_lowers_the_one_that_it_raised() -> None:
    found = Observations(2)
    for number in range(4):
        found.add({"x": number})
        found.report(number, 1, 0.1 * number)
    for number in (0, 1):
        found.report(number, 2, 0.5)
    assert found.level == 2
    assert found.end(0, TrialPosition.FAILED, 2, None), "a fall of the level is said"
    assert (found.level, found.result(1), found.result(2)) == (1, 0.1, 0.2)
    assert not found.end(3, TrialPosition.FAILED, 1, None)
    assert found.report(2, 2, 0.4)
    assert [found.result(number) for number in range(4)] == [None, 0.5, 0.4, None]


def test_a_warm_start_leaves_failed_trials_out_wherever_they_failed() -> None:
    found = Observations(1)
    for resource in (0, 3):
        found.add_observed(Observed({"x": 1}, {}, {3: 0.5}, TrialPosition.FAILED, resource, None))
    assert found.level == 0


def test_the_level_lies_where_reports_are_and_not_only_lower_ends() -> None:
    found = Observations(1)
    for number in range(2):
        found.add({"x": number})
        found.report(number, 1, 0.5)
    found.end(0, TrialPosition.COMPLETED, 1, 0.5)
    for resource in (2, 3):
        found.report(1, resource, 0.4)
    assert found.level == 3
    assert found.end(1, TrialPosition.FAILED, 3, None)
    assert found.level == 1
