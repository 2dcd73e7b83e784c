"""The kinds of a worker's time, and accounts of them in whole milliseconds, so that sums are exact. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from asyncsearch.events import Spent
from asyncsearch.ids import TrialId, WorkerId

KINDS = (*Spent._fields, "in_vain", "waiting", "unmeasured")
"""The names of all kinds; the first ones are measured by workers."""
TRAINING, EVALUATING = KINDS.index("training"), KINDS.index("evaluating")
STARTING, IN_VAIN, WAITING, UNMEASURED = map(KINDS.index, ("starting", "in_vain", "waiting", "unmeasured"))

Amounts = list[int]
"""Milliseconds of each kind."""


class TimeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Whole milliseconds of workers, by what they were for."""

    starting: int = 0
    """Starting processes: from the launch of a worker until it is ready, and where a process was replaced."""
    entering: int = 0
    """Calling the function, until its first unit begins: it imports and builds there what it needs."""
    loading: int = 0
    """Fetching and loading checkpoints."""
    training: int = 0
    """Training; of a function that does not call ``trial.epochs()``, all that it does."""
    saving: int = 0
    """Saving, as far as training waits for it."""
    verdict: int = 0
    """Waiting for what is decided of a trial."""
    evaluating: int = 0
    """Evaluating, as far as a trainer, or ``trial.evaluating()``, says so."""
    in_vain: int = 0
    """Training and evaluation that nobody has anything of: lost with a worker, or beyond a verdict."""
    waiting: int = 0
    """Waiting for work, the way of messages included."""
    unmeasured: int = 0
    """Work of which nothing is known: by a version that did not measure, or since the last report of a running one."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.amounts())

    def amounts(self) -> Amounts:
        """Return the milliseconds of each of ``KINDS``."""
        return [getattr(self, kind) for kind in KINDS]

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each kind, by its name."""
        return {kind: getattr(self, kind) / 1000 for kind in KINDS}

    def share(self, kind: str) -> float:
        """Return the part of a kind in all of it, from 0 to 1."""
        amount: int = getattr(self, kind)
        return amount / self.total if amount else 0.0


class TimeSpent(msgspec.Struct, frozen=True):
    """The workers' time, by its purposes."""

    total: TimeAccount
    """Of all workers, from the launch of each until it left or its run ended."""
    by_worker: Mapping[WorkerId, TimeAccount]
    """They add up to ``total``."""
    by_trial: Mapping[TrialId, TimeAccount]
    """With the launches of workers and their waits for work, which are no trial's, they add up to ``total``."""
    reports: int = 0
    """How many reports of trials came in that time."""
    promotions: int = 0
    """How many promotions were decided in it."""
    in_place: int = 0
    """How many of them went on in place: nothing was saved, entered or loaded for them."""


def account(amounts: Sequence[int]) -> TimeAccount:
    """Return milliseconds of each of ``KINDS`` as an account."""
    return TimeAccount(**dict(zip(KINDS, amounts, strict=True)))


def nothing() -> Amounts:
    """Return amounts to which others are added."""
    return [0] * len(KINDS)


def add(to: Amounts, amounts: Iterable[int], times: int = 1) -> None:
    """Add amounts, so many times."""
    for place, amount in enumerate(amounts):
        if amount:
            to[place] += amount * times


def divided(amount: int, among: int) -> list[int]:
    """Return an amount in equal parts, the first ones larger by one where it cannot be divided."""
    part, more = divmod(amount, among)
    return [part + (place < more) for place in range(among)]


def shortened(accounts: Iterable[Amounts], excess: int) -> None:
    """Take an excess out of accounts, from the largest amount first: two clocks differ, and one of them counts."""
    places = [(amounts, kind) for amounts in accounts for kind in range(len(KINDS))]
    for amounts, kind in sorted(places, key=lambda place: -place[0][place[1]]):
        taken = min(excess, amounts[kind])
        amounts[kind] -= taken
        excess -= taken
