"""The beginnings of trials on processes that have begun one before: they are told of it, and need not ask.

The first trial of a process asks, once its objective could be loaded there: before, no trial of the study begins. From
then on the driver knows when the process will ask, since that is when it gets work. With a scheduler each trial asks:
its work may wait for the deletion of checkpoints, and what it is told must not come before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asyncsearch.actions import AnyAction, Assign
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.optuna.messages import BEGIN_KIND, ValueCodec


class Beginnings:
    """Asks in the place of the processes that have asked before."""

    def __init__(self) -> None:
        self._orders: dict[tuple[WorkerId, int], int] = {}
        """By worker and epoch: the order of questions that its process was told last; see ``drawn_ahead``."""

    def note(self, lease: Lease, order: int) -> None:
        """Note that a trial of a process has begun, and the order that it was told."""
        self._orders[lease.worker, lease.epoch] = order

    def questions(self, actions: Sequence[AnyAction]) -> Iterator[tuple[TrialId, Lease, bytes]]:
        """Yield the questions that assigned trials would ask, with their leases."""
        for action in actions:
            if isinstance(action, Assign):
                lease = action.work.lease
                order = self._orders.get((lease.worker, lease.epoch))
                if order is not None:
                    yield action.work.lanes[0].stages[0].trials[0], lease, ValueCodec().dumps([BEGIN_KIND, order])
