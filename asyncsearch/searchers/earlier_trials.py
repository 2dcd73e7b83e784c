"""Trials of earlier studies for a warm start: whether they fit the space, and which are the best.

Rule 1: pure. An earlier trial is an ``Observed``; its score is one of this study: smaller is better.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import below, generator
from asyncsearch.searchers.observations import Observed, TrialPosition
from asyncsearch.sequences import is_sequence
from asyncsearch.space import Space
from asyncsearch.space.dotted_names import nest
from asyncsearch.space.parameter_values import show_plain
from asyncsearch.trial import Params

BEST = 5
"""How many of the earlier trials a searcher that does not learn proposes again."""


def with_best_initial(space: Space, earlier: Sequence[Observed]) -> Space:
    """Return the space with the best earlier trials as further initial points, except those that it has.

    The best are the trials that trained furthest, and of these the ones with the best last score.
    """
    if not earlier:
        return space
    ended = [(trial, _last(trial)) for trial in earlier if trial.position is not TrialPosition.FAILED]
    ranked = sorted((-resource, score, at) for at, (_, (resource, score)) in enumerate(ended) if score is not None)
    points = {str(ended[at][0].params): ended[at][0].params for _, _, at in ranked}
    own = {str(space.flatten(point)) for point in space.initial}
    return space.with_initial([point for point in list(points.values())[:BEST] if str(space.flatten(point)) not in own])


def continued_seed(seed: int, earlier: Sequence[Observed]) -> int:
    """Return the seed of a search that continues earlier trials.

    With the seed itself it would repeat their proposals if the earlier study had the same seed.
    """
    if not earlier:
        return seed
    trained = hashlib.sha256(msgspec.json.encode([trial.params for trial in earlier])).hexdigest()
    return below(generator(seed, f"searchers.earlier/{trained}", 0), 1 << 63)


def differences(space: Space, params: Params) -> Iterator[tuple[str, str]]:
    """Yield (name, reason) for every parameter because of which params of another space do not fit this one."""
    known: dict[str, Any] = {}
    for path, value in _leaves(space, "", params):
        if path in space.names:
            known[path] = value
        else:
            yield path, "is not in this space"
    try:
        given = space.flatten(nest(known))
    except SpaceError as error:
        yield str(error).partition(":")[0], f"is not a sequence of this space ({error})"
        return
    flat: dict[str, Any] = {}
    for name in space.order:
        is_active = space.is_active(name, flat)
        if is_active and name not in given:
            yield name, "is in this space only"
        elif name in given and not is_active:
            yield name, "is given there where it does not exist here"
        elif is_active:
            domain = space.parameters[name]
            if not domain.contains(given[name]):
                yield name, f"has a value outside {domain.call()}: {show_plain(given[name])}"
            flat[name] = given[name]


def _last(trial: Observed) -> tuple[int, float | None]:
    """Return the resource and the score of the last report that has one."""
    found = [(resource, score) for resource, score in trial.values.items() if score is not None]
    return max(found) if found else (0, None)


def _leaves(space: Space, prefix: str, params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and path not in space.names and not is_sequence(value):
            yield from _leaves(space, f"{path}.", value)
        else:
            yield path, value
