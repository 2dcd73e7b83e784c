"""How hyper-parameters are shown: as booleans, numbers or texts, with the values that they may have."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch import choice, loguniform, randint, sequences
from asyncsearch.report.tensorboard import ScalarKind, ShownParameter, scalar_of, shown_parameters
from asyncsearch.sequences.params import flat
from asyncsearch.space.domains import Domain


def shown(*values: Any, domain: Domain | None = None) -> ShownParameter:
    [found] = shown_parameters([{"x": value} for value in values], {} if domain is None else {"x": domain})
    return found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False], ScalarKind.BOOLEAN),
        ([1, 0.5], ScalarKind.NUMBER),
        (["cnn", "rnn"], ScalarKind.TEXT),
        ([1, "auto"], ScalarKind.TEXT),
        ([1, True], ScalarKind.TEXT),
        ([None, 1], ScalarKind.TEXT),
        ([[1, 2]], ScalarKind.TEXT),
    ],
)
def test_all_values_of_a_parameter_are_shown_in_one_way(values: list[Any], kind: ScalarKind) -> None:
    assert shown(*values).kind is kind


def test_a_domain_says_what_values_there_may_be() -> None:
    assert shown(0.1, domain=loguniform(0.001, 1)).interval == (0.001, 1.0)
    assert shown(2, domain=randint(1, 4)).interval == (1.0, 4.0)
    assert shown("a", domain=choice("a", "b")).choices == ("a", "b")
    assert shown(1, domain=choice(1, "auto")) == ShownParameter("x", ScalarKind.TEXT, ("1", "auto"))
    assert shown([1], domain=choice([1], [2])).choices == ()


def test_without_a_domain_any_value_may_come() -> None:
    assert (shown(0.1).interval, shown("a").choices) == (None, ())


def test_nested_parameters_have_dotted_names_and_are_sorted() -> None:
    found = shown_parameters([{"model": {"width": 8}, "lr": 0.1}, {"kind": "cnn"}], {})
    assert [parameter.name for parameter in found] == ["kind", "lr", "model.width"]


def test_a_schedule_is_shown_as_people_write_it() -> None:
    [(_, value)] = flat({"lr": sequences.step(0.1, 3).to_json()})
    assert scalar_of(value, ScalarKind.TEXT) == str(sequences.step(0.1, 3))


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_beyond_all_numbers_of_the_format_is_infinite(sign: int) -> None:
    (shown,) = shown_parameters([{"n": sign * 10**400}, {"n": 1}], {})
    assert scalar_of(sign * 10**400, shown.kind) == sign * float("inf")
