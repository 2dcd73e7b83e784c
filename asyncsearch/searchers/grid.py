"""Grid search: every combination of listed values, each once.

Rule 1: pure. The i-th proposal is a function of (space, points, seed, i); the seed matters only where an initial
point leaves something to be drawn.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.searchers.lattice import Lattice
from asyncsearch.sequences import segments
from asyncsearch.space import Domain, Space
from asyncsearch.space.dotted_names import did_you_mean
from asyncsearch.space.parameter_values import integer, show
from asyncsearch.trial import Params

MAX_GRID_POINTS = 10_000_000
"""A larger grid is considered a mistake."""

MAX_COUNTED_POINTS = 20_000
"""Up to this many points the constraints are asked just to know the length of the grid; takes about a second."""

_PURPOSE = "searchers.grid"


@dataclass(frozen=True, kw_only=True)
class GridSearch(Searcher):
    """Proposes the initial points of the space, then every combination of values that they left, each once.

    Combinations come in the order of declaration, the last parameter changing fastest (a parameter that others are
    conditional on counts as declared before them). Parameters with steps (integers, ``quniform``, choices) take all
    their values; continuous ones take ``points`` values evenly from bound to bound, on a log scale for log domains,
    or the middle if it is one. What conditions or constraints exclude is left out.

    In a space with sequences, and up to 100,000 points, combinations come in the order of a walk over the tree of their
    training: those with the longest common beginning are neighbours.
    """

    points: Mapping[str, int] | int | None = None
    """Number of values, at least 1: one number for all continuous parameters, or dotted name -> number, which may
    name parameters with too many steps too."""

    def __post_init__(self) -> None:
        points = self.points
        if isinstance(points, Mapping):
            object.__setattr__(self, "points", {name: _parse_points(number) for name, number in points.items()})
        elif points is not None:
            object.__setattr__(self, "points", _parse_points(points))

    def begin(self, space: Space, seed: int) -> GridState:
        values = self._values(space)
        lattice = Lattice(space, values)
        if lattice.size > MAX_GRID_POINTS:
            raise _too_large(space, {name: len(values[name]) for name in values}, lattice.size)
        state = GridState(space, lattice, seed)
        if state.propose(0) is None:
            raise SpaceError(f"The constraints reject all {lattice.size:,} points of the grid: loosen them.")
        return state

    def describe(self) -> str:
        return f"GridSearch({'' if self.points is None else f'points={self.points!r}'})"

    def _values(self, space: Space) -> dict[str, Sequence[Any]]:
        if space.is_open:
            raise SpaceError(
                "GridSearch() needs the parameters of the space, and these are not known before a trial asks for them: "
                "write Study(train, space={'lr': choice([0.01, 0.1])}, searcher=GridSearch())."
            )
        self._check_names(space)
        points = {name: self._points_of(name, domain) for name, domain in space.parameters.items()}
        known = {name: (domain.size, points[name]) for name, domain in space.parameters.items()}
        sizes = {name: min(size for size in both if size is not None) for name, both in known.items()}
        if max(sizes.values()) > MAX_GRID_POINTS:
            raise _too_large(space, sizes, max(sizes.values()))
        return {name: domain.grid(points[name]) for name, domain in space.parameters.items()}

    def _points_of(self, name: str, domain: Domain) -> int | None:
        if isinstance(self.points, Mapping) and name in self.points:
            return self.points[name]
        if domain.size is not None:
            return None
        if isinstance(self.points, int):
            return self.points
        raise SpaceError(
            f"{name}: {domain.call()} is continuous, so a grid needs its number of points: write "
            f"GridSearch(points={{{name!r}: 5}}), or list the values, choice(...)."
        )

    def _check_names(self, space: Space) -> None:
        for name in self.points if isinstance(self.points, Mapping) else ():
            domain = space.parameters.get(name)
            if domain is None:
                raise SpaceError(f"GridSearch: points names {name!r}; {did_you_mean(name, space.parameters)}")
            if "low" not in domain.arguments():
                raise SpaceError(f"{name}: {domain.call()} has its own values: leave it out of GridSearch(points=...).")


class GridState(SearcherState):
    """Computes each proposal on demand; it keeps only a cache of the constraints' answers, so there is no snapshot."""

    def __init__(self, space: Space, lattice: Lattice, seed: int) -> None:
        self._space = space
        self._lattice = lattice
        self._initial = [
            space.complete(point, generator(seed, _PURPOSE, number)) for number, point in enumerate(space.initial)
        ]
        found = {lattice.index(space.flatten(params)) for params in self._initial}
        self._proposed = dict.fromkeys(sorted(index for index in found if index is not None))
        self._allowed = array("q")
        self._asked = 0
        self._is_walked = space.has_sequences and lattice.size <= MAX_WALKED

    def propose(self, number: int) -> Params | None:
        if number < len(self._initial):
            # Flattened and nested again, since whoever gets params may change them.
            return self._space.nest(self._space.flatten(self._initial[number]))
        index = self._index(number - len(self._initial))
        return None if index is None else self._space.nest(self._lattice.at(index))

    def length(self) -> int | None:
        """Return how many proposals there are; None where constraints would have to be asked about too many points."""
        if not self._is_listed:
            return len(self._initial) + self._lattice.size - len(self._proposed)
        if self._lattice.size > MAX_COUNTED_POINTS and not self._is_walked:
            return None
        self._ask(self._lattice.size)
        return len(self._initial) + len(self._allowed)

    def _index(self, number: int) -> int | None:
        """Return the lattice index of the ``number``-th combination that is allowed and not an initial point."""
        if self._is_listed:
            self._ask(number + 1)
            return self._allowed[number] if number < len(self._allowed) else None
        index = number
        for proposed in self._proposed:
            index += proposed <= index
        return index if index < self._lattice.size else None

    def _ask(self, wanted: int) -> None:
        """Ask the constraints until that many combinations are known to be allowed, or all were asked about."""
        if self._is_walked:
            self._walk()
        while len(self._allowed) < wanted and self._asked < self._lattice.size:
            if self._asked not in self._proposed and self._is_allowed(self._asked):
                self._allowed.append(self._asked)
            self._asked += 1

    @property
    def _is_listed(self) -> bool:
        """Whether allowed combinations are listed as they are found, rather than computed from their number."""
        return self._space.is_constrained or self._is_walked

    def _is_allowed(self, index: int) -> bool:
        return self._space.allows(self._lattice.at(index))

    def _walk(self) -> None:
        """List all allowed combinations once, in the order of the walk over their training."""
        if self._asked == 0:
            self._asked = self._lattice.size
            left = (index for index in range(self._lattice.size) if index not in self._proposed)
            allowed = filter(self._is_allowed, left) if self._space.is_constrained else left
            self._allowed.extend(depth_first(allowed, lambda index: self._space.nest(self._lattice.at(index))))


