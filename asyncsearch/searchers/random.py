"""Random search, and quasi-random search, whose points fill the space more evenly than draws do.

Rule 1: pure. A random proposal is a function of (seed, number) and of nothing else; a point of the scrambled Sobol
sequence of (space, seed, number). scipy is imported only when a study begins with ``SobolSearch``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.randomness import below, generator
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import MAX_CANDIDATES, Space
from asyncsearch.trial import Params

_PURPOSE = "searchers.random"


@dataclass(frozen=True, kw_only=True)
class RandomSearch(Searcher):
    """Proposes the initial points of the space, then draws without end."""

    def begin(self, space: Space, seed: int) -> RandomState:
        state = RandomState(space, seed)
        # Constraints that reject everything fail before a worker starts, not in the middle of a search.
        for number in range(len(space.initial) + 1):
            state.propose(number)
        return state


class RandomState(SearcherState):
    """Keeps its arguments only, so there is nothing to snapshot."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._initial = space.initial

    def propose(self, number: int) -> Params:
        source = generator(self._seed, _PURPOSE, number)
        if number < len(self._initial):
            return self._space.complete(self._initial[number], source)
        return self._space.sample(source)


_SOBOL = "searchers.sobol"
_BITS = 32
"""Of each coordinate; with more of them scipy cannot jump to a point."""
_BLOCK = 256
"""How many points are made at a time; a power of 2, which is what the sequence is even over."""


@dataclass(frozen=True, kw_only=True)
class SobolSearch(Searcher):
    """Proposes the initial points of the space, then the points of a Sobol sequence, scrambled by the study's seed.

    Each parameter that has more than one value is a dimension, conditional ones and those inside sequences too. The
    first 2**k points are evenly spread over each of them, and over their combinations nearly so. Points that the
    constraints reject are left out. Needs scipy.
    """

    def begin(self, space: Space, seed: int) -> SobolState:
        """Return a fresh state for one study.

        Raises:
            UsageError: scipy is not installed.
            SpaceError: there are more parameters than the sequence has dimensions, 21,201, or the constraints reject
                every one of the first points.
        """
        state = SobolState(space, seed)
        # Constraints that reject everything fail before a worker starts, not in the middle of a search.
        for number in range(len(space.initial) + 1):
            state.propose(number)
        return state


class SobolState(SearcherState):
    """Keeps caches only, so there is nothing to snapshot."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._initial = space.initial
        self._names = [name for name in space.order if space.parameters[name].size != 1]
        self._points = _Points(len(self._names), seed)
        self._allowed = array("q")
        """Numbers of the points that the constraints allow; used only where there are constraints."""
        self._asked = 0

    def propose(self, number: int) -> Params:
        if number < len(self._initial):
            return self._space.complete(self._initial[number], generator(self._seed, _SOBOL, number))
        wanted = number - len(self._initial)
        if self._space.is_constrained:
            self._ask(wanted + 1)
            wanted = self._allowed[wanted]
        return self._space.nest(self._flat(wanted))

    def _ask(self, wanted: int) -> None:
        """Ask the constraints until that many points are known to be allowed."""
        while len(self._allowed) < wanted:
            last = self._allowed[-1] if self._allowed else -1
            if self._asked - last > MAX_CANDIDATES:
                raise SpaceError(
                    f"The constraints rejected {MAX_CANDIDATES:,} points of the Sobol sequence in a row, from point "
                    f"{last + 1:,} on: loosen them, or choose domains in which more configurations pass."
                )
            if self._space.allows(self._flat(self._asked)):
                self._allowed.append(self._asked)
            self._asked += 1

    def _flat(self, index: int) -> dict[str, Any]:
        """Return the configuration at a point of the sequence: dotted name -> value of the active parameters."""
        shares = dict(zip(self._names, self._points.at(index), strict=True))
        flat: dict[str, Any] = {}
        for name in self._space.order:
            if self._space.is_active(name, flat):
                flat[name] = self._space.parameters[name].at_quantile(shares.get(name, 0.0))
        return flat


class _Points:
    """The points of a Sobol sequence in the unit cube of ``dimensions``, by their number; keeps one block of them."""

    def __init__(self, dimensions: int, seed: int) -> None:
        sobol = _sobol_class()
        if dimensions > sobol.MAXDIM:
            raise SpaceError(
                f"SobolSearch: the space has {dimensions:,} parameters with more than one value, and a Sobol sequence "
                f"has at most {sobol.MAXDIM:,} dimensions: use RandomSearch(), which loses nothing in so many."
            )
        # A sequence of no dimension does not exist; a space of constants still has a point.
        scramble = below(generator(seed, _SOBOL, -1), 1 << 64)
        self._engine = sobol(max(dimensions, 1), scramble=True, bits=_BITS, rng=scramble)
        self._dimensions = dimensions
        self._number = -1
        self._block: Any = None

    def at(self, index: int) -> list[float]:
        """Return the coordinates of a point, each from 0 up to but not including 1."""
        number, row = divmod(index, _BLOCK)
        if number != self._number:
            if number != self._number + 1:
                self._engine.reset()
                if number:
                    self._engine.fast_forward(number * _BLOCK)
            self._block, self._number = self._engine.random(_BLOCK), number
        point: list[float] = self._block[row, : self._dimensions].tolist()
        return point


def _sobol_class() -> Any:
    try:
        from scipy.stats.qmc import Sobol
    except ImportError as error:
        raise UsageError(
            "SobolSearch() needs scipy, which is not installed: pip install 'asyncsearch[sobol]'."
        ) from error
    return Sobol
