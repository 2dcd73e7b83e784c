"""The ranks of a gang, as what connects them sees them. Pure."""

from __future__ import annotations

from typing import Protocol


class Seat(Protocol):
    """The place of this process among the ranks of a gang."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def host(self) -> str: ...


class Ranks(Protocol):
    """The ranks of a gang, and the way in which they tell each other where they are."""

    @property
    def seat(self) -> Seat: ...

    def tell(self, key: str, value: str) -> None: ...

    def await_value(self, rank: int, key: str) -> str: ...


def share_of(rank: int, size: int, count: int) -> tuple[int, int]:
    """Return the first of a rank's samples, of so many that ranks share evenly in order, and the one after its last."""
    return rank * count // size, (rank + 1) * count // size
