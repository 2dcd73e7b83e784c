"""Counts the lost attempts of a trial since it last made progress, so that preemptions over days fail no trial. Pure.

A loss after progress says something about the machines; losses at one place in a row say something about the trial.
What a trial lost together with others of its process says nothing about it: it is tried again, and alone before it is
charged.
"""

from __future__ import annotations

import msgspec

MOST_TOGETHER = 1
"""A trial that lost more attempts in a row trains alone: if it ends its process, it alone pays, and is charged."""


class ConsecutiveLosses(msgspec.Struct, frozen=True):
    """The losses of one trial without progress between them."""

    count: int
    """How many, at least 1."""
    resource: int
    """Resource of the trial at each of them, in units of training reported."""
    is_shared: bool = False
    """Whether the last one was a loss of other trials' trainings too, which were in its process."""
    has_hung: bool = False
    """Whether at one of them they took longer than a trial may."""

    def is_charged(self, most: int) -> bool:
        """Return whether the trial is to blame, with ``most`` losses allowed in a row: never for a shared one."""
        return self.count > most and not self.is_shared

    def trains_alone(self, resource: int, most: int) -> bool:
        """Return whether a trial, now at ``resource``, is to train in a process of its own next.

        Args:
            resource: where it is; progress since a hang shows that the trial did not hang there.
            most: losses in a row that are allowed.
        """
        return self.count > min(MOST_TOGETHER, most) or (self.has_hung and resource == self.resource)


def after_loss(
    before: ConsecutiveLosses | None, resource: int, *, is_shared: bool = False, has_hung: bool = False
) -> ConsecutiveLosses:
    """Return the count after one more loss at ``resource``; ``before`` is None if no attempt was lost so far.

    Any other resource than at the loss before begins a new count: between losses it only grows, except where the trial
    goes on from another one's checkpoint, which is new training as well.
    """
    if before is None or before.resource != resource:
        return ConsecutiveLosses(1, resource, is_shared, has_hung)
    return ConsecutiveLosses(before.count + 1, resource, is_shared, has_hung or before.has_hung)
