"""Domains of other libraries, taken as what they are: each becomes the one of ours that draws alike.

Only a frozen distribution of scipy that none of ours is stays itself: it is asked for its quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.other_libraries.domains import MeantDomain, NoCounterpartError, is_foreign, meant_object
from asyncsearch.space.domains import Domain, choice, constant
from asyncsearch.space.normals import Quantiled, lognormal, normal
from asyncsearch.space.numbers import distinct, lograndint, loguniform, quniform, randint, uniform
from asyncsearch.space.parameter_values import number, show


@dataclass(frozen=True, repr=False)
class Frozen(Quantiled):
    """A frozen distribution of scipy."""

    kind = "scipy"
    distribution: Any = field(compare=False)
    name: str = field(init=False)
    given: tuple[Any, ...] = field(init=False)
    """Its arguments, in order, and those with a name."""

    def __post_init__(self) -> None:
        frozen = self.distribution
        object.__setattr__(self, "name", str(frozen.dist.name))
        named = [[name, _plain_number(value)] for name, value in sorted(frozen.kwds.items())]
        object.__setattr__(self, "given", (*map(_plain_number, frozen.args), *map(tuple, named)))

    @property
    def is_whole(self) -> bool:
        """Whether its values are integers."""
        return hasattr(self.distribution, "pmf") and not hasattr(self.distribution, "pdf")

    def value_at(self, share: float) -> Any:
        value = float(self.distribution.ppf(share))
        if not math.isfinite(value):
            raise SpaceError(f"{self.call()} has no finite value at its quantile {share:g}.")
        return int(value) if self.is_whole else value

    def share_below(self, value: float) -> float:
        return float(self.distribution.cdf(value))

    def accept(self, value: Any) -> Any:
        try:
            result = number(value)
        except SpaceError as error:
            raise SpaceError(f"{error} Its domain is {self.call()}.") from None
        low, high = map(float, self.distribution.support())
        if not low <= result <= high or (self.is_whole and not result.is_integer()):
            kind = "an integer" if self.is_whole else "a number"
            raise SpaceError(f"{show(value)} is outside {self.call()}: write {kind} from {low:g} to {high:g}.")
        return int(result) if self.is_whole else result

    def near(self, value: float) -> Any:
        low, high = map(float, self.distribution.support())
        inside = max(low, min(value, high))
        return round(inside) if self.is_whole else inside

    def grid(self, points: int | None) -> Sequence[Any]:
        assert points is not None, "it is asked for a number of them"
        return distinct(self.value_at((2 * index + 1) / (2 * points)) for index in range(points))

    def arguments(self) -> dict[str, Any]:
        return {"name": self.name, "given": [list(one) if isinstance(one, tuple) else one for one in self.given]}

    def call(self) -> str:
        shown = [f"{one[0]}={one[1]!r}" if isinstance(one, tuple) else repr(one) for one in self.given]
        return f"scipy.stats.{self.name}({', '.join(shown)})"


def _plain_number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


_FUNCTIONS: Mapping[str, Callable[..., Domain]] = {
    "choice": choice,
    "constant": constant,
    "lognormal": lognormal,
    "lograndint": lograndint,
    "loguniform": loguniform,
    "normal": normal,
    "quniform": quniform,
    "randint": randint,
    "scipy": Frozen,
    "uniform": uniform,
}


def taken(value: Any) -> Any:
    """Return a domain of another library as one of ours, with those inside its choices; any other value as it is.

    Raises:
        SpaceError: it has no counterpart; says why, and what to write.
    """
    if not is_foreign(value):
        return value
    try:
        meant = meant_object(value)
    except NoCounterpartError as error:
        raise SpaceError(f"{show(value)} has no counterpart here: {error}.") from None
    if meant is None:
        return value
    return _made(meant, value)


def _made(meant: MeantDomain, value: Any) -> Domain:
    values = meant.values
    if meant.kind == "choice":
        values = (list(map(_inside, values)),)
    try:
        return _FUNCTIONS[meant.kind](*values, **meant.options)
    except SpaceError as error:
        raise SpaceError(f"{show(value)} stands for {meant.call()}: {error}") from None


def _inside(option: Any) -> Any:
    if isinstance(option, Mapping):
        return {name: _inside(item) for name, item in option.items()}
    if isinstance(option, list | tuple):
        return [_inside(item) for item in option]
    return taken(option)