def _parse_points(value: Any) -> int:
    try:
        number = integer(value)
    except SpaceError:
        number = 0
    if number < 1:
        raise SpaceError(
            f"GridSearch(points=...): {show(value)} is not a number of points: write an integer from 1 on."
        )
    return number


def _too_large(space: Space, sizes: Mapping[str, int], total: int) -> SpaceError:
    culprits = sorted((name for name in sizes if sizes[name] > 1), key=lambda name: -sizes[name])[:3]
    shown = ", ".join(f"{name!r} ({sizes[name]:,} values of {space.parameters[name].call()})" for name in culprits)
    return SpaceError(
        f"The grid has at least {total:,} points, more than {MAX_GRID_POINTS:,}; most come from {shown}. Take fewer of "
        "each, GridSearch(points={name: 5}), list those that matter, choice(...), or use RandomSearch."
    )


MAX_WALKED = 100_000
"""Up to this many points a grid is walked; takes about 100 microseconds for each."""

_FOREVER = 2**62


def depth_first(indices: Iterable[int], params_of: Callable[[int], Params]) -> list[int]:
    """Return the indices in the order of the walk; ``params_of`` gives the configuration of an index.

    Configurations that part later come first; otherwise the given order is kept.
    """
    groups: dict[str, list[int]] = {}
    for index in indices:
        _, text = next(segments(params_of(index), 1))
        groups.setdefault(text, []).append(index)
    order: list[int] = []
    for group in groups.values():
        if len(group) == 1:
            order += group
        else:
            # Segments of one group at a time: all of them would not fit into memory.
            order += _walk({index: segments(params_of(index), _FOREVER) for index in group})
    return order


def _walk(remaining: dict[int, Iterator[tuple[int, str]]]) -> Iterator[int]:
    waiting = [list(remaining)]
    while waiting:
        group = waiting.pop()
        if len(group) == 1:
            yield group[0]
            continue
        branches: dict[tuple[int, str] | None, list[int]] = {}
        for index in group:
            branches.setdefault(next(remaining[index], None), []).append(index)
        yield from branches.pop(None, [])
        # The last one pushed is walked first: the latest start, and of equal starts the first that came.
        by_start = sorted(branches.items(), key=lambda branch: -branch[0][0] if branch[0] else 0)
        waiting += [members for _, members in reversed(by_start)]
