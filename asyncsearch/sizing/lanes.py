"""How many lanes a pack has, and why: every limit on them is here. Pure.

A pack has as many as were asked for, or as measured times say, and no more than have memory enough, than the searcher
proposes at a time, than are a worker's part while others are free, and than were found to pay.
"""

from __future__ import annotations

import math

import msgspec

from asyncsearch.sizing.packing import KnownPacks, Packing

_MOST_GIVEN = 256
"""Lanes after which a lease, or four times as many as it has at once, gets no more: a process that never ends leaks."""


class Lanes(msgspec.Struct, frozen=True):
    """The most lanes that a pack may have."""

    count: int
    reason: str
    """The limit that decides, as a clause."""

    def at_most(self, count: int | None, reason: str) -> Lanes:
        """Return these, or fewer by another limit, at least 1; None if there is no such limit."""
        return self if count is None or count >= self.count else Lanes(max(1, count), reason)


def most_lanes(packing: Packing, known: KnownPacks, units_left: float = math.inf, batch: int | None = None) -> Lanes:
    """Return how many trainings of one structure may train together next.

    Args:
        packing: how the study packs.
        known: what is known of packs of the structure.
        units_left: that a worker will train, of which timing may cost a share.
        batch: how many the searcher proposes before it learns from them; None for any number.
    """
    if packing.is_measured:
        most = known.most_measured(packing.limit, units_left)
        found = Lanes(most, _measured_words(known, most))
    else:
        found = Lanes(packing.limit, f"pack={packing.limit} asks for no more")
    found = found.at_most(known.memory, f"memory is enough for {known.memory} together")
    found = found.at_most(known.fits, f"memory is enough for {known.fits} together, as one and two have shown")
    found = found.at_most(batch, f"the searcher proposes {batch} at a time")
    return found.at_most(1 if known.refusal else None, f"they train one after another: {known.refusal}")


def most_joined(packing: Packing, known: KnownPacks, most: Lanes, lanes: int = 0, given: int = 0) -> Lanes:
    """Return how many lanes a running pack may have with those that join.

    Args:
        packing: how the study packs.
        known: what is known of packs of its structure.
        most: that a new pack may have.
        lanes: that it has.
        given: lanes that it had in all.
    """
    filled = known.most_joined(most.count) if packing.is_measured else None
    words = f"{known.best} together gain most" if filled == known.best else f"{filled} together are timed next"
    paying = most.at_most(filled, words)
    rest = lanes + max(_MOST_GIVEN, 4 * paying.count) - given
    return paying.at_most(rest, f"its process has trained {given}, and is to end before it leaks")


def fair_share(most: Lanes, to_begin: int | None, hungry: int) -> Lanes:
    """Return how many trainings one of the workers that are free, or about to be, may take.

    Args:
        most: that a new pack may have.
        to_begin: trainings that are still to begin; None if no number is known.
        hungry: workers that are free, or about to be.
    """
    if hungry <= 1 or to_begin is None:
        return most
    return most.at_most(-(-to_begin // hungry), f"{to_begin} are left to begin, for {hungry} free workers")


def fair_lanes(most: int, to_begin: int | None, hungry: int, running: list[int]) -> int:
    """Return how many lanes a running pack may have with new trials, so that workers about to come get theirs.

    ``running``: the lanes of the workers that train.
    """
    if not hungry or to_begin is None:
        return most
    return min(most, -(-(sum(running) + to_begin) // (len(running) + hungry)))


def _measured_words(known: KnownPacks, most: int) -> str:
    if not known.seconds:
        return f"the first pack times {most}"
    if most > known.best:
        return f"{most - known.best} more than gain most so far are timed"
    return "each alone is as fast" if most == 1 else f"{most} together gain most"
