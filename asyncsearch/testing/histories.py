"""Trainings whose values identify them, so that a checkpoint of another training is recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from asyncsearch.actions import CutWork, GivenLane, SaveAt
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.keys import canonical
from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.sequences import present
from asyncsearch.trial import UNBOUNDED, Params


class Histories:
    """The loss after some units is a hash of the hyper-parameters of each of them, so it identifies the training.

    Args:
        unit_s: virtual seconds of a unit of training.
    """

    def __init__(self, unit_s: float = 1.0) -> None:
        self.unit_s = unit_s
        self._chains: dict[str, list[bytes]] = {}

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the loss, between 0 and 1; it does not depend on the trial."""
        chain = self._chains.setdefault(canonical(params), [b""])
        while len(chain) <= resource:
            step = canonical(present(params, len(chain) - 1)).encode()
            chain.append(hashlib.blake2b(chain[-1] + step, digest_size=8).digest())
        return int.from_bytes(chain[resource], "big") / 2**64

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the virtual seconds of a unit."""
        return self.unit_s


HISTORIES = Histories()


class Training:
    """A lane of a lease, a batch of stages; the runner's own ``LaneTimeline`` decides where it saves and ends."""

    def __init__(self, given: GivenLane, *, has_joined: bool) -> None:
        self.lease, self.lane, lane = given
        self.has_joined = has_joined
        self.load = lane.load
        self.is_loaded = lane.load is None
        self.timeline = LaneTimeline(lane.stages)
        self.resource = self.timeline.start
        self.saved: int | None = None
        """The resource of the newest saved checkpoint whose commit has not failed."""
        self.uploads: list[CheckpointRef] = []
        """Saved checkpoints whose commit has neither succeeded nor failed yet."""
        self.amendments: list[SaveAt | CutWork] = []
        """Sent to it, and not read yet."""
        self.is_ended = self.is_stop_requested = False
        self.is_begun = False
        """Whether its worker has got it, so that nobody can refuse it any more."""
        self.is_dying = False
        """Whether the process of its lease has ended, and only its own end is missing."""

    def value_at(self, resource: int) -> float:
        """Return the loss, which identifies the training up to there."""
        stages = self.timeline.stages
        return HISTORIES.value(TrialId(0), stages[self.timeline.index_at(resource)].params, resource)

    def checkpoint(self) -> CheckpointRef:
        """Return the checkpoint that is saved here."""
        stages = self.timeline.stages
        return CheckpointRef(stages[self.timeline.index_at(self.resource)].node, self.resource)

    def read(self) -> None:
        for amendment in self.amendments:
            self.timeline.amend(amendment)
        self.amendments.clear()

    def units(self, after: int) -> Iterator[tuple[NodeKey, int]]:
        """Yield the units beyond a resource, each by its node."""
        for stage in self.timeline.stages:
            if stage.stop is None:
                yield stage.node, UNBOUNDED
            else:
                yield from ((stage.node, unit) for unit in range(max(stage.start, after) + 1, stage.stop + 1))
