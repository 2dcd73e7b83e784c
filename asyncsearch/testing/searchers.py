"""The laws of every searcher, for those who write their own.

class TestMine(SearcherConformance):
    def make(self) -> Searcher:
        return Mine()
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import SpaceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers.asha import ASHA
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space, choice, lograndint, loguniform, quniform, randint, uniform
from asyncsearch.testing.base_suite import MethodSuite
from asyncsearch.testing.checked_methods import CheckedSearcher, text_of
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import coarse
from asyncsearch.trial import Params

_STEPS = (40, 150)
_SEED = 3
_MAX_CALLS = 5_000
"""Calls of a constraint after which a proposal counts as endless; the space gives up after 1,000 candidates."""

PARAMETERS: Mapping[str, Any] = {
    "optimizer": choice("sgd", "adam"),
    "momentum": uniform(0.0, 0.99).when(optimizer="sgd"),
    "lr": loguniform(1e-5, 1e-1),
    "dropout": quniform(0.0, 0.5, 0.25),
    "model": {"layers": randint(1, 3), "width": lograndint(16, 64), "activation": "relu"},
}
"""One parameter of each kind, one with a condition, and a constant."""


def _is_small(params: Mapping[str, Any]) -> bool:
    return bool(params["model"]["layers"] * params["model"]["width"] <= 96)


class SearcherConformance(MethodSuite):
    """Laws that hold for any searcher; ``make`` gives the one to try."""

    parameters: Mapping[str, Any] = PARAMETERS
    """The space. Another searcher may need fewer kinds; keep ``model.layers`` and ``model.width``."""
    learns = False
    """Whether proposals depend on reports; then the i-th one need not be a function of (seed, i)."""
    draws = True
    """Whether another seed gives other proposals."""
    orders = 6
    """How many random orders of events are tried."""
    num_trials = 12
    """How many proposals are asked for where one trial is not enough."""

    def make(self) -> Searcher:
        """Return the searcher to try, each time the same."""
        raise NotImplementedError(f"{type(self).__name__} must have a method make(self) that returns your searcher.")

    def space(self, **more: Any) -> Space:
        """Return the space to search, with constraints and initial points if they are given."""
        return self.make().extended(Space(self.parameters, **more))

    def test_every_proposal_lies_in_the_space(self) -> None:
        space = self.space()
        for number, params in enumerate(self._proposals(space)):
            _require_inside(space, number, params)

    def test_every_proposal_obeys_the_constraints(self) -> None:
        space = self.space(constraints=[_is_small])
        for number, params in enumerate(self._proposals(space)):
            assert _is_small(params), f"proposal {number} breaks a constraint: {params}"
            _require_inside(space, number, params)

    def test_constraints_that_reject_everything_are_an_error_after_a_bounded_number_of_tries(self) -> None:
        calls = 0

        def nothing(_: Mapping[str, Any]) -> bool:
            nonlocal calls
            calls += 1
            assert calls <= _MAX_CALLS * self.num_trials, "it looks for an allowed configuration without end"
            return False

        space = self.space(constraints=[nothing])
        try:
            self._proposals(space)
        except SpaceError:
            return
        raise AssertionError("constraints reject everything, and there was no SpaceError")

    def test_initial_points_come_first_and_in_order(self) -> None:
        first: Params = {"optimizer": "sgd", "momentum": 0.5, "lr": 0.01, "dropout": 0.25, "model": {"layers": 2}}
        first["model"]["width"] = 17
        points = [self._kept(first), {"model": {"width": 64}}]
        proposals = self._proposals(self.space(initial=points))
        for number, point in enumerate(points):
            assert _has(proposals[number], point), f"proposal {number} is {proposals[number]}, not the point {point}"

    def test_the_same_seed_proposes_the_same(self) -> None:
        space = self.space()
        assert self._proposals(space) == self._proposals(space), "the same seed proposed otherwise"

    def test_another_seed_proposes_something_else(self) -> None:
        space = self.space()
        if self.draws:
            assert self._proposals(space) != self._proposals(space, _SEED + 1), "two seeds propose the same"

    def test_a_proposal_is_a_function_of_seed_and_number(self) -> None:
        if self.learns:
            return
        space = self.space()
        there = self._proposals(space)
        state = self.make().begin(space, _SEED)
        numbers = list(range(len(there)))
        random.Random(0).shuffle(numbers)
        for number in numbers:
            assert state.propose(number) == there[number], f"proposal {number} depends on what was asked before"
        for number in numbers:
            state.created(TrialId(number), there[number])
            state.reported(TrialId(number), 1, float(number))
            state.failed(TrialId(number), 1)
            assert state.propose(number) == there[number], f"proposal {number} depends on what was reported"

    def test_what_a_trial_does_to_its_params_changes_no_proposal(self) -> None:
        state = self.make().begin(self.space(), _SEED)
        params = state.propose(0)
        before = json.dumps(params)
        assert params is not None
        _spoil(params)
        assert json.dumps(state.propose(0)) == before, "a proposal is the searcher's own object: give out copies"

    def test_once_exhausted_it_stays_so_and_its_length_says_when(self) -> None:
        state = self.make().begin(self.space(), _SEED)
        length = state.length()
        if length is None:
            return
        assert length > 0, f"length() is {length}, and begin() raised no SpaceError"
        for number in {0, length // 2, length - 1}:
            assert state.propose(number) is not None, f"length() is {length}, and there is no proposal {number}"
        for number in (length, length + 1, length + 1_000):
            assert state.propose(number) is None, f"length() is {length}, and there is a proposal {number}"

    def test_two_studies_share_nothing(self) -> None:
        searcher, space = self.make(), self.space()
        one, other = searcher.begin(space, _SEED), searcher.begin(space, _SEED)
        before = text_of(other)
        params = one.propose(0)
        assert params is not None
        one.created(TrialId(0), params)
        one.completed(TrialId(0), 3, 0.5)
        assert text_of(other) == before, "a fact of one study reached the searcher of another one"

    def test_whatever_happens_in_whatever_order_its_answers_and_its_memory_are_sound(self) -> None:
        for seed in range(self.orders):
            world = self._after_events(seed)
            world.require_memory()
            world.drain()
            world.require_memory()
            for trial in world.state.trials:
                _require_inside(self.space(), trial.id, trial.params)

    def test_it_sees_no_difference_between_min_and_max(self) -> None:
        low, high = (self._after_events(1, mode=mode) for mode in ("min", "max"))
        params = [[trial.params for trial in world.state.trials] for world in (low, high)]
        assert params[0] == params[1], "mode decides what is proposed"

    def _kept(self, point: Params) -> Params:
        """Return the part of a point that the space has."""
        return {name: value for name, value in point.items() if name in self.parameters}

    def _proposals(self, space: Space, seed: int = _SEED) -> list[Params]:
        """Return the first proposals; each becomes a trial and ends before the next one."""
        state = self.make().begin(space, seed)
        proposals: list[Params] = []
        for number in range(self.num_trials):
            params = state.propose(number)
            if params is None:
                break
            proposals.append(params)
            _live(state, number, params)
        return proposals

    def _state(self, *, is_checked: bool = False, mode: str = "min", **config: Any) -> StudyState:
        searcher, space, scheduler = self.make(), self.space(), ASHA(max_resource=9)
        settings = EngineConfig(study="test", metric="loss", mode=mode, seed=_SEED, **config)
        begun: SearcherState
        if is_checked:
            begun = CheckedSearcher(lambda: searcher.begin(space, _SEED))
        else:
            begun = searcher.begin(space, _SEED)
        return StudyState(settings, begun, scheduler.begin(space, settings.seed), scheduler.max_resource)

    def _after_events(self, seed: int, mode: str = "min") -> RandomCluster:
        """Return agents after many random events, which ``seed`` chooses."""
        chance = random.Random(seed)
        world = RandomCluster(
            lambda: self._state(is_checked=True, mode=mode, max_failures=seed % 3),
            chance,
            own_ends=0.06 if seed % 2 else 0.0,
            report=lambda loss: coarse(loss, 1.0 if mode == "min" else -1.0),
        )
        world.live(chance.randint(*_STEPS))
        return world


def _require_inside(space: Space, number: int, params: Params) -> None:
    assert json.loads(json.dumps(params)) == params, f"proposal {number} is not plain JSON: {params!r}"
    try:
        space.validate(params)
    except SpaceError as error:
        raise AssertionError(f"proposal {number} lies outside the space: {error}") from error


def _live(state: SearcherState, number: int, params: Params) -> None:
    """Let a proposal become a trial and end: completed, stopped without a value, or failed, by its number."""
    trial, notes = TrialId(number), state.notes(number)
    state.created(trial, params)
    if notes:
        state.noted(trial, notes)
    if trial % 3 == 2:
        state.failed(trial, 0)
        return
    state.reported(trial, 1, 1.0 / (1 + trial))
    if trial % 3:
        state.reported(trial, 3, None)
        state.stopped(trial, 3, None)
        return
    state.paused(trial, 1, 1.0 / (1 + trial))
    state.promoted(trial, 1, 3)
    state.reported(trial, 3, 0.5 / (1 + trial))
    state.completed(trial, 3, 0.5 / (1 + trial))


def _has(params: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    return all(
        name in params and (_has(params[name], value) if isinstance(value, Mapping) else params[name] == value)
        for name, value in point.items()
    )


def _spoil(params: Params) -> None:
    for name, value in params.items():
        if isinstance(value, dict):
            _spoil(value)
        elif isinstance(value, list):
            value.clear()
        else:
            params[name] = "spoilt"
