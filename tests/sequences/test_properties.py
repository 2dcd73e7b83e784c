"""For random sequences: keys are equal exactly where values are equal by construction."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from asyncsearch import sequences
from asyncsearch.ids import NodeKey
from asyncsearch.plan.keys import path
from asyncsearch.sequences import Sequence, from_json, multistep, present
from tests.sequences.meaning import meaning
from tests.sequences.strategies import HORIZON, SEQUENCES, VALUES

ROOT = NodeKey("root")
FRACTIONS = (0.0, 0.25, 0.5, 0.999)

CONFIGURATIONS = st.fixed_dictionaries({"lr": VALUES, "m": VALUES})


def as_params(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.to_json() if isinstance(value, Sequence) else value for name, value in values.items()}


def shared_by_path(first: dict[str, Any], second: dict[str, Any], horizon: int) -> int:
    """Return the largest s up to the horizon for which two configurations share [0, s)."""
    one, two = (path(ROOT, as_params(values), horizon) for values in (first, second))
    for at in range(horizon):
        if [step for step in one if step.start <= at] != [step for step in two if step.start <= at]:
            return at
    return horizon


def shared_by_meaning(first: dict[str, Any], second: dict[str, Any], horizon: int) -> int:
    for at in range(horizon):
        if any(meaning(first[name], at) != meaning(second[name], at) for name in first):
            return at
    return horizon


@settings(max_examples=400, deadline=None)
@given(CONFIGURATIONS, CONFIGURATIONS, st.integers(1, HORIZON))
@example({"lr": 0.1, "m": 1}, {"lr": multistep(0.1, [9]), "m": 1}, 24)
def test_keys_are_equal_exactly_where_values_are_equal_by_construction(
    first: dict[str, Any], second: dict[str, Any], horizon: int
) -> None:
    assert shared_by_path(first, second, horizon) == shared_by_meaning(first, second, horizon)


@settings(max_examples=200, deadline=None)
@given(SEQUENCES, SEQUENCES)
def test_equal_keys_mean_the_same_bits_at_every_moment(first: Sequence, second: Sequence) -> None:
    shared = shared_by_path({"lr": first}, {"lr": second}, HORIZON)
    for at in range(shared):
        for part in FRACTIONS:
            one, two = first.at(at + part), second.at(at + part)
            assert (type(one), one) == (type(two), two)


@settings(max_examples=200, deadline=None)
@given(SEQUENCES)
def test_a_node_begins_exactly_where_the_meaning_changes(sequence: Sequence) -> None:
    starts = [step.start for step in path(ROOT, {"lr": sequence.to_json()}, HORIZON)]
    changes = [at for at in range(1, HORIZON) if meaning(sequence, at) != meaning(sequence, at - 1)]
    assert starts == [0, *changes]


@settings(max_examples=200, deadline=None)
@given(SEQUENCES, st.integers(1, HORIZON), st.integers(1, HORIZON))
def test_a_longer_horizon_only_adds_nodes(sequence: Sequence, one: int, two: int) -> None:
    params = {"lr": sequence.to_json()}
    short, long = path(ROOT, params, min(one, two)), path(ROOT, params, max(one, two))
    assert long[: len(short)] == short
    assert all(step.start >= min(one, two) for step in long[len(short) :])


@settings(max_examples=200, deadline=None)
@given(SEQUENCES)
def test_present_values_are_those_of_the_pieces(sequence: Sequence) -> None:
    pieces = sequence.pieces(HORIZON)
    assert pieces[0].start == 0
    params = {"lr": sequence.to_json(), "model": {"lr": [sequence.to_json()]}, "n": 3}
    for at in range(HORIZON):
        formula = [piece.formula for piece in pieces if piece.start <= at][-1]
        for part in FRACTIONS:
            value = formula.at(at + part)
            assert present(params, at + part) == {"lr": value, "model": {"lr": [value]}, "n": 3}


@settings(max_examples=200, deadline=None)
@given(SEQUENCES)
def test_values_are_those_of_the_definitions(sequence: Sequence) -> None:
    for at in range(HORIZON):
        meant = meaning(sequence, at)
        if meant[0] == "const":
            assert (type(sequence.at(at + 0.5)), sequence.at(at + 0.5)) == meant[1:]
        elif meant[0] == "line":
            assert sequence.at(at + 0.5) == float(meant[2] + meant[1] * (at + Fraction(1, 2)))
        else:
            assert isinstance(sequence.at(at), float)


@settings(max_examples=200, deadline=None)
@given(SEQUENCES)
def test_json_code_and_pickles_make_the_same_sequence(sequence: Sequence) -> None:
    described = sequence.to_json()
    assert json.loads(json.dumps(described)) == described
    sequence.at(3)
    code = eval(repr(sequence), vars(sequences).copy())
    for copy in (from_json(described), pickle.loads(pickle.dumps(sequence)), code):
        assert copy == sequence
        assert copy.to_json() == described
        assert [copy.at(at) for at in range(HORIZON)] == [sequence.at(at) for at in range(HORIZON)]


@settings(max_examples=50, deadline=None)
@given(SEQUENCES)
def test_every_sequence_has_a_picture(sequence: Sequence) -> None:
    assert sequence.plot().startswith("<svg")
    assert "nan" not in sequence.plot(3)
