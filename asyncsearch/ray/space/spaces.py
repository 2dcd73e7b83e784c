"""The domains of Ray Tune: what ``tune.uniform(...)`` and its kin return, with Ray's own ends.

Rule: pure; all randomness comes from the generator that ``draw`` is given. ``randint`` and ``lograndint`` exclude their
upper end; the kin with a step ``q`` include it, except integers with ``q=1``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from asyncsearch import space as ours
from asyncsearch.errors import SpaceError


class TuneDomain:
    """What a parameter may be."""

    def draw(self, generator: np.random.Generator) -> Any:
        """Draw a value."""
        raise NotImplementedError

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw as Ray's own domains do: one value, or a list of ``size``."""
        seed = np.random.randint(2**31) if random_state is None else random_state  # noqa: NPY002  # as Ray's own
        source = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(_seed_of(seed))
        found = [self.draw(source) for _ in range(size)]
        return found[0] if size == 1 else found

    def counterpart(self) -> ours.Domain | None:
        """Return our domain of the same values, for searchers that learn. None if there is none."""
        return None


def _seed_of(given: Any) -> int:
    return int(given.randint(2**31)) if hasattr(given, "randint") else int(given)


class RangeDomain(TuneDomain):
    """Numbers from ``lower`` to ``upper``."""

    def __init__(self, name: str, lower: Any, upper: Any, q: Any = None) -> None:
        self.name, self.lower, self.upper, self.q = name, lower, upper, q
        self.is_log, self.is_integer = "log" in name, name.endswith("randint")
        for end in (lower, upper):
            if not isinstance(end, int | float | np.number) or isinstance(end, bool) or not math.isfinite(end):
                raise SpaceError(f"{self}: {end!r} is no finite number, which both ends must be.")
        if self.is_log and lower <= 0:
            raise SpaceError(f"{self}: on a log scale the lower end must be above 0.")
        if self.is_integer and (int(lower) != lower or int(upper) != upper):
            raise SpaceError(f"{self}: both ends must be whole numbers.")
        if q is not None and not q > 0:
            raise SpaceError(f"{self}: the step must be above 0.")
        if self.is_integer:
            first, last = self.whole_ends
            if last < first:
                raise SpaceError(f"{self} has no value: its upper end is not above its lower one.")
        elif upper < lower or (q is not None and math.floor(upper / q) < math.ceil(lower / q)):
            raise SpaceError(f"{self} has no value between its ends.")

    @property
    def is_stepped(self) -> bool:
        """Whether its values are multiples of ``q``."""
        return self.q is not None and not (self.is_integer and self.q == 1)

    @property
    def whole_ends(self) -> tuple[int, int]:
        """The first and the last value of integers, in steps of ``q``."""
        if self.is_stepped:
            return math.ceil(self.lower / self.q), math.floor(self.upper / self.q)
        return int(self.lower), int(self.upper) - 1

    def draw(self, generator: np.random.Generator) -> Any:
        if not self.is_integer:
            return self._real(generator)
        first, last = self.whole_ends
        if self.is_log:
            low, high = math.log(first), math.log(last + 1)
            value = min(last, math.floor(math.exp(generator.uniform(low, high))))
        else:
            value = int(generator.integers(first, last + 1))
        return int(max(first, value) * (self.q if self.is_stepped else 1))

    def _real(self, generator: np.random.Generator) -> float:
        low, high = float(self.lower), float(self.upper)
        if self.q is not None:
            low, high = math.ceil(low / self.q) * self.q, math.floor(high / self.q) * self.q
        low, high = (math.log(low), math.log(high)) if self.is_log else (low, high)
        value = float(generator.uniform(low, high))
        value = math.exp(value) if self.is_log else value
        return value if self.q is None else float(round(value / self.q) * self.q)

    def quantized(self, q: Any) -> RangeDomain:
        """Return the same in steps, as of ``tune.uniform(0, 1).quantized(0.1)``."""
        return RangeDomain(f"q{self.name.removeprefix('q')}", self.lower, self.upper, q)

    def counterpart(self) -> ours.Domain | None:
        if self.is_integer:
            first, last = self.whole_ends
            if self.is_stepped:
                return (
                    ours.choice(*[int(at * self.q) for at in range(first, last + 1)]) if last - first < 1000 else None
                )
            return ours.lograndint(first, last) if self.is_log else ours.randint(first, last)
        if self.q is not None:
            first, last = math.ceil(self.lower / self.q), math.floor(self.upper / self.q)
            return None if self.is_log else ours.quniform(first * self.q, last * self.q, self.q)
        return (ours.loguniform if self.is_log else ours.uniform)(float(self.lower), float(self.upper))

    def __repr__(self) -> str:
        return f"tune.{self.name}({self.lower}, {self.upper}{'' if self.q is None else f', {self.q}'})"


