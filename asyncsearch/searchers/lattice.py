"""A lattice: every combination of listed values that conditions allow, each once, found by its index.

Rule 1: pure. Rule 2: nothing is as long as the lattice. An index is split digit by digit, the last parameter changing
fastest; the combinations below a digit are counted once for each set of open conditions that hold.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from asyncsearch.space import Condition, Space
from asyncsearch.space.parameter_values import identity

_Key = tuple[int, tuple[bool, ...]]


class Lattice:
    """The combinations of ``values`` (dotted name -> values, for every parameter) in the order of ``space.order``."""

    def __init__(self, space: Space, values: Mapping[str, Sequence[Any]]) -> None:
        self._space = space
        self._values = values
        # A parameter of one value that always exists is no digit; there may be hundreds of such constants.
        fixed = [name for name in space.order if len(values[name]) == 1 and not space.parameters[name].conditions]
        self._fixed = {name: values[name][0] for name in fixed}
        self._names = [name for name in space.order if name not in self._fixed]
        self._open = [_open_conditions(space, self._names[at:]) for at in range(len(self._names) + 1)]
        parents = [{condition.parent for condition in conditions} for conditions in self._open]
        self._decides = [name in parents[at + 1] for at, name in enumerate(self._names)]
        self._sizes: dict[_Key, int] = {}
        self._starts: dict[_Key, list[int]] = {}
        self._fixed_identities = {name: identity(value) for name, value in self._fixed.items()}
        self.size = self._size(0, self._fixed_identities)
        """Number of combinations."""

    def at(self, index: int) -> dict[str, Any]:
        """Return the combination at an index from 0 to ``size - 1``: dotted name -> value of the active parameters."""
        flat, known = dict(self._fixed), dict(self._fixed_identities)
        for at, name in enumerate(self._names):
            if self._exists(at, known):
                digit, index = self._split(at, known, index)
                flat[name] = self._values[name][digit]
                if self._decides[at]:
                    known[name] = identity(flat[name])
        return flat

    def index(self, flat: Mapping[str, Any]) -> int | None:
        """Return the index of a valid configuration. None if it is not in the lattice."""
        found = 0
        known = dict(self._fixed_identities)
        for at, name in enumerate(self._names):
            if self._exists(at, known):
                digit = _find(self._values[name], flat[name])
                if digit is None:
                    return None
                found += self._start(at, known, digit)
                if self._decides[at]:
                    known[name] = identity(flat[name])
        return found

    def _exists(self, at: int, known: Mapping[str, Hashable]) -> bool:
        """Return whether a parameter is active; ``known``: dotted name -> identity, of those that conditions ask."""
        conditions = self._space.parameters[self._names[at]].conditions
        return all(condition.holds_by_identity(known) for condition in conditions)

    def _size(self, at: int, known: Mapping[str, Hashable]) -> int:
        """Return how many combinations of the parameters from position ``at`` on there are after ``known``."""
        # A loop over what is absent: recursion over hundreds of conditional parameters would overflow the stack.
        while at < len(self._names) and not self._exists(at, known):
            at += 1
        if at == len(self._names):
            return 1
        key = self._key(at, known)
        if key not in self._sizes:
            self._sizes[key] = self._count(at, known)
        return self._sizes[key]

    def _count(self, at: int, known: Mapping[str, Hashable]) -> int:
        if self._decides[at]:
            return self._all_starts(at, known)[-1]
        return len(self._values[self._names[at]]) * self._size(at + 1, known)

    def _split(self, at: int, known: Mapping[str, Hashable], index: int) -> tuple[int, int]:
        """Return the digit at a position and the index that is left for the positions after it."""
        if not self._decides[at]:
            return divmod(index, self._size(at + 1, known))
        starts = self._all_starts(at, known)
        digit = bisect.bisect_right(starts, index) - 1
        return digit, index - starts[digit]

    def _start(self, at: int, known: Mapping[str, Hashable], digit: int) -> int:
        if not self._decides[at]:
            return digit * self._size(at + 1, known)
        return self._all_starts(at, known)[digit]

    def _all_starts(self, at: int, known: Mapping[str, Hashable]) -> list[int]:
        """Return the first index of each digit of a parent, and behind them the number of all."""
        key = self._key(at, known)
        if key not in self._starts:
            name = self._names[at]
            sizes = (self._size(at + 1, {**known, name: identity(value)}) for value in self._values[name])
            self._starts[key] = list(accumulate(sizes, initial=0))
        return self._starts[key]

    def _key(self, at: int, known: Mapping[str, Hashable]) -> _Key:
        return at, tuple(condition.holds_by_identity(known) for condition in self._open[at])


def _open_conditions(space: Space, names: Sequence[str]) -> tuple[Condition, ...]:
    return tuple(dict.fromkeys(condition for name in names for condition in space.parameters[name].conditions))


def _find(values: Sequence[Any], value: Any) -> int | None:
    """Return the position of a value; long sequences are of ascending numbers."""
    if isinstance(values, tuple):
        same = identity(value)
        return next((at for at, other in enumerate(values) if identity(other) == same), None)
    at = bisect.bisect_left(values, value)
    return at if at < len(values) and values[at] == value else None
