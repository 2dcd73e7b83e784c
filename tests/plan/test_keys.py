"""Keys and paths: what has one key is one thing, and nothing else is."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from asyncsearch.errors import SpaceError
from asyncsearch.ids import NodeKey, PathStep
from asyncsearch.plan.keys import canonical, digest, joined, path, root_key
from asyncsearch.searchers import GridSearch
from asyncsearch.sequences import multistep, warmup
from asyncsearch.testing.instruction_count import instructions
from asyncsearch.trial import UNBOUNDED
from tests.sequences.spaces import RESNET56_EPOCHS, RESNET56_TRIALS, RESNET56_UNIQUE, resnet56_space

ROOT = root_key("study", 0)


def resnet56_trials() -> list[dict[str, Any]]:
    state = GridSearch().begin(resnet56_space(), 0)
    return [state.propose(number) or {} for number in range(state.length() or 0)]


def unique_units(paths: list[tuple[PathStep, ...]], horizon: int) -> int:
    """Return how many units there are to train, each (node, unit) once."""
    lengths: dict[NodeKey, int] = {}
    for steps in paths:
        for at, step in enumerate(steps):
            stop = steps[at + 1].start if at + 1 < len(steps) else horizon
            lengths[step.node] = max(lengths.get(step.node, 0), stop - step.start)
    return sum(lengths.values())


class TestPath:
    def test_without_sequences_it_is_one_node(self) -> None:
        params = {"lr": 0.1, "model": {"layers": 3, "act": "relu"}, "tags": ["a", {"b": None}]}
        assert path(ROOT, params, 100) == path(ROOT, params, UNBOUNDED)
        assert path(ROOT, params, 100) == (PathStep(0, digest(ROOT, "0", canonical(params))),)

    def test_salt_keeps_everything_to_itself(self) -> None:
        params = {"lr": warmup(5, multistep(0.1, [9])).to_json()}
        paths = [path(ROOT, params, 20, salt) for salt in ("", "1", "2")]
        assert len({step.node for steps in paths for step in steps}) == 9
        assert [[step.start for step in steps] for steps in paths] == [[0, 5, 9]] * 3

    def test_a_trial_that_shares_nothing_has_the_node_that_it_always_had(self) -> None:
        assert path(ROOT, {"lr": 0.1}, 9, "7")[0].node == digest(ROOT, "0", canonical({"lr": 0.1}), "7")

    def test_roots_keep_studies_apart(self) -> None:
        params = {"lr": multistep(0.1, [9]).to_json()}
        nodes = {step.node for seed in (0, 1) for step in path(root_key("study", seed), params, 20)}
        assert len(nodes) == 4

    def test_keys_never_change_between_releases(self) -> None:
        """A changed key makes every checkpoint of a store unreachable."""
        params = {"lr": warmup(5, multistep(0.1, [90])).to_json(), "bs": 128}
        steps = path(NodeKey("00" * 16), params, 100)
        assert steps == (
            PathStep(0, NodeKey("17f79971c17f29467f704cbe1b6f2bd5")),
            PathStep(5, NodeKey("1d9e39e93653e570ad2e5f6d9ea969fe")),
            PathStep(90, NodeKey("a86aea1c561f6ce525c4d428085ac177")),
        )

    def test_malformed_sequence_is_refused(self) -> None:
        with pytest.raises(SpaceError, match="no sequence 'stpe'"):
            path(ROOT, {"lr": {"sequence": "stpe"}}, 9)


class TestBenchmarkSpace:
    """notes/stages.md 3: 448 trials at 120 epochs."""

    def test_its_merge_rate_is_that_of_the_note(self) -> None:
        trials = resnet56_trials()
        assert len(trials) == RESNET56_TRIALS
        total = RESNET56_TRIALS * RESNET56_EPOCHS
        unique = unique_units([path(ROOT, params, RESNET56_EPOCHS) for params in trials], RESNET56_EPOCHS)
        assert (total, unique) == (53_760, RESNET56_UNIQUE)
        assert round(total / unique, 4) == 2.4481

    def test_units_of_a_grid_are_products_of_the_distinct_starts_of_its_axes(self) -> None:
        """The grid law of notes/stages.md 2.3."""
        trials = resnet56_trials()
        axes = [["lr"], ["batch_size"], ["optimizer", "momentum"], ["weight_decay"]]

        def beginnings(names: list[str]) -> list[tuple[PathStep, ...]]:
            parts = {canonical(part): part for part in ({n: p[n] for n in names if n in p} for p in trials)}
            return [path(ROOT, part, RESNET56_EPOCHS) for part in parts.values()]

        def distinct(paths: list[tuple[PathStep, ...]], unit: int) -> int:
            return len({tuple(step for step in steps if step.start <= unit) for steps in paths})

        whole = [path(ROOT, params, RESNET56_EPOCHS) for params in trials]
        split = [beginnings(names) for names in axes]
        assert [len(paths) for paths in split] == [14, 4, 4, 2]
        for unit in range(0, RESNET56_EPOCHS, 5):
            assert distinct(whole, unit) == math.prod(distinct(paths, unit) for paths in split)

    @pytest.mark.parametrize(("horizon", "rate"), [(15, 7.30), (60, 5.95), (90, 4.18), (220, 1.48)])
    def test_merge_rates_of_other_lengths(self, horizon: int, rate: float) -> None:
        unique = unique_units([path(ROOT, params, horizon) for params in resnet56_trials()], horizon)
        assert round(RESNET56_TRIALS * horizon / unique, 2) == rate

    def test_clones_at_every_rung_are_neighbours(self) -> None:
        trials = resnet56_trials()
        for rung, distinct in ((15, 80), (60, 80), (90, 224), (120, 448)):
            ends = [path(ROOT, params, rung)[-1].node for params in trials]
            changes = sum(one != other for one, other in pairwise(ends))
            assert (len(set(ends)), changes + 1) == (distinct, distinct)

    def test_a_path_costs_instructions_by_its_nodes_not_by_its_units(self) -> None:
        horizon = 100 * RESNET56_EPOCHS
        for params in resnet56_trials()[::37]:
            executed = instructions(partial(path, ROOT, params, horizon))
            assert executed < 10_000 * len(path(ROOT, params, horizon)), params


def test_what_a_way_has_in_common_with_another_one_is_kept_once() -> None:
    def way(*names: str) -> tuple[PathStep, ...]:
        return tuple(PathStep(start, NodeKey(name)) for start, name in enumerate(names))

    other = way("a", "b", "c")
    for names, common in (("abd", 2), ("ab", 2), ("abcd", 3), ("xbc", 0), ("a", 1), ("", 0)):
        result = joined(way(*names), other)
        assert result == way(*names)
        assert [mine is its for mine, its in zip(result, other, strict=False)].count(True) == common
