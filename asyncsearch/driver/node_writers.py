"""Nodes into which only trainings have written that ended as they should: what is there is known without a look.

A worker that was lost may leave half a checkpoint, or one of which the journal knows nothing. So may a training that
failed or was stopped while it saved. Where none has, the end of a run need not list the node in the store: with ten
thousand trials that would be ten thousand calls.
"""

from __future__ import annotations

from collections.abc import Iterable

from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, CheckpointFailed, Outcome, TrainingEnded
from asyncsearch.ids import NodeKey

_ENDED_WELL = (Outcome.REACHED, Outcome.RETURNED)


class NodeWriters:
    """The trainings that may have left something in a node. Called in the driver's thread, and read after it."""

    def __init__(self) -> None:
        """Begin without trainings."""
        self._nodes: dict[int, set[NodeKey]] = {}
        """By attempt: the nodes into which it may write, until it has ended well."""
        self._last: dict[int, int] = {}
        """By attempt: the resource of the checkpoint that it has committed last."""
        self._awaited: dict[int, int] = {}
        """By attempt whose training has ended well: the resource of the checkpoint that it still commits."""
        self._doubtful: set[NodeKey] = set()

    def take_over(self, state: StudyState) -> None:
        """Note the nodes into which workers of earlier drivers may still write."""
        for number, attempt in state.attempts.items():
            self.begin(number, (stage.node for stage in attempt.batch.stages))

    def begin(self, attempt: int, nodes: Iterable[NodeKey]) -> None:
        """Note that an attempt may write into nodes, besides those that it had before."""
        self._nodes.setdefault(attempt, set()).update(nodes)

    def doubt(self, node: NodeKey) -> None:
        """Note that something may be left in a node. Any thread may call it."""
        self._doubtful.add(node)

    def note(self, event: AnyEvent) -> None:
        """Note the end of an attempt, and of what it saved: its earlier checkpoints are settled before its last."""
        match event:
            case CheckpointFailed():
                self.doubt(event.checkpoint.node)
            case CheckpointCommitted():
                number = event.lease.number + event.lane
                self._last[number] = event.checkpoint.resource
                self._settle(number)
            case TrainingEnded() if event.outcome in _ENDED_WELL and event.checkpoint_resource is not None:
                number = event.lease.number + event.lane
                self._awaited[number] = event.checkpoint_resource
                self._settle(number)
            case TrainingEnded():
                self._last.pop(event.lease.number + event.lane, None)
            case _:
                pass

    def _settle(self, number: int) -> None:
        if number in self._awaited and self._awaited[number] == self._last.get(number):
            for kept in (self._awaited, self._last, self._nodes):
                kept.pop(number, None)

    def settled(self, state: StudyState) -> set[NodeKey]:
        """Return the nodes that hold the checkpoints which the study needs, and nothing else.

        None in a study of gangs, whose other ranks write too.
        """
        if state.gang is not None:
            return set()
        lost = {trial.checkpoint.node for trial in state.trials if trial.losses and trial.checkpoint is not None}
        written: set[NodeKey] = set().union(*self._nodes.values())
        return {checkpoint.node for checkpoint in state.references} - self._doubtful - lost - written
