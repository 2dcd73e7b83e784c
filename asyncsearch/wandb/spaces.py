"""The ``parameters`` of a sweep as a space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.space import Space, choice, constant, loguniform, randint, uniform
from asyncsearch.space.domains import Domain
from asyncsearch.wandb.distributions import SHAPES, SweepDomain

_EXAMPLE = "'lr': {'distribution': 'log_uniform_values', 'min': 1e-4, 'max': 1e-1}"


def space_of(parameters: Any) -> Space:
    """Return the space of a sweep's parameters, nested ones as nested mappings.

    Raises:
        UsageError: an entry breaks its rule; the message names it.
    """
    return Space(_tree("", parameters))


def _tree(prefix: str, parameters: Any) -> dict[str, Any]:
    if not isinstance(parameters, Mapping) or not parameters:
        raise UsageError(f"parameters{prefix and f' of {prefix!r}'}: {parameters!r} is no mapping: write {_EXAMPLE}.")
    return {str(name): _entry(f"{prefix}.{name}".lstrip("."), one) for name, one in parameters.items()}


def _entry(name: str, given: Any) -> Any:
    if not isinstance(given, Mapping):
        raise UsageError(f"{name}: {given!r} describes no parameter: write {{'value': {given!r}}}, or {_EXAMPLE}.")
    entry = dict(given)
    if "parameters" in entry:
        inner = entry.pop("parameters")
        _require_used(name, entry)
        return _tree(name, inner)
    return _domain(name, entry)


def _domain(name: str, entry: dict[str, Any]) -> Domain:
    word = str(entry.pop("distribution", "") or _usual(name, entry))
    if word == "constant":
        value = _taken(name, entry, "value")
        return _checked(name, entry, constant(value))
    if word in ("categorical", _WEIGHTED):
        values = _taken(name, entry, "values")
        if not isinstance(values, list | tuple) or not values:
            raise UsageError(f"{name}: values={values!r} is no list of values.")
        weights = _taken(name, entry, "probabilities") if word == _WEIGHTED else None
        return _checked(name, entry, choice(*values) if weights is None else _weighted(name, values, weights))
    if word == "int_uniform":
        low, high = _number(name, entry, "min"), _number(name, entry, "max")
        if low != int(low) or high != int(high):
            raise UsageError(f"{name}: int_uniform needs integers as min and max, and got {low} and {high}.")
        return _checked(name, entry, constant(int(low)) if low == high else randint(int(low), int(high)))
    shape = word.removeprefix("q_")
    if shape not in SHAPES:
        raise UsageError(
            f"{name}: distribution {word!r} is not known here: write one of constant, categorical, int_uniform, "
            f"{', '.join(SHAPES)}, or q_ before one of these."
        )
    ends = ("mu", "sigma") if "normal" in shape else ("min", "max")
    if "normal" in shape:
        entry.setdefault("mu", 0.0)
        entry.setdefault("sigma", 1.0)
    first, second = (_number(name, entry, one) for one in ends)
    step = entry.pop("q", 1) if word != shape else None
    if step is not None and (isinstance(step, bool) or not isinstance(step, int | float) or not step > 0):
        raise UsageError(f"{name}: q={step!r} is no positive number.")
    _require_range(name, shape, first, second)
    if step is None and shape == "uniform":
        return _checked(name, entry, uniform(first, second))
    if step is None and shape in ("log_uniform", "log_uniform_values", "inv_log_uniform_values"):
        ends_of = (math.exp(first), math.exp(second)) if shape == "log_uniform" else (first, second)
        return _checked(name, entry, loguniform(*ends_of))
    return _checked(name, entry, SweepDomain(shape, first, second, step))


_WEIGHTED = "categorical_w_probabilities"


def _weighted(name: str, values: list[Any] | tuple[Any, ...], weights: Any) -> Domain:
    """Return a choice by probabilities; a value of probability 0 never comes."""
    is_right = isinstance(weights, list | tuple) and len(weights) == len(values)
    if not is_right or any(isinstance(one, bool) or not isinstance(one, int | float) or one < 0 for one in weights):
        raise UsageError(f"{name}: probabilities={weights!r}: write a number from 0 to 1 for each of the values.")
    if not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
        raise UsageError(f"{name}: probabilities={weights!r}: their sum is {sum(weights):g}, and must be 1.")
    kept = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0]
    return choice(*[value for value, _ in kept], weights=[weight for _, weight in kept])


def _usual(name: str, entry: dict[str, Any]) -> str:
    """Return the distribution of an entry that names none."""
    if "value" in entry:
        return "constant"
    if "values" in entry:
        return _WEIGHTED if "probabilities" in entry else "categorical"
    if "min" in entry and "max" in entry:
        is_whole = all(isinstance(entry[one], int) and not isinstance(entry[one], bool) for one in ("min", "max"))
        return "int_uniform" if is_whole else "uniform"
    if {"mu", "sigma"} & entry.keys():
        return "normal"
    raise UsageError(f"{name}: {entry!r} describes no values: write value, values, or min and max, as in {_EXAMPLE}.")


def _taken(name: str, entry: dict[str, Any], key: str) -> Any:
    if key not in entry:
        raise UsageError(f"{name}: there is no {key!r} in {entry!r}.")
    return entry.pop(key)


def _number(name: str, entry: dict[str, Any], key: str) -> float:
    value = _taken(name, entry, key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        words = " (YAML reads 1e-4 as text: write 0.0001 or 1.0e-4)" if isinstance(value, str) else ""
        raise UsageError(f"{name}: {key}={value!r} is no number{words}.")
    return float(value)


def _require_range(name: str, shape: str, first: float, second: float) -> None:
    if "normal" in shape:
        if second <= 0:
            raise UsageError(f"{name}: sigma={second:g} must be above 0.")
    elif first >= second:
        raise UsageError(f"{name}: min={first:g} must be below max={second:g}.")
    elif shape.endswith("_values") and first <= 0:
        raise UsageError(f"{name}: {shape} needs min above 0, and got {first:g}.")
    elif shape == "log_uniform" and second > 700:
        raise UsageError(
            f"{name}: log_uniform takes exponents, exp({second:g}) is no float: for the values themselves write "
            "'log_uniform_values'."
        )


def _checked(name: str, entry: dict[str, Any], domain: Domain) -> Domain:
    _require_used(name, entry)
    return domain


def _require_used(name: str, entry: Mapping[str, Any]) -> None:
    """Refuse what an entry has beside what describes it: nothing is ignored."""
    if entry:
        raise UsageError(f"{name}: {', '.join(map(repr, entry))} has no effect here: leave it out.")
