"""Shares of studies whose trials train on several workers: whole gangs, fair over time, nobody starves, no deadlock."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.fair.demands import Demand, GangSizes
from asyncsearch.fair.shares import divide
from tests.examples import examples
from tests.fair.shares import fair_rates, shares
from tests.fair.world import World, jain
from tests.shares import takes_long

HOURS_S = 7_200.0
Terms = tuple[int, float, GangSizes]
"""What a study needs, its weight, and how many workers a trial of it has."""


def served(workers: int, **studies: Terms) -> dict[str, float]:
    """Return how many workers each study has had over hours, for its weight."""
    world = World(workers, seed=1, stage_s=10.0)
    for study, (needs, weight, sizes) in studies.items():
        world.join(study, needs, weight, sizes=sizes)
    world.pass_time(HOURS_S)
    return {study: world.served[study] / HOURS_S / weight for study, (_, weight, _) in studies.items()}


@pytest.mark.parametrize(
    ("sizes", "usable"),
    [
        (GangSizes(), [0, 1, 2, 3, 4]),
        (GangSizes(3), [0, 3, 6, 9]),
        (GangSizes(4, 3), [0, 3, 4, 7, 8, 11]),
        (GangSizes(4, 1), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_usable_numbers_are_those_of_full_gangs_and_one_smaller_gang(sizes: GangSizes, usable: list[int]) -> None:
    assert [number for number in range(usable[-1] + 1) if sizes.usable(number) == number] == usable
    assert [sizes.above(number) for number in usable[:-1]] == usable[1:]
    assert [sizes.below(number) for number in usable[1:]] == usable[:-1]


SIZES = st.builds(GangSizes, st.integers(1, 5)) | st.sampled_from([GangSizes(4, 2), GangSizes(3, 1), GangSizes(5, 4)])


@st.composite
def demands(draw: st.DrawFn) -> list[Demand]:
    return [
        Demand(
            str(number),
            draw(st.integers(0, 15)),
            draw(st.sampled_from([0.5, 1.0, 2.0, 7.5])),
            draw(st.none() | st.integers(1, 12)),
            draw(st.integers(-1, 1)),
            draw(SIZES),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


LAGS = st.lists(st.floats(-500, 500), min_size=6, max_size=6)


@settings(max_examples=examples(300), deadline=None)
@given(demands(), st.integers(0, 20), LAGS)
def test_shares_are_whole_gangs_within_workers_demand_and_limit(
    asked: list[Demand], workers: int, lags: list[float]
) -> None:
    found = shares(asked, workers, lags=dict(zip("012345", lags, strict=True)))
    assert sum(found.values()) <= workers
    for one in asked:
        assert one.sizes.usable(found[one.study]) == found[one.study]
        assert 0 <= found[one.study] <= one.limit <= min(one.workers, one.max_workers or one.workers)


@settings(max_examples=examples(300), deadline=None)
@given(demands(), st.integers(0, 20), LAGS)
def test_no_workers_are_left_that_a_gang_of_any_study_could_use(
    asked: list[Demand], workers: int, lags: list[float]
) -> None:
    found = shares(asked, workers, lags=dict(zip("012345", lags, strict=True)))
    left = workers - sum(found.values())
    for one in asked:
        assert one.sizes.above(found[one.study]) > min(one.limit, found[one.study] + left)


@given(demands(), st.integers(0, 20))
def test_who_lags_most_has_its_gang_if_the_workers_of_its_priority_suffice(asked: list[Demand], workers: int) -> None:
    rates = fair_rates(asked, workers)
    for one in asked:
        if rates[one.study] > 0:
            part = divide(asked, workers, {})[one.study]
            lags = {other.study: 1000.0 * (other.study == one.study) for other in asked}
            assert shares(asked, workers, lags=lags)[one.study] >= part.rate


def test_a_gangs_turn_takes_workers_of_those_with_most_for_their_weight() -> None:
    asked = [Demand("one", 8), Demand("two", 8, 2.0), Demand("gang", 4, sizes=GangSizes(4))]
    assert shares(asked, 8, lags={"gang": 100.0}) == {"one": 1, "two": 3, "gang": 4}


@pytest.mark.parametrize(
    ("workers", "studies"),
    [
        (4, {"a": (20, 1, GangSizes(2)), "b": (21, 1, GangSizes(3))}),
        (4, {"a": (20, 1, GangSizes(2)), "b": (21, 2, GangSizes(3))}),
        (4, {"plain": (20, 1, GangSizes()), "b": (21, 1, GangSizes(3))}),
        (4, {"plain": (20, 9, GangSizes()), "b": (20, 1, GangSizes(4))}),
        (4, {"a": (4, 1, GangSizes()), "b": (4, 1, GangSizes(2)), "c": (4, 1, GangSizes(4))}),
        (7, {"a": (40, 1, GangSizes(4)), "b": (40, 1, GangSizes(4)), "c": (40, 1, GangSizes(4))}),
        (7, {"a": (40, 1, GangSizes(4, 2)), "b": (40, 1, GangSizes(4)), "c": (40, 1, GangSizes())}),
        pytest.param(
            20, {"a": (90, 1, GangSizes()), "b": (90, 2, GangSizes()), "c": (96, 3, GangSizes(8))}, marks=takes_long
        ),
    ],
)
def test_over_hours_worker_seconds_are_in_proportion_to_weights(workers: int, studies: dict[str, Terms]) -> None:
    assert jain(served(workers, **studies).values()) >= 0.99


def test_a_gang_beside_many_plain_studies_has_its_part_of_the_time() -> None:
    plain = {f"plain{number}": (9, 1.0, GangSizes()) for number in range(8)}
    found = served(4, gang=(8, 1.0, GangSizes(4)), **plain)
    assert jain(found.values()) >= 0.98
    assert sum(found.values()) > 3.9, "workers are not idle meanwhile"


def test_workers_that_a_gang_cannot_use_now_are_used_by_others() -> None:
    world = World(4)
    world.join("plain", 4)
    world.join("gang", 3, sizes=GangSizes(3))
    world.pass_time(HOURS_S)
    assert sum(world.served.values()) / HOURS_S > 3.9
    assert world.served["gang"] == pytest.approx(world.served["plain"], rel=0.02)


def test_a_gang_has_its_workers_within_the_longest_stage_it_waits_for() -> None:
    world = World(6, stage_s=20.0)
    world.join("plain", 6)
    world.pass_time(30.0)
    world.join("gang", 3, sizes=GangSizes(3))
    world.pass_time(20.0)
    assert world.held() == {"plain": 3, "gang": 3}


def test_a_gangs_workers_come_within_patience_however_long_stages_are() -> None:
    world = World(4, stage_s=10_000.0, patience_s=60.0)
    world.join("a", 4, sizes=GangSizes(2))
    world.pass_time(1.0)
    world.join("b", 2, sizes=GangSizes(2))
    world.pass_time(62.0)
    assert world.held() == {"a": 2, "b": 2}


def test_turns_of_gangs_are_as_long_as_those_of_single_workers() -> None:
    world = World(4, turn_s=30.0, stage_s=1.0)
    for study in ("a", "b"):
        world.join(study, 4, sizes=GangSizes(4))
    world.pass_time(3600.0)
    starts = sorted(set(world.moves))
    assert len(starts) <= 1 + 3600 / 30


def test_a_study_that_lent_to_a_gang_keeps_returned_workers_for_a_turn() -> None:
    world = World(4, turn_s=30.0, stage_s=1.0)
    world.join("plain", 4)
    world.join("gang", 3, sizes=GangSizes(3))
    world.pass_time(7200.0)
    assert world.served["gang"] == pytest.approx(world.served["plain"], rel=0.05)
    assert len(world.moves) / 6 < 7200 / 90, "three workers go to the gang and three come back"


@pytest.mark.parametrize(("needs", "size"), [(4, 1), (2, 2)])
def test_turns_come_in_time_though_no_stage_ends(needs: int, size: int) -> None:
    world = World(4, turn_s=30.0, stage_s=100_000.0, patience_s=10.0)
    world.join("first", needs, sizes=GangSizes(size))
    world.join("gang", 3, sizes=GangSizes(3))
    world.pass_time(7200.0)
    assert jain([world.served["gang"], world.served["first"]]) > 0.98


def test_higher_priority_fills_with_gangs_first_and_leaves_lower_the_rest() -> None:
    world = World(5)
    world.join("low", 5)
    world.join("high", 6, priority=1, sizes=GangSizes(2))
    world.pass_time(20.0)
    assert world.held() == {"low": 1, "high": 4}


def test_a_limit_counts_as_far_as_gangs_fill_it() -> None:
    world = World(9)
    world.join("gang", 9, most=5, sizes=GangSizes(3))
    world.pass_time(20.0)
    assert world.held() == {"gang": 3}


def test_a_gang_that_ends_half_formed_leaves_its_workers_to_the_others() -> None:
    world = World(3, stage_s=50.0)
    world.join("plain", 3)
    world.pass_time(1.0)
    world.join("gang", 3, sizes=GangSizes(3))
    world.pass_time(200.0)
    world.leave("gang")
    world.pass_time(60.0)
    assert world.held() == {"plain": 3}


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(3, 9), st.integers(0, 10_000))
def test_gangs_of_any_sizes_never_exceed_the_workers_and_nobody_starves(workers: int, seed: int) -> None:
    draw = random.Random(seed)
    world = World(workers, seed, stage_s=draw.choice([5.0, 50.0]), turn_s=3.0, patience_s=10.0)
    sizes = [GangSizes(), GangSizes(2), GangSizes(3), GangSizes(workers), GangSizes(3, 2)]
    for number in range(30):
        studies = list(world.needs)
        match draw.choice(["join", "join", "leave", "need", "need", "lose", "relaunch", "deliver", "time", "time"]):
            case "join" if len(studies) < 5:
                weight, most = draw.choice([0.5, 1, 3]), draw.choice([None, 3])
                world.join(str(number), draw.randint(0, 9), weight, most, draw.randint(0, 1), draw.choice(sizes))
            case event:
                world.happen(event, draw)
        world.check()
    for study in world.needs:
        world.needs[study] = 9
        world.report(study)
    before = dict(world.served)
    world.pass_time(1500.0)
    demands = [member.demand for member in world.broker._members.values()]
    able = {demand.study: demand.priority for demand in demands if demand.sizes.usable(min(workers, demand.limit)) > 0}
    for study, priority in able.items():
        if priority == max(able.values()):
            assert world.served[study] > before[study], "nobody of the highest priority starves"


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(2, 5), st.integers(1, 3), st.integers(0, 10_000))
def test_small_trials_that_fill_in_delay_a_gang_by_one_stage_at_most(size: int, many: int, seed: int) -> None:
    """Those that come meanwhile included, the part of the gang is as large as it needs."""
    draw = random.Random(seed)
    world = World(size * (many + 2), seed, stage_s=20.0)
    for number in range(many):
        world.join(str(number), 40)
    world.pass_time(draw.uniform(1.0, 60.0))
    world.join("gang", size, sizes=GangSizes(size))
    began = world.now
    while len(world.ends["gang"]) < size:
        assert world.now <= began + 21.0, "a stage, and the second for which a need that falls counts as it was"
        changed = str(draw.randrange(many))
        world.needs[changed] = draw.choice([1, size, 40])
        world.report(changed)
        if draw.random() < 0.2 and "late" not in world.needs:
            world.join("late", 40)
        world.pass_time(draw.uniform(0.1, 2.0))
