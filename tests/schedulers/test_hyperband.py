"""Hyperband: which brackets there are, which trial is in which, and what each promotes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import Hyperband, RungForecast, SchedulerState
from asyncsearch.schedulers.bracket_allocation import Shares
from asyncsearch.schedulers.rungs import rung_levels
from tests.schedulers.oracle import BracketsOracle
from tests.schedulers.oracle_play import COMMANDS, Command, OraclePlay
from tests.schedulers.synchronous_play import SEARCHES, Search, ideal, outcome
from tests.schedulers.tools import Move, drain

PAPER = [(81, 3), (243, 3), (3**10, 3), (1000, 10), (10**6, 10), (256, 4), (100, 4)]
"""(R, η)"""
SIZES = {
    (81, 3): (81, 34, 15, 8, 5),
    (243, 3): (243, 98, 41, 18, 9, 6),
    (3**10, 3): (59049, 21652, 8019, 3008, 1146, 446, 179, 75, 33, 17, 11),
    (1000, 10): (1000, 134, 20, 4),
    (10**6, 10): (10**6, 116667, 14000, 1750, 234, 35, 7),
    (256, 4): (256, 80, 27, 10, 5),
    (100, 4): (64, 22, 8, 4),
}
"""⌈(s_max+1)/(s+1) · ηˢ⌉; Li et al. 2018, Algorithm 1."""
STANDARD = Hyperband(max_resource=256, reduction_factor=4, brackets=(5, 4, 3))


def bracket_of(state: SchedulerState, trial: int) -> int:
    return int(state.position(TrialId(trial)).partition(":")[0].removeprefix("bracket "))


def begin(state: SchedulerState, count: int) -> list[int]:
    """Begin so many trials, and return the target of each."""
    targets = []
    for number in range(count):
        target = state.first_target(TrialId(number))
        assert target is not None
        state.created(TrialId(number), {})
        targets.append(target)
    return targets


@pytest.mark.parametrize(("max_resource", "eta"), PAPER)
def test_every_bracket_has_all_its_rungs_and_the_size_of_the_paper(max_resource: int, eta: int) -> None:
    """asha.md 1.8: others lose a bracket at 243/3 and 1000/10."""
    scheduler = Hyperband(max_resource=max_resource, reduction_factor=eta)
    levels = rung_levels(1, max_resource, eta)
    assert scheduler.rung_counts == tuple(range(len(levels), 0, -1))
    assert scheduler.levels == tuple(levels[start:] for start in range(len(levels)))
    assert scheduler.sizes == SIZES[max_resource, eta]


@pytest.mark.parametrize(("max_resource", "eta"), PAPER)
@pytest.mark.parametrize("variant", ["rounds", "synchronous"])
def test_a_round_trains_each_bracket_as_the_paper_says(max_resource: int, eta: int, variant: Any) -> None:
    """Li et al. 2018, Algorithm 1: ⌊n·η⁻ⁱ⌋ trials at R·ηⁱ⁻ˢ."""
    scheduler = Hyperband(max_resource=max_resource, reduction_factor=eta, variant=variant)
    expected = [
        RungForecast(start, to, size // eta**rung, bracket)
        for bracket, (levels, size) in enumerate(zip(scheduler.levels, scheduler.sizes, strict=True))
        for rung, (start, to) in enumerate(pairwise((0, *levels)))
    ]
    assert scheduler.forecast(sum(scheduler.sizes)) == expected
    assert scheduler.warnings(sum(scheduler.sizes)) == []


@pytest.mark.parametrize(
    ("num_trials", "counts"),
    [
        (0, [0, 0, 0]),
        (1, [1, 0, 0]),
        (68, [48, 15, 5]),
        (100, [71, 22, 7]),
        (500, [353, 110, 37]),
        (1000, [706, 220, 74]),
    ],
)
def test_the_standard_brackets_get_71_22_and_7_of_100_trials(num_trials: int, counts: list[int]) -> None:
    """asha.md 1.16: 70.59, 22.06 and 7.35 %. Determined rounds down and gives the rest to the first: 354/110/36."""
    state = STANDARD.begin()
    targets = begin(state, num_trials)
    assert [targets.count(start) for start in (1, 4, 16)] == counts
    forecast = [line.trials for line in STANDARD.forecast(num_trials) if line.from_resource == 0]
    assert forecast == counts


@pytest.mark.parametrize(("max_resource", "eta"), PAPER)
@pytest.mark.parametrize("brackets", ["aggressive", "standard", "conservative"])
def test_every_prefix_of_the_search_keeps_the_shares(max_resource: int, eta: int, brackets: str) -> None:
    """Less than one trial ahead; one behind at most with up to five brackets, and less than 1.25 with eleven."""
    scheduler = Hyperband(max_resource=max_resource, reduction_factor=eta, brackets=brackets)
    costs = [rungs / eta ** (rungs - 1) for rungs in scheduler.rung_counts]
    shares = [1 / cost / sum(1 / each for each in costs) for cost in costs]
    counts = [0] * len(shares)
    starts = [levels[0] for levels in scheduler.levels]
    for number, target in enumerate(begin(scheduler.begin(), 3_000), start=1):
        counts[starts.index(target)] += 1
        behind = [share * number - count for share, count in zip(shares, counts, strict=True)]
        assert min(behind) > -1
        assert max(behind) < (1 if len(shares) <= 5 else 1.25)


@pytest.mark.parametrize("rung_counts", [(5, 4, 3), (5, 4, 3, 2, 1), (1,), (7, 2)])
def test_a_round_whose_order_is_kept_is_the_round_that_is_worked_out(
    rung_counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Shares(rung_counts, 3)
    monkeypatch.setattr("asyncsearch.schedulers.bracket_allocation._SHORT", 0)
    worked_out = Shares(rung_counts, 3)
    counts = [0] * len(rung_counts)
    for _ in range(2 * kept.total + 1):
        bracket = kept.next_bracket(counts)
        assert bracket == worked_out.next_bracket(counts)
        counts[bracket] += 1


def test_shares_are_in_inverse_proportion_to_what_a_trial_costs() -> None:
    forecast = STANDARD.forecast(6_800)
    units = [0, 0, 0]
    for line in forecast:
        units[line.bracket] += line.trials * ((line.to_resource or 0) - line.from_resource)
    assert [line.trials for line in forecast if line.from_resource == 0] == [4800, 1500, 500]
    assert max(units) < 1.2 * min(units), "about the same budget"


def test_rounds_fill_one_bracket_after_the_other_over_and_over() -> None:
    scheduler = Hyperband(max_resource=9, variant="rounds")
    assert scheduler.sizes == (9, 5, 3)
    assert begin(scheduler.begin(), 40) == ([1] * 9 + [3] * 5 + [9] * 3) * 2 + [1] * 6


@pytest.mark.parametrize("variant", ["shares", "rounds"])
def test_a_bracket_stays_one_race_over_all_rounds(variant: Any) -> None:
    """More trials widen its rungs, as in ASHA."""
    scheduler = Hyperband(max_resource=9, brackets="aggressive", variant=variant)
    state = scheduler.begin()
    begin(state, 18)
    for number in range(18):
        state.paused(TrialId(number), 1, float(-number))
    assert drain(state) == [(17 - number, 1, 3) for number in range(6)]
    assert state.position(TrialId(0)) == "bracket 0: rank 18 of 18 at resource 1, 6 go on; it waits there"


def test_of_two_brackets_the_one_with_fewer_units_promotes_first() -> None:
    scheduler = Hyperband(max_resource=9, brackets=(3, 2), variant="rounds")
    state = scheduler.begin()
    assert begin(state, 14) == [1] * 9 + [3] * 5
    for number in range(14):
        state.paused(TrialId(number), 1 if number < 9 else 3, float(number))
    # 9 units and 15; after 3 promotions to 3 the first has 15 too, and in a tie it comes first.
    assert drain(state) == [(0, 1, 3), (1, 1, 3), (2, 1, 3), (9, 3, 9)]
    for number in range(3):
        state.paused(TrialId(number), 3, float(number))
    assert drain(state) == [(0, 3, 9)]


def test_a_promotion_counts_the_units_that_it_adds() -> None:
    """Two rounds are 18 and 30 units; each of six promotions to 3 adds two of them, so all come before the others."""
    state = Hyperband(max_resource=9, brackets=(3, 2), variant="rounds").begin()
    for number, target in enumerate(begin(state, 28)):
        state.paused(TrialId(number), target, float(number))
    assert [start for _, start, _ in drain(state)] == [1] * 6 + [3] * 3


@pytest.mark.parametrize(
    ("scores", "promotions"),
    [
        ([None] * 9, []),
        ([5.0] * 9, [(0, 1, 3), (1, 1, 3), (2, 1, 3)]),
        ([float("nan"), None, 7.0, float("inf"), 6.0, 8.0, 9.0, 10.0, 11.0], [(4, 1, 3), (2, 1, 3), (5, 1, 3)]),
    ],
)
@pytest.mark.parametrize("variant", ["rounds", "synchronous"])
def test_scores_in_promotions_out(variant: Any, scores: list[float | None], promotions: list[Move]) -> None:
    state = Hyperband(max_resource=9, variant=variant).begin()
    begin(state, 9)
    for number, score in enumerate(scores):
        state.paused(TrialId(number), 1, score)
    assert drain(state) == promotions


@pytest.mark.parametrize("variant", ["rounds", "synchronous"])
def test_trials_of_different_brackets_never_compete(variant: Any) -> None:
    """The worst nine are better than the best five at resource 3, and yet one of those goes on."""
    state = Hyperband(max_resource=9, variant=variant).begin()
    begin(state, 17)
    for number in range(9, 14):
        state.paused(TrialId(number), 3, 1000.0 + number)
    assert drain(state) == [(9, 3, 9)]
    for number in range(9):
        state.paused(TrialId(number), 1, float(number))
    for trial, _, to in drain(state):
        state.paused(TrialId(trial), to, float(trial))
    assert drain(state) == [(0, 3, 9)]
    state.failed(TrialId(0), 9)
    state.completed(TrialId(9), 9, 0.0)
    for number in (14, 15, 16):
        state.completed(TrialId(number), 9, 0.0)
    assert drain(state) == [], "the bracket of one rung stops nobody"
    assert [bracket_of(state, number) for number in (0, 9, 14)] == [0, 1, 2]


ASYNCHRONOUS = [
    (scheduler, BracketsOracle, turns)
    for brackets in (None, "standard", (2,), (3, 1))
    for scheduler, turns in [
        (Hyperband(max_resource=9, brackets=brackets), False),
        (Hyperband(max_resource=9, brackets=brackets, variant="rounds"), True),
        (Hyperband(max_resource=16, reduction_factor=2, min_resource=2, brackets=brackets), False),
    ]
]


@settings(max_examples=200, deadline=None)
@given(COMMANDS, st.sampled_from(ASYNCHRONOUS))
def test_every_promotion_is_the_one_that_brute_force_finds(commands: list[Command], form: tuple[Any, ...]) -> None:
    """asha.md 1.1, 1.5, 1.6, 1.11, 1.12, 1.14, 1.16 and 1.19, in brackets."""
    scheduler, oracle, has_turns = form
    rule = oracle(scheduler.levels, scheduler.reduction_factor, scheduler.sizes if has_turns else None)
    play = OraclePlay(scheduler, rule)
    play.go(commands)
    assert rule.legal() == []
    assert [bracket_of(play.state, trial) for trial in range(play.created)] == list(rule.homes.values())


@settings(max_examples=60, deadline=None)
@given(SEARCHES, st.sampled_from([2, 3]))
def test_synchronous_brackets_do_not_depend_on_the_order_of_arrival(search: Search, eta: int) -> None:
    """A new bracket in every turn, the last one as large as the trials that are left."""
    scheduler = Hyperband(max_resource=eta * eta, reduction_factor=eta, variant="synchronous")
    brackets = list(zip(scheduler.levels, scheduler.sizes, strict=True))
    assert outcome(search, scheduler) == ideal(search, brackets, eta)


def test_a_later_synchronous_run_opens_the_next_bracket_of_the_round() -> None:
    state = Hyperband(max_resource=9, variant="synchronous").begin()
    state.run_requested(6)
    assert begin(state, 6) == [1] * 6
    assert not state.may_create(TrialId(6))
    state.run_requested(11)
    assert state.first_target(TrialId(6)) == 3
    for number in range(6, 11):
        state.created(TrialId(number), {})
    assert not state.may_create(TrialId(11))
    assert state.position(TrialId(0)).startswith("bracket 0")
    assert state.position(TrialId(10)).startswith("bracket 1")


@pytest.mark.parametrize(
    ("brackets", "rung_counts"),
    [
        (None, (5, 4, 3, 2, 1)),
        ("conservative", (5, 4, 3, 2, 1)),
        ("standard", (5, 4, 3)),
        ("aggressive", (5,)),
        (2, (5, 4)),
        ((1, 3), (3, 1)),
        ([4], (4,)),
    ],
)
def test_brackets_are_named_counted_or_listed(brackets: Any, rung_counts: tuple[int, ...]) -> None:
    assert Hyperband(max_resource=81, brackets=brackets).rung_counts == rung_counts


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"brackets": 6},
            "brackets=6 needs 6 rungs, .* there are 5.* Use brackets=5 or max_resource >= 243",
        ),
        ({"brackets": (7, 6, 2)}, r"Use brackets=\(5, 2\) or max_resource >= 729\.$"),
        ({"brackets": 5, "min_resource": 4}, r"Use brackets=3 or max_resource >= 324 or min_resource <= 1\.$"),
        ({"brackets": 10_000}, r"needs 10000 rungs, .* Use brackets=5\.$"),
        ({"brackets": (10**6,)}, r"needs 1000000 rungs, .* Use brackets=\(5,\)\.$"),
        ({"brackets": 40, "reduction_factor": 4}, r"needs 40 rungs, .* Use brackets=4\.$"),
        ({"brackets": (3, 3)}, r"brackets=\(3, 3\) names a bracket twice. Use brackets=\(3,\)"),
        ({"brackets": (6, 6)}, r"names a bracket twice. Use brackets=\(5,\)"),
        ({"brackets": ()}, r"names no bracket. Use brackets=\(5,\)"),
        ({"brackets": 0}, "brackets=0 is too small"),
        ({"brackets": (2, 0)}, "brackets=0 is too small"),
        ({"brackets": 2.5}, "brackets=2.5 is not an integer"),
        ({"brackets": (3, "2")}, "brackets='2' is not an integer"),
        ({"brackets": "most"}, r"brackets='most' is unknown. Use 'aggressive'.*from 1 to 5.*brackets=\(5, 4, 3\)"),
        ({"variant": "async"}, "variant='async' is unknown. Use one of variant='shares', variant='rounds'"),
        ({"min_resource": 82}, "min_resource=82 is above max_resource=81"),
    ],
)
def test_what_cannot_be_is_refused_at_once_with_the_nearest_that_can(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ResourceError, match=words):
        Hyperband(**({"max_resource": 81} | arguments))


@pytest.mark.parametrize("brackets", [5, (5, 3), "standard"])
def test_the_nearest_max_resource_that_the_error_names_can_be(brackets: Any) -> None:
    assert Hyperband(max_resource=324, min_resource=4, brackets=brackets).rung_counts[0] == 5


@pytest.mark.parametrize(("max_resource", "eta"), [(81, 3), (256, 4), (100, 4), (32, 2)])
@pytest.mark.parametrize("variant", ["shares", "rounds", "synchronous"])
@pytest.mark.parametrize("brackets", [None, "standard", (2,)])
def test_a_bracket_too_small_for_its_rungs_is_warned_of_with_a_remedy(
    max_resource: int, eta: int, variant: Any, brackets: Any
) -> None:
    scheduler = Hyperband(max_resource=max_resource, reduction_factor=eta, variant=variant, brackets=brackets)
    (note,) = scheduler.warnings(1)
    assert f"too few trials to bring one to max_resource={max_resource}" in note
    enough = int(note.split("num_trials ")[1].removeprefix("as a multiple of ").removeprefix(">= ").split(",")[0])
    assert scheduler.warnings(enough) == []
    assert all(line.trials for line in scheduler.forecast(enough))
    assert scheduler.warnings(None) == []


def test_what_stops_nobody_is_warned_of() -> None:
    (alone,) = Hyperband(max_resource=2).warnings(100)
    assert "There is one rung only" in alone
    (wished,) = Hyperband(max_resource=81, brackets=(1,)).warnings(None)
    assert "The only bracket has one rung, at max_resource=81" in wished
    assert not Hyperband(max_resource=81, brackets=(1,)).pauses
    assert Hyperband(max_resource=81).pauses
    (words,) = Hyperband(max_resource=81).warnings(110)
    assert words == (
        "2 brackets have too few trials to bring one to max_resource=81: 5 rungs take 81 and get 63, 4 rungs take 27 "
        "and get 26. Use num_trials >= 148, or other brackets."
    )


def test_a_promotion_says_rank_count_and_quota_in_its_bracket() -> None:
    state = Hyperband(max_resource=9, variant="rounds").begin()
    begin(state, 9)
    for number in range(9):
        state.paused(TrialId(number), 1, float(number))
    promotion = state.next_promotion()
    assert promotion is not None
    assert promotion.reason == "rank 1 of 9 at resource 1, 3 go on to 3"
    assert state.next_promotion() == promotion, "asking changes nothing"
    assert state.position(TrialId(9)) == ""