class NormalDomain(TuneDomain):
    """Numbers around ``mean``."""

    def __init__(self, mean: float, sd: float, q: float | None = None) -> None:
        self.mean, self.sd, self.q = mean, sd, q
        if not sd > 0:
            raise SpaceError(f"{self}: the standard deviation must be above 0.")

    def draw(self, generator: np.random.Generator) -> float:
        value = float(generator.normal(self.mean, self.sd))
        return value if self.q is None else float(round(value / self.q) * self.q)

    def __repr__(self) -> str:
        return f"tune.randn({self.mean}, {self.sd}{'' if self.q is None else f', {self.q}'})"


class ChoiceDomain(TuneDomain):
    """One of some values of any kind."""

    def __init__(self, categories: Iterable[Any]) -> None:
        self.categories = list(categories)
        if not self.categories:
            raise SpaceError("tune.choice([]) has no value: give it one at least.")

    def draw(self, generator: np.random.Generator) -> Any:
        return self.categories[int(generator.integers(len(self.categories)))]

    def __repr__(self) -> str:
        return f"tune.choice({self.categories!r})"


class DrawnByFunction(TuneDomain):
    """What a function of the other values returns; it is called on the driver, once for each trial."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise SpaceError(f"tune.sample_from({function!r}): give it a function of the configuration.")
        self.function = function

    def __repr__(self) -> str:
        return f"tune.sample_from({getattr(self.function, '__name__', self.function)})"


def uniform(lower: float, upper: float) -> RangeDomain:
    """A number from ``lower`` to ``upper``."""
    return RangeDomain("uniform", lower, upper)


def quniform(lower: float, upper: float, q: float) -> RangeDomain:
    """A multiple of ``q``; both ends belong to it."""
    return RangeDomain("quniform", lower, upper, q)


def loguniform(lower: float, upper: float, base: float | None = None) -> RangeDomain:
    """A number, drawn on a log scale."""
    _without_effect(base)
    return RangeDomain("loguniform", lower, upper)


def qloguniform(lower: float, upper: float, q: float, base: float | None = None) -> RangeDomain:
    """A multiple of ``q``, drawn on a log scale."""
    _without_effect(base)
    return RangeDomain("qloguniform", lower, upper, q)


def randint(lower: int, upper: int | None = None) -> RangeDomain:
    """A whole number; ``upper`` does not belong to it."""
    return RangeDomain("randint", *((0, lower) if upper is None else (lower, upper)))


def lograndint(lower: int, upper: int, base: float | None = None) -> RangeDomain:
    """A whole number, drawn on a log scale; ``upper`` does not belong to it."""
    _without_effect(base)
    return RangeDomain("lograndint", lower, upper)


def qrandint(lower: int, upper: int, q: int = 1) -> RangeDomain:
    """A multiple of ``q``; ``upper`` belongs to it, unless ``q`` is 1."""
    return RangeDomain("qrandint", lower, upper, q)


def qlograndint(lower: int, upper: int, q: int, base: float | None = None) -> RangeDomain:
    """A multiple of ``q``, drawn on a log scale; ``upper`` belongs to it, unless ``q`` is 1."""
    _without_effect(base)
    return RangeDomain("qlograndint", lower, upper, q)


def randn(mean: float = 0.0, sd: float = 1.0) -> NormalDomain:
    """A number of a normal distribution."""
    return NormalDomain(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> NormalDomain:
    """A multiple of ``q`` of a normal distribution."""
    return NormalDomain(mean, sd, q)


def choice(categories: Sequence[Any]) -> ChoiceDomain:
    """One of the values."""
    return ChoiceDomain(categories)


def sample_from(func: Callable[..., Any]) -> DrawnByFunction:
    """What a function of the configuration returns."""
    return DrawnByFunction(func)


def grid_search(values: Iterable[Any]) -> dict[str, list[Any]]:
    """Each of the values, in every combination with those of other grids."""
    found = list(values)
    if not found:
        raise SpaceError("tune.grid_search([]) has no value: give it one at least.")
    return {"grid_search": found}


def _without_effect(base: float | None) -> None:
    if base is not None:
        warnings.warn("base= has no effect on what is drawn, and Ray has dropped it: leave it out.", stacklevel=3)
