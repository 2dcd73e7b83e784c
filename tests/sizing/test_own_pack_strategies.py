"""A ``pack_opt`` of the user's own: what it is asked, and what it may answer."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.sizing.pack_strategies import PackCandidate, PackChoice, choose, strategy_name
from asyncsearch.sizing.packing import Packing, joiners, mates
from tests.sizing.test_packing import candidate


def last_ones(choice: PackChoice) -> list[PackCandidate]:
    return list(choice.others[-choice.count :])


class Greedy:
    """Takes more than it may."""

    def __call__(self, choice: PackChoice) -> list[PackCandidate]:
        return list(choice.others)


_CALLS = itertools.count()
WRONG = [
    (lambda choice: None, "returned None: it must return a list of some of choice.others"),
    (lambda choice: iter(choice.others[:1]), "it must return a list of some of choice.others"),
    (lambda choice: [choice.first], "returned trial-0, which is not one of choice.others"),
    (lambda choice: [choice.others[0].params], r"returned .*\{'lr': 0.1\}.*, which is not one of choice.others"),
    (lambda choice: [choice.others[0]] * 2, "returned trial-1, which .* was returned twice"),
    (Greedy(), "pack_opt=Greedy returned 3 candidates, and choice.count is 2"),
    (lambda choice: [choice.others[next(_CALLS) % 2]], r"gave two answers to one question: .* random.Random\("),
    (lambda choice: choice.others[0].params.update(lr=5.0), "raised AttributeError: 'mappingproxy' object has no"),
    (lambda choice: [choice.first.params["width"]], "raised KeyError: 'width'. Mend it, then resume the study"),
]


def asked(first: PackCandidate, *others: PackCandidate) -> PackChoice:
    return PackChoice(first, others, 2)


@pytest.mark.parametrize(("strategy", "words"), WRONG)
def test_an_answer_that_breaks_a_rule_is_refused_with_value_and_rule(strategy: Any, words: str) -> None:
    others = [candidate(number, lr=number / 10) for number in range(1, 4)]
    with pytest.raises(UsageError, match=words):
        choose(strategy, asked(candidate(0, lr=0.0), *others))


def test_it_is_asked_about_those_alone_that_may_be_packed() -> None:
    first = candidate(0, 0, 4, width=8)
    others = [candidate(1, 0, 4, width=8), candidate(2, 0, 9, width=8), candidate(3, 0, 4, width=9)]
    found = mates(Packing(4, last_ones), asked(first, *others))
    assert [batch.stages[0].trials[0] for batch in found] == [1, 3]
    found = joiners(Packing(4, last_ones), asked(first, *others))
    assert [batch.stages[0].trials[0] for batch in found] == [1, 2]


def test_a_strategy_that_chooses_nobody_lets_the_first_one_train_alone() -> None:
    assert mates(Packing(4, lambda choice: []), asked(candidate(0), candidate(1))) == []


def test_it_is_named_after_its_function_or_its_class() -> None:
    assert [strategy_name(one) for one in ("plan", last_ones, Greedy())] == ["plan", "last_ones", "Greedy"]


@pytest.mark.parametrize("strategy", ["best", None, 3, Greedy])
def test_what_is_neither_a_known_name_nor_a_function_is_refused(strategy: Any) -> None:
    with pytest.raises(UsageError, match=r"is not known: write one of 'plan', .* or a function of a PackChoice"):
        Packing(2, strategy)
