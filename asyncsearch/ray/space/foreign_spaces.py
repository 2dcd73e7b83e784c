"""Spaces of other libraries that a program hands to a search algorithm: a domain becomes the one that draws alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.other_libraries.domains import MeantDomain, NoCounterpartError, is_foreign, meant_object
from asyncsearch.ray.space.spaces import ChoiceDomain, NormalDomain, RangeDomain


def with_tune_domains(value: Any) -> Any:
    """Return a space in which the domains of other libraries are those of Tune.

    Raises:
        SpaceError: one has no counterpart; the message says what to write.
    """
    if isinstance(value, Mapping):
        return {key: with_tune_domains(inner) for key, inner in value.items()}
    return _of_another_library(value) if is_foreign(value) else value


def _of_another_library(value: Any) -> Any:
    try:
        meant = meant_object(value)
    except NoCounterpartError as error:
        raise SpaceError(f"{value!r}: {error}; or write the space with tune, tune.uniform(0, 1).") from error
    return value if meant is None else _domain(meant)


def with_chosen_values(point: Mapping[str, Any], space: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point to evaluate in which a choice of another library has its value, where its number was given."""
    return {
        name: _chosen(value, space[name]) if name in given and is_foreign(given[name]) else value
        for name, value in point.items()
    }


def _chosen(value: Any, domain: Any) -> Any:
    if not isinstance(domain, ChoiceDomain) or value in domain.categories or not isinstance(value, int):
        return value
    return domain.categories[value] if 0 <= value < len(domain.categories) else value


def _domain(meant: MeantDomain) -> Any:
    """Return the domain of Tune; a constant as itself."""
    match meant.kind, meant.values:
        case "constant", (value,):
            return value
        case "choice", options if not meant.options:
            return ChoiceDomain([_option(one) for one in options])
        case ("uniform" | "loguniform") as name, (low, high):
            return RangeDomain(name, low, high)
        case "quniform", (low, high, step) if round(low / step) * step == low:  # Ray's are multiples of the step
            return RangeDomain("quniform", low, high, step)
        case ("randint" | "lograndint") as name, (low, high) if not meant.options:
            return RangeDomain(name, low, high + 1)
        case "normal", (mean, deviation) if not meant.options:
            return NormalDomain(mean, deviation)
        case _:
            raise SpaceError(f"{meant.call()} is no domain of Tune: write the space with tune, tune.uniform(0, 1).")


def _option(value: Any) -> Any:
    """Return an option of a choice, which may be a group that has domains itself."""
    if type(value) in (list, tuple):
        return type(value)(map(with_tune_domains, value))
    return with_tune_domains(value)
