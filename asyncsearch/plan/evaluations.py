"""The evaluations to do: durable points that a trial requests, at which the metric is unknown. Pure.

An evaluation is a stage of no units. It begins and ends at its point, no stage follows it, and it comes before all
training: it is short, and decisions wait for it. A lease that trains to a point may still report there, so a point at
which a lease will end is not evaluated.
"""

from __future__ import annotations

from collections import Counter

from asyncsearch.ids import CheckpointRef
from asyncsearch.plan.nodes import Point, PointState


class Evaluations:
    """Checkpoints without the metric, positions where a lease may report it soon, and the resulting stages."""

    def __init__(self) -> None:
        self.unmeasured: set[CheckpointRef] = set()
        """Durable checkpoints that may be evaluated, since the metric was not reported there."""
        self.awaited: Counter[CheckpointRef] = Counter()
        """How many leases will end at a position, or evaluate it."""
        self._stages: dict[CheckpointRef, Point] = {}

    @property
    def is_any(self) -> bool:
        """Whether there is any evaluation, or was one until now."""
        return bool(self.unmeasured or self._stages)

    def settle(self, point: Point, *, is_blocked: bool) -> None:
        """Create, reprioritise or remove the evaluation of a point, as its state requires."""
        ref = CheckpointRef(point.node.key, point.resource)
        stage = self._stages.get(ref)
        is_due = (
            point.state is PointState.DURABLE
            and bool(point.trials)
            and ref in self.unmeasured
            and not self.awaited[ref]
            and not is_blocked
        )
        if not is_due:
            if stage is not None:
                del self._stages[ref]
                stage.detach()
        elif stage is None:
            stage = self._stages[ref] = Point(point.node, point.resource, PointState.PENDING)
            stage.trials, stage.urgent_trials = point.trials, point.urgent_trials
            stage.attach(point)
        else:
            stage.urgent_trials = point.urgent_trials
            stage.refresh()

    def find(self, ref: CheckpointRef) -> Point | None:
        """Return the evaluation of a position, if there is one now."""
        return self._stages.get(ref)
