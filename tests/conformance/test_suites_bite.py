"""A suite is worth what it finds: each fault is found, and told in words that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asyncsearch.schedulers import FIFO, SHA, Hyperband, Scheduler
from asyncsearch.schedulers.base_scheduler import RungForecast
from asyncsearch.searchers import OptunaSearch, RandomSearch
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.testing import SchedulerConformance, SearcherConformance
from asyncsearch.testing.checked_methods import CheckedScheduler, CheckedSearcher
from asyncsearch.testing.recording import SPACE
from tests.conformance import broken
from tests.conformance.broken import Around, Outer, Proposing

SCHEDULERS = [
    (Around(broken.ChangesWhenAsked), r"next_promotion\(\) changed the state, although it is a question"),
    (Around(broken.ForgetsAtRestore), "the copy's snapshot is"),
    (Around(broken.KeepsAsideWhatItDecidesBy), "after a restore"),
    (Around(broken.IsNotJSON), "JSON changes the snapshot"),
    (Around(broken.ThrowsDice), "the second time"),
    (Around(broken.PromotesTooFar), "lies beyond max_resource=9"),
    (Around(broken.PromotesDown), "is not above 1"),
    (Around(broken.PromotesWithoutAWord), "the reason of the promotion"),
    (Around(broken.PromotesWhomItDenied), "may_promote had denied it"),
    (Around(broken.ForgetsItsFirst), "and promotion_of it None"),
    (Around(broken.StopsWithoutAWord), r"the reason of judge\(2, 1\)"),
    (Around(broken.TakesNaNForGood), "its last value is None, which counts as the worst"),
    (Around(broken.BeginsNoMore), "5 trials of 14 began"),
    (Around(broken.LooksThroughAll), "keep what you need in order"),
    (Around(broken.SharesBetweenStudies), "a fact of one study reached the scheduler"),
    (Around(Outer, pauses=False), "pauses is False"),
    (Around(Outer, lines=[RungForecast(0, 9, 3)]), "3 trials begin"),
    (Around(Outer, lines=[RungForecast(0, 3, 1), RungForecast(1, 9, 1)]), "the line before ends at 3"),
]
SEARCHERS = [
    (broken.LeavesTheSpace, "proposal 0 lies outside the space"),
    (broken.ForgetsConstraints, "proposal 0 breaks a constraint"),
    (broken.ForgetsInitialPoints, "not the point"),
    (broken.Counts, "depends on what was asked before"),
    (broken.GivesItselfAway, "give out copies"),
    (broken.EndsEarly, "there is a proposal 5"),
    (broken.LearnsAndForgets, "after a re"),
]


def faults(suite: SchedulerConformance | SearcherConformance) -> Iterator[str]:
    for name in dir(suite):
        if name.startswith("test_"):
            try:
                getattr(suite, name)()
            except Exception as error:
                yield str(error)


def require_named(suite: SchedulerConformance | SearcherConformance, words: str) -> None:
    """Require that a law of a suite is broken in these words; the laws behind it are not tried."""
    found = []
    for fault in faults(suite):
        if re.search(words, fault):
            return
        found.append(fault)
    raise AssertionError(f"none of {len(found)} faults says {words!r}: {found}")


@pytest.mark.parametrize(("scheduler", "words"), SCHEDULERS)
def test_a_scheduler_with_a_fault_is_refused_in_words_that_name_it(scheduler: Scheduler, words: str) -> None:
    class Suite(SchedulerConformance):
        orders = 8

        def make(self) -> Scheduler:
            return scheduler

    require_named(Suite(), words)


@pytest.mark.parametrize(
    "scheduler",
    [
        SHA(max_resource=9, bracket_size=3),
        SHA(max_resource=9, bracket_size=6),
        SHA(max_resource=4, reduction_factor=4, bracket_size=7),
        Hyperband(max_resource=9, brackets=(3, 1), variant="synchronous"),
    ],
    ids=str,
)
def test_evenly_spaced_slow_decisions_do_not_count_as_growth(scheduler: Scheduler) -> None:
    class Suite(SchedulerConformance):
        def make(self) -> Scheduler:
            return scheduler

    Suite().test_a_decision_does_not_grow_with_the_number_of_trials()


@pytest.mark.parametrize(("half", "words"), SEARCHERS)
def test_a_searcher_with_a_fault_is_refused_in_words_that_name_it(half: type[broken.Proposer], words: str) -> None:
    class Suite(SearcherConformance):
        orders = 3

        def make(self) -> Searcher:
            return Proposing(half)

    require_named(Suite(), words)


@pytest.mark.parametrize(
    ("check", "make"),
    [
        (CheckedScheduler, lambda: SHA(max_resource=9, bracket_size=3).begin()),
        (CheckedScheduler, lambda: FIFO().begin()),
        (CheckedSearcher, lambda: RandomSearch().begin(SPACE, 0)),
        (CheckedSearcher, lambda: OptunaSearch("tpe").begin(SPACE, 0)),
    ],
    ids=["sha", "fifo", "random", "tpe"],
)
def test_what_checks_a_method_answers_nothing_itself(check: Any, make: Callable[[], Any]) -> None:
    checked, plain = check(make), make()
    passed_on = {name for kind in check.__mro__[:2] for name in vars(kind)} | vars(checked).keys()
    asked = {name for name in dir(plain) if not name.startswith("_") and name in dir(check.__mro__[2])}
    assert asked - passed_on == {"ended"}, "which is completed, stopped or failed"
    for name in asked:
        if not callable(getattr(plain, name)):
            assert getattr(checked, name) == getattr(plain, name), name


def test_one_without_a_fault_passes_with_no_test_runner() -> None:
    class Whole(SchedulerConformance):
        orders = 2

        def make(self) -> Scheduler:
            return Around(Outer)

    assert "test_the_same_seed_gives_the_same_search" in Whole().run()
