"""Metrics in, exploits out."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import InternalError, ResourceError, SpaceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import PBT, SchedulerState
from asyncsearch.schedulers.pbt_state import PBTState
from asyncsearch.space import Space, uniform
from tests.schedulers.tools import pause_new

SPACE = Space({"x": uniform(0, 1)})
PARAMS = {"x": 0.5}
FOUR = PBT(max_resource=12, perturbation_interval=4)
"""Boundaries at 4 and 8."""

Step = tuple[int, int, int, int | None]
"""A trial that goes on: (trial, from, to, whose weights it takes)."""


def requested(num_trials: int | None, scheduler: PBT = FOUR, seed: int = 0) -> PBTState:
    state = scheduler.begin(SPACE, seed)
    state.run_requested(num_trials)
    return state


def go_on(state: SchedulerState, at: dict[int, int] | None = None, most: int = 1000) -> list[Step]:
    """Ask and state what goes on, until nobody does; ``at`` says where checkpoints of donors stand, if beyond."""
    steps: list[Step] = []
    while len(steps) < most and (promotion := state.next_promotion()) is not None:
        assert state.next_promotion() == promotion, "asking changes nothing"
        here, target = promotion.from_resource, promotion.to_resource
        if promotion.donor is None:
            state.promoted(promotion.trial, here, target)
        else:
            stands = (at or {}).get(promotion.donor, here)
            offspring = state.branch(promotion, PARAMS, stands)
            assert offspring is not None
            target = offspring.to_resource
            state.branched(promotion.trial, promotion.donor, {}, stands, target)
        steps.append((promotion.trial, here, target, promotion.donor))
    return steps


def exploits(steps: list[Step]) -> dict[int, int]:
    return {trial: donor for trial, _, _, donor in steps if donor is not None}


def test_nobody_goes_on_before_all_of_the_population_have_begun() -> None:
    state = requested(4)
    pause_new(state, [0.0, 1.0, 2.0])
    assert state.next_promotion() is None
    state.created(TrialId(3), {})
    assert go_on(state) == [(0, 4, 8, None), (1, 4, 8, None), (2, 4, 8, None)], "three are too few to tell"
    state.paused(TrialId(3), 4, 3.0)
    assert go_on(state) == [(3, 4, 8, 0)]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([3.0, 2.0, 1.0, 0.0], {0: 3}),
        ([0.0, 1.0, 2.0, 3.0], {3: 0}),
        ([1.0] * 4, {3: 0}),
        ([1.0, None, 2.0, 3.0], {1: 0}),
        ([1.0, None, float("nan"), 3.0], {2: 0}),
        ([1.0, None, float("-inf"), float("inf")], {3: 0}),
        ([None] * 4, {}),
        ([None, None, None, 5.0], {2: 3}),
        ([0.0, 1.0, 2.0], {}),
        ([float(n) for n in range(7)], {6: 0}),
        ([7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], {0: None, 7: None}),
    ],
)
def test_scores_in_exploits_out(scores: list[float | None], expected: dict[int, int | None]) -> None:
    """asha.md 1.5, 1.6: ties by number, NaN and infinities are the worst; eight have two best, of whom one is drawn."""
    state = requested(len(scores))
    pause_new(state, scores)
    found = exploits(go_on(state))
    assert found.keys() == expected.keys()
    for trial, donor in expected.items():
        assert found[trial] == donor if donor is not None else found[trial] in (1, 2)


@pytest.mark.parametrize(
    ("quantile", "size", "worst"),
    [(0.25, 4, 1), (0.25, 7, 1), (0.25, 8, 2), (0.5, 2, 1), (0.5, 5, 2), (0.1, 10, 1), (0.3, 10, 3), (0.29, 100, 29)],
)
def test_the_worst_are_as_many_as_the_quantile_says_exactly(quantile: float, size: int, worst: int) -> None:
    state = requested(size, PBT(max_resource=12, perturbation_interval=4, quantile=quantile))
    pause_new(state, [float(number) for number in range(size)])
    found = exploits(go_on(state))
    assert sorted(found) == list(range(size - worst, size))
    assert set(found.values()) <= set(range(worst))


def test_those_that_are_least_far_go_on_first() -> None:
    state = requested(4)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    assert go_on(state, most=2) == [(0, 4, 8, None), (1, 4, 8, None)]
    state.paused(TrialId(0), 8, 0.0)
    assert go_on(state) == [(2, 4, 8, None), (3, 4, 8, 0), (0, 8, 12, None)]


def test_who_takes_over_weights_goes_on_from_where_they_are() -> None:
    state = requested(4)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    assert go_on(state, at={0: 9})[-1] == (3, 4, 12, 0)
    assert state.position(TrialId(3)) == "on its way to resource 12"
    state.completed(TrialId(3), 12, 1.0)
    assert state.position(TrialId(3)) == ""


def test_weights_of_one_that_is_trained_to_the_end_are_not_taken_over() -> None:
    state = requested(4)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    go_on(state, most=3)
    promotion = state.next_promotion()
    assert promotion is not None
    assert state.branch(promotion, PARAMS, 12) is None
    assert (
        promotion.reason == "rank 4 of 4 at resource 4, goes on to 8 by itself, since trial-0 has no checkpoint from 4 "
        "to 11 to take over"
    ), "its checkpoint at 12 is no place to go on from, nor would be one at 3"
    state.promoted(TrialId(3), 4, 8)
    assert state.position(TrialId(3)) == "on its way to resource 8"


def test_nobody_takes_over_from_one_that_has_ended() -> None:
    for end in ("failed", "stopped", "completed"):
        state = requested(8)
        pause_new(state, [float(number) for number in range(8)])
        assert len(go_on(state, most=6)) == 6
        getattr(state, end)(TrialId(0), 7, *([] if end == "failed" else [0.0]))
        assert exploits(go_on(state)) == {6: 1, 7: 1}
        state = requested(4)
        pause_new(state, [0.0, 1.0, 2.0])
        state.created(TrialId(3), {})
        go_on(state)
        state.completed(TrialId(0), 5, 0.0)
        state.paused(TrialId(3), 4, 3.0)
        assert go_on(state) == [(3, 4, 8, None)], "the only one among the best has ended"


def test_a_failed_trial_is_the_worst_of_the_boundary_it_did_not_reach() -> None:
    state = requested(4)
    state.created(TrialId(0), {})
    state.failed(TrialId(0), 4)
    state.failed(TrialId(0), 4)
    pause_new(state, [1.0, 2.0, 3.0], first=1)
    assert exploits(go_on(state)) == {}, "the worst of the four is the one that failed"
    assert state.next_promotion() is None


def test_one_that_ends_by_itself_counts_with_its_last_value() -> None:
    state = requested(4)
    state.created(TrialId(0), {})
    state.completed(TrialId(0), 2, 0.0)
    pause_new(state, [1.0, 2.0, 3.0], first=1)
    assert go_on(state)[-1] == (3, 4, 8, None), "it is the best, and there is nothing to take over from it"


def test_one_that_comes_late_is_compared_with_all_that_came_before() -> None:
    state = requested(5)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    state.created(TrialId(4), {})
    assert exploits(go_on(state)) == {3: 0}
    state.paused(TrialId(0), 8, 9.0)
    state.paused(TrialId(3), 8, 8.0)
    go_on(state)
    state.paused(TrialId(4), 4, 2.5)
    assert go_on(state) == [(4, 4, 8, None)]
    assert state.position(TrialId(4)) == "on its way to resource 8"


def test_in_step_all_that_live_are_awaited_and_those_that_exploit_go_first() -> None:
    state = requested(5, PBT(max_resource=12, perturbation_interval=4, synchronous=True))
    pause_new(state, [4.0, 1.0, 2.0, 3.0])
    assert state.next_promotion() is None
    state.created(TrialId(4), {})
    assert state.next_promotion() is None
    state.failed(TrialId(4), 4)
    assert go_on(state) == [(0, 4, 8, None), (1, 4, 8, None), (2, 4, 8, None), (3, 4, 8, None)]
    for trial, score in enumerate([4.0, 3.0, 2.0]):
        state.paused(TrialId(trial), 8, score)
        assert state.next_promotion() is None
    state.paused(TrialId(3), 8, 1.0)
    assert go_on(state) == [(0, 8, 12, 3), (1, 8, 12, None), (2, 8, 12, None), (3, 8, 12, None)]
    for trial in range(4):
        assert go_on(state) == []
        state.completed(TrialId(trial), 12, 0.0)
    assert go_on(state) == []


def test_in_step_the_end_of_the_last_one_on_its_way_lets_the_others_go_on() -> None:
    state = requested(5, PBT(max_resource=12, perturbation_interval=4, synchronous=True))
    pause_new(state, [1.0, 2.0, 3.0, 4.0])
    state.created(TrialId(4), {})
    state.completed(TrialId(4), 3, 5.0)
    assert [trial for trial, *_ in go_on(state)] == [0, 1, 2, 3]


def test_the_last_boundary_need_not_be_a_whole_interval_away() -> None:
    state = requested(2, PBT(max_resource=9, perturbation_interval=4, quantile=0.5))
    pause_new(state, [0.0, 1.0])
    assert go_on(state) == [(0, 4, 8, None), (1, 4, 8, 0)]
    state.paused(TrialId(0), 8, 0.0)
    state.paused(TrialId(1), 8, 1.0)
    assert go_on(state) == [(0, 8, 9, None), (1, 8, 9, 0)]


def test_a_population_of_two_exploits_only_by_halves() -> None:
    state = requested(2)
    pause_new(state, [0.0, 1.0])
    assert exploits(go_on(state)) == {}


def test_further_trials_form_further_populations() -> None:
    scheduler = PBT(max_resource=12, perturbation_interval=4, population=4)
    state = requested(10, scheduler)
    pause_new(state, [3.0, 2.0, 1.0, 0.0])
    pause_new(state, [10.0, 11.0, 12.0, 13.0], first=4)
    assert exploits(go_on(state)) == {0: 3, 7: 4}
    pause_new(state, [-1.0], first=8)
    assert go_on(state) == [], "the last one awaits its second member"
    pause_new(state, [9.0], first=9)
    assert go_on(state) == [(8, 4, 8, None), (9, 4, 8, None)]


def test_a_later_run_opens_a_population_of_its_own() -> None:
    state = requested(4)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    go_on(state)
    state.run_requested(8)
    pause_new(state, [5.0, 6.0, 7.0, 8.0], first=4)
    assert exploits(go_on(state)) == {7: 4}


def test_fewer_trials_or_the_searchers_end_close_a_population() -> None:
    for is_exhausted in (False, True):
        state = requested(6)
        pause_new(state, [0.0, 1.0, 2.0, 3.0])
        assert go_on(state) == []
        if is_exhausted:
            state.no_more_trials()
        else:
            state.run_requested(4)
        assert exploits(go_on(state)) == {3: 0}
        state.no_more_trials()
        assert state.next_promotion() is None
    state = requested(None)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    assert go_on(state) == []
    state.no_more_trials()
    assert exploits(go_on(state)) == {3: 0}


def test_reasons_and_positions_say_rank_donor_and_values() -> None:
    state = requested(4)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    promotion = state.next_promotion()
    assert promotion is not None
    assert promotion.reason == "rank 1 of 4 at resource 4, goes on to 8"
    assert state.position(TrialId(2)) == "rank 3 of 4 at resource 4; it waits there"
    assert state.position(TrialId(9)) == ""
    go_on(state, most=3)
    assert state.position(TrialId(0)) == "on its way to resource 8"
    promotion = state.next_promotion()
    assert promotion is not None
    offspring = state.branch(promotion, PARAMS, 8)
    assert offspring is not None
    value = offspring.params["x"]["values"][1]
    assert offspring.reason == (
        f"exploited trial-0 at resource 8: rank 4 of 4 at resource 4, takes its weights; x 0.5 -> {value:.4g}"
    )
    assert offspring.params == {"x": {"sequence": "values", "values": [0.5, value], "milestones": [8]}}


def test_draws_depend_on_seed_trial_and_boundary_and_nothing_else() -> None:
    def drawn(seed: int, order: list[int]) -> dict[int, Any]:
        state = requested(16, seed=seed)
        for trial in range(16):
            state.created(TrialId(trial), {})
        for trial in order:
            state.paused(TrialId(trial), 4, float(trial))
        found: dict[int, Any] = {}
        while (promotion := state.next_promotion()) is not None:
            if promotion.donor is not None:
                found[promotion.trial] = (promotion.donor, state.branch(promotion, PARAMS, 4))
            state.promoted(promotion.trial, 4, 8)
        return found

    assert drawn(1, list(range(16))) == drawn(1, list(reversed(range(16)))) != drawn(2, list(range(16)))
    donors = {donor for seed in range(3) for donor, _ in drawn(seed, list(range(16))).values()}
    assert donors == {0, 1, 2, 3}
    assert any(len({donor for donor, _ in drawn(seed, list(range(16))).values()}) > 1 for seed in range(3))


def test_a_trial_that_pauses_where_it_was_not_sent_is_our_own_bug() -> None:
    state = requested(4)
    state.created(TrialId(0), {})
    with pytest.raises(InternalError, match="trial-0 is at 5, and its next boundary is 4"):
        state.paused(TrialId(0), 5, 1.0)


def test_what_nobody_can_come_to_any_more_takes_no_memory() -> None:
    state = requested(200, PBT(max_resource=40, perturbation_interval=4, population=20))
    sizes = []
    for first in range(0, 200, 20):
        pause_new(state, [float(number) for number in range(20)], first=first)
        while steps := go_on(state):
            for trial, _, to, _ in steps:
                if to == 40:
                    state.completed(TrialId(trial), 40, 0.0)
                else:
                    state.paused(TrialId(trial), to, float(trial))
        sizes.append(len(msgspec.json.encode(state.snapshot())))
    assert sizes[-1] - sizes[0] < 100


def test_boundaries_that_all_have_passed_take_no_memory() -> None:
    state = requested(4, PBT(max_resource=1000, perturbation_interval=4))
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    sizes = []
    for _ in range(50):
        for trial, _, to, _ in go_on(state):
            state.paused(TrialId(trial), to, float(trial))
        sizes.append(len(msgspec.json.encode(state.snapshot())))
    assert max(sizes) - sizes[0] < 100


def test_one_that_ends_where_it_waits_keeps_its_rank_there_and_counts_once() -> None:
    state = requested(5)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    state.created(TrialId(4), {})
    state.failed(TrialId(3), 4)
    state.paused(TrialId(4), 4, 2.5)
    promotion = state.next_promotion()
    assert promotion is not None
    assert promotion.reason == "rank 1 of 5 at resource 4, goes on to 8"
    assert go_on(state)[-1] == (4, 4, 8, None), "the worst is the one that failed"


def test_trials_pause_and_branch_on_their_way_to_the_end() -> None:
    assert (FOUR.pauses, FOUR.branches, FOUR.max_resource) == (True, True, 12)
    assert [(line.from_resource, line.to_resource, line.trials) for line in FOUR.forecast(9)] == [(0, 12, 9)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_resource": 1}, "max_resource=1 is too small"),
        ({"max_resource": 2.5}, "max_resource=2.5 is not an integer"),
        ({"perturbation_interval": 0}, "perturbation_interval=0 is too small"),
        ({"perturbation_interval": 12}, "is not below max_resource=12.*perturbation_interval <= 6"),
        ({"population": 1}, "population=1 is too small"),
        ({"quantile": 0}, "quantile=0 must be above 0"),
        ({"quantile": 0.6}, "quantile=0.6 must be .* at most 0.5"),
        ({"quantile": "a"}, "quantile='a' is not a finite number"),
        ({"quantile": True}, "quantile=True is not a finite number"),
        ({"resample_probability": 1.5}, "is not a probability"),
        ({"resample_probability": float("nan")}, "is not a finite number"),
        ({"factors": ()}, r"factors=\(\): they are numbers above 0"),
        ({"factors": 1.2}, "factors=1.2: they are numbers"),
        ({"factors": (0.8, 1)}, "other than 1"),
        ({"factors": (0.8, -1)}, "numbers above 0"),
        ({"factors": ("a",)}, "factors='a' is not a finite number"),
        ({"synchronous": 1}, "synchronous=1 is neither True nor False"),
    ],
)
def test_what_cannot_be_is_said_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ResourceError, match=words):
        PBT(**({"max_resource": 12, "perturbation_interval": 4} | options))


@pytest.mark.parametrize(
    ("perturb", "words"),
    [
        ("lr", r"write perturb=\['lr'\]"),
        ([], "names no parameter"),
        ([1], "not a list of names"),
        (3, "not a list of names"),
    ],
)
def test_perturb_is_a_list_of_names(perturb: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        PBT(max_resource=12, perturbation_interval=4, perturb=perturb)


def test_a_space_is_needed_to_begin() -> None:
    with pytest.raises(SpaceError, match=r"begin\(space, seed\)"):
        FOUR.begin()
    with pytest.raises(SpaceError, match="did you mean 'x'"):
        PBT(max_resource=12, perturbation_interval=4, perturb=["xx"]).begin(SPACE)


def test_a_population_above_the_trials_is_an_error_and_a_tiny_one_is_named() -> None:
    eight = PBT(max_resource=12, perturbation_interval=4, population=8)
    with pytest.raises(ResourceError, match=r"population=8 is larger than num_trials=7.*population=7"):
        eight.warnings(7)
    assert eight.warnings(16) == eight.warnings(None) == FOUR.warnings(4) == FOUR.warnings(None) == []
    (note,) = eight.warnings(19)
    assert note == (
        "The last population has 3 trials, fewer than 1/quantile = 4, so that none is ever among the worst and takes "
        "over another's weights. Use 4 trials or more or quantile=0.34."
    )
    assert PBT(max_resource=12, perturbation_interval=4, quantile=0.34).warnings(3) == []
    assert "A population has 3 trials" in FOUR.warnings(3)[0]
    assert "A population has 1 trial," in FOUR.warnings(1)[0]


SCHEDULERS = [
    pytest.param(FOUR, id="pbt"),
    pytest.param(PBT(max_resource=12, perturbation_interval=4, synchronous=True), id="in step"),
    pytest.param(PBT(max_resource=9, perturbation_interval=2, population=3, quantile=0.4), id="in populations"),
]
SCORES: list[float | None] = [0.0, 0.5, 0.5, 1.0, None, float("nan")]


class Brute:
    """The rule told by scanning everything, to compare with."""

    def __init__(self, scheduler: PBT, num_trials: int) -> None:
        self.scheduler, self.num_trials = scheduler, num_trials
        self.size = scheduler.population or num_trials
        self.came: dict[tuple[int, int], dict[int, float]] = {}
        self.waits: dict[int, int] = {}
        self.heads: dict[int, int] = {}
        self.released: set[int] = set()
        self.created = 0

    def after(self, resource: int) -> int:
        interval = self.scheduler.perturbation_interval
        return min((resource // interval + 1) * interval, self.scheduler.max_resource)

    def come(self, trial: int, resource: int, score: float | None) -> None:
        worst = score is None or score != score
        self.came.setdefault((trial // self.size, resource), {})[trial] = float("inf") if worst else score  # type: ignore[assignment]

    def verdict(self, trial: int) -> tuple[bool, set[int]]:
        """Return whether a waiting trial is one of the worst, and of whom it may take over."""
        came = self.came[trial // self.size, self.waits[trial]]
        ranked = sorted(came, key=lambda other: (came[other], other))
        quota = int(round(len(ranked) * self.scheduler.quantile * 1000) // 1000)
        living = self.waits.keys() | self.heads.keys()
        best = {other for other in ranked[:quota] if other in living and came[other] < float("inf")}
        return ranked.index(trial) >= len(ranked) - quota, best

    def may_go_on(self) -> list[int]:
        held = [trial for trial in self.waits if trial not in self.released]
        for trial in held:
            number = trial // self.size
            full = min((number + 1) * self.size, self.num_trials)
            others = [other for other in [*self.heads, *self.waits] if other // self.size == number]
            if self.created >= full and not (self.scheduler.synchronous and any(o not in held for o in others)):
                self.released.add(trial)
        return sorted(self.released)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), num_trials=st.integers(3, 12), steps=st.integers(0, 150))
def test_whatever_happens_who_goes_on_and_of_whom_is_as_the_rule_says(
    scheduler: PBT, seed: int, num_trials: int, steps: int
) -> None:
    chance = random.Random(seed)
    state, brute = requested(num_trials, scheduler, seed), Brute(scheduler, num_trials)
    for _ in range(steps):
        promotion = state.next_promotion()
        legal = brute.may_go_on()
        assert (promotion is None) == (not legal)
        if promotion is not None:
            assert promotion.trial in legal
            mates = [trial for trial in legal if trial // brute.size == legal[0] // brute.size]
            assert promotion.trial in mates
            assert promotion.from_resource == min(brute.waits[trial] for trial in mates)
            is_worst, best = brute.verdict(promotion.trial)
            assert (promotion.donor is not None) == (is_worst and bool(best))
            assert promotion.donor is None or promotion.donor in best
            assert is_worst or not scheduler.synchronous or not any(brute.verdict(mate)[0] for mate in mates)
        match chance.choice(["create", "arrive", "arrive", "arrive", "go", "go", "go", "end", "again"]):
            case "create" if brute.created < num_trials:
                trial = TrialId(brute.created)
                brute.created += 1
                brute.heads[trial] = state.first_target(trial)
                state.created(trial, {})
            case "arrive" if brute.heads:
                trial = TrialId(chance.choice(list(brute.heads)))
                here, score = brute.heads.pop(trial), chance.choice(SCORES)
                if here == scheduler.max_resource:
                    state.completed(trial, here, score)
                else:
                    brute.come(trial, here, score)
                    brute.waits[trial] = here
                    state.paused(trial, here, None if score != score else score)
            case "go" if promotion is not None:
                here = brute.waits.pop(promotion.trial)
                brute.released.remove(promotion.trial)
                stands = here
                if not scheduler.synchronous and promotion.donor is not None:
                    stands = chance.randint(here, scheduler.max_resource - 1)
                brute.heads[promotion.trial] = brute.after(stands)
                if promotion.donor is None:
                    state.promoted(promotion.trial, here, brute.after(stands))
                else:
                    state.branched(promotion.trial, promotion.donor, {}, stands, brute.after(stands))
            case "end" if brute.heads and chance.random() < 0.3:
                trial = TrialId(chance.choice(list(brute.heads)))
                here = brute.heads.pop(trial)
                score = chance.choice(SCORES)
                if chance.random() < 0.5:
                    brute.come(trial, here, score)
                    state.completed(trial, here - 1, score)
                else:
                    brute.come(trial, here, None)
                    state.failed(trial, here)
            case "again":
                text = msgspec.json.encode(state.snapshot())
                state = requested(None, scheduler, seed)
                state.restore(msgspec.json.decode(text))
                assert msgspec.json.encode(state.snapshot()) == text
            case _:
                pass
