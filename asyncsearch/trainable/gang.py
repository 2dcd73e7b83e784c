"""A gang's part of a trial: the ranks that train it together, as the trainer of a framework uses them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar


class Seat(Protocol):
    """The place of this process among the ranks of a gang."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def host(self) -> str:
        """Address at which the other ranks reach this machine."""


class Ranks(Protocol):
    """The ranks of a gang, which tell each other values through the driver until they are connected."""

    @property
    def seat(self) -> Seat: ...

    def tell(self, key: str, value: str) -> None:
        """Tell the other ranks a value."""

    def await_value(self, rank: int | None, key: str) -> str:
        """Return the value that another rank tells, or any of them if ``rank`` is None; each is returned once.

        Raises:
            TrialStopped: the gang ended before.
        """


class RankConnection(Protocol):
    """A direct connection of this process with the other ranks."""

    def close(self) -> None: ...

    def is_lost_rank(self, error: BaseException) -> bool:
        """Return whether an error says that another rank is gone, rather than what is wrong with this one."""


C = TypeVar("C", bound=RankConnection)


class TrialGang(Ranks, Protocol):
    """The ranks that train a trial together."""

    def connected(self, kind: type[C], connect: Callable[[], C]) -> C:
        """Return the connection of a kind, which the first call in a training makes.

        It is closed when this process begins another training: the other ranks may be behind in their last step.
        """

    def agree_by(self, pass_on: Callable[[bytes], bytes]) -> None:
        """Let the ranks agree through their own connection on what they do at the end of a unit.

        Args:
            pass_on: called by all ranks together; returns, in each, the bytes that rank 0 has called it with.
        """

    def before_saving(self, gather: Callable[[], None]) -> None:
        """Let every rank call a function before rank 0 saves, which brings together what the ranks have in parts."""

    def save_in_shards(self, strategy: str, file: str) -> None:
        """Let every rank save, each its shard of what ``strategy`` has divided, in a file of this name."""
