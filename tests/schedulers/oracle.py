"""ASHA's promotion rule by brute force: plain sorting of everything, for every question.

Li et al. 2020, Algorithm 2: from the top rung down, the best of the top ⌊n/η⌋ that was not promoted yet. Facts::

    ("created", trial, params)              it begins
    ("paused", trial, resource, score)      it stands at a rung; score None is worst
    ("promoted", trial, from, to)           it goes on
    ("failed", trial, target)               it counts as worst of the rung that it headed for
    ("stopped", trial, target, score)       likewise, by somebody's wish
    ("completed", trial, resource, score)   it came to its own end, and counts at the rung that it headed for

Others check a whole journal with ``check_promotions(facts, levels, eta)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

Fact = tuple[Any, ...]
Move = tuple[int, int, int]
"""(trial, from, to)"""


class Oracle:
    """All that was said so far, in dictionaries."""

    def __init__(self, levels: Sequence[int], eta: int) -> None:
        self.levels = list(levels)
        self.eta = eta
        self.reached: dict[int, dict[int, float | None]] = {level: {} for level in levels}
        self.promoted: dict[int, set[int]] = {level: set() for level in levels}
        self.ended: set[int] = set()

    def tell(self, fact: Fact) -> None:
        """Take in a fact, without judging it."""
        match fact:
            case ("created", _, _):
                pass
            case ("paused", trial, resource, score):
                self.reached[resource].setdefault(trial, score)
            case ("promoted", trial, start, _):
                self.promoted[start].add(trial)
            case ("failed", trial, target) | ("stopped", trial, target, _):
                self.reached[target].setdefault(trial, None)
                self.ended.add(trial)
            case ("completed", trial, _, score):
                target = next((level for level in self.levels if trial not in self.reached[level]), self.levels[-1])
                self.reached[target].setdefault(trial, score)
                self.ended.add(trial)
            case _:
                raise AssertionError(f"no such fact: {fact}")

    def legal(self) -> list[Move]:
        """Return every promotion that the rule allows now, in the order in which it wants them."""
        moves = []
        for start, to in reversed(list(pairwise(self.levels))):
            moves += [(trial, start, to) for trial in self.best(start) if self.may_go_on(trial, start)]
        return moves

    def best(self, level: int) -> list[int]:
        """Return the top ⌊n/η⌋ of a rung, best first."""
        return self.ranked(level)[: len(self.reached[level]) // self.eta]

    def ranked(self, level: int) -> list[int]:
        """Return all trials of a rung in order: by score, then by id; those without a score last."""
        scores = self.reached[level]
        return sorted(scores, key=lambda trial: (scores[trial] is None, scores[trial] or 0.0, trial))

    def may_go_on(self, trial: int, level: int) -> bool:
        """Return whether the trial is still at the rung, with a finite score."""
        gone = trial in self.promoted[level] or trial in self.ended
        return not gone and self.reached[level][trial] is not None

    def waiting(self, level: int) -> list[int]:
        """Return who waits at a rung, best first."""
        return [trial for trial in self.ranked(level) if self.may_go_on(trial, level)]


class BracketsOracle:
    """Hyperband's brackets of ASHA: an oracle for each, and the rules between them in exact fractions.

    Args:
        brackets: The levels of each.
        eta: The reduction factor.
        turns: How many trials in a row each bracket gets. None means the bracket furthest behind its share is next,
            shares being in inverse proportion to what a trial costs on average.
    """

    def __init__(self, brackets: Sequence[Sequence[int]], eta: int, turns: Sequence[int] | None = None) -> None:
        self.oracles = [Oracle(levels, eta) for levels in brackets]
        self.turns = turns
        costs = [Fraction(len(levels), eta ** (len(levels) - 1)) for levels in brackets]
        self.shares = [1 / cost / sum(1 / each for each in costs) for cost in costs]
        self.homes: dict[int, int] = {}
        self.units = [0 for _ in brackets]

    def next_home(self) -> int:
        """Return the bracket of the next trial."""
        created = list(self.homes.values())
        if self.turns is not None:
            order = [home for home, turn in enumerate(self.turns) for _ in range(turn)]
            return order[len(created) % len(order)]
        behind = [share * (len(created) + 1) - created.count(home) for home, share in enumerate(self.shares)]
        return behind.index(max(behind))

    def tell(self, fact: Fact) -> None:
        """Take in a fact, without judging it."""
        if fact[0] == "created":
            self.homes[fact[1]] = self.next_home()
            self.units[self.homes[fact[1]]] += self.oracles[self.homes[fact[1]]].levels[0]
        if fact[0] == "promoted":
            self.units[self.homes[fact[1]]] += fact[3] - fact[2]
        self.oracles[self.homes[fact[1]]].tell(fact)

    def legal(self) -> list[Move]:
        """Return the promotions that are due, those of the bracket with the fewest units first."""
        order = sorted(range(len(self.oracles)), key=lambda home: (self.units[home], home))
        return [move for home in order for move in self.oracles[home].legal()]


def legal_promotions(facts: Iterable[Fact], levels: Sequence[int], eta: int) -> list[Move]:
    """Return every promotion that is due after these facts, in order."""
    oracle = Oracle(levels, eta)
    for fact in facts:
        oracle.tell(fact)
    return oracle.legal()


def check_promotions(facts: Iterable[Fact], levels: Sequence[int], eta: int, *, closing: bool = False) -> int:
    """Raise unless every promotion among the facts is the one that the rule wanted at that point.

    Args:
        facts: In the order in which the scheduler was told.
        levels: The rungs, lowest first.
        eta: The reduction factor.
        closing: Whether ``finish_best`` may promote the best of the highest rung when nothing is due.

    Returns:
        The number of promotions.
    """
    oracle = Oracle(levels, eta)
    count = 0
    for number, fact in enumerate(facts):
        if fact[0] == "promoted":
            due = oracle.legal() or (_closing(oracle) if closing else [])
            assert due, f"fact {number}, {fact}: no promotion was due"
            assert fact[1:] == due[0], f"fact {number}, {fact}: {due[0]} was due"
            count += 1
        oracle.tell(fact)
    return count


def _closing(oracle: Oracle) -> list[Move]:
    for start, to in reversed(list(pairwise(oracle.levels))):
        waiting = oracle.waiting(start)
        if waiting:
            return [(waiting[0], start, to)]
    return []
