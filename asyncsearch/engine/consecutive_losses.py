"""Counts the lost attempts of a trial since it last made progress, so that preemptions over days fail no trial. Pure.

A loss after progress says something about the machines; losses at one place in a row say something about the trial.
"""

from __future__ import annotations

import msgspec


class ConsecutiveLosses(msgspec.Struct, frozen=True):
    """The losses of one trial without progress between them."""

    count: int
    """How many, at least 1."""
    resource: int
    """Resource of the trial at each of them, in units of training reported."""


def after_loss(before: ConsecutiveLosses | None, resource: int) -> ConsecutiveLosses:
    """Return the count after one more loss at ``resource``; ``before`` is None if no attempt was lost so far.

    Any other resource than at the loss before begins a new count: between losses it only grows, except where the trial
    goes on from another one's checkpoint, which is new training as well.
    """
    if before is None or before.resource != resource:
        return ConsecutiveLosses(1, resource)
    return ConsecutiveLosses(before.count + 1, resource)
