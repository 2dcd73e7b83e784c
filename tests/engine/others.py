"""A simulated study beside others: of what it wants some is trained, known or refused, as a script of chance says."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from asyncsearch.actions import AnyAction, Assign
from asyncsearch.engine.affected import is_outdated, is_stale
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, Learned, NodeFreed, Reported, WorkRefused
from asyncsearch.ids import NodeKey
from asyncsearch.simulate import Simulation
from asyncsearch.trial import Metrics
from asyncsearch.work import Work

LOOK_S = 1.3


class Facts:
    """What is known of nodes in the end."""

    def __init__(self) -> None:
        self.reports: dict[NodeKey, dict[int, Metrics]] = {}
        self.checkpoints: dict[NodeKey, set[int]] = {}
        self._works: dict[int, Work] = {}

    def __call__(self, now: float, event: AnyEvent, actions: Any) -> None:
        """Watch a simulation."""
        self._works |= {action.work.lease.number: action.work for action in actions if isinstance(action, Assign)}
        if isinstance(event, Reported):
            stages = self._works[event.lease.number].lanes[0].stages
            stage = next((s for s in stages if s.stop is None or event.resource <= s.stop), stages[-1])
            self.reports.setdefault(stage.node, {})[event.resource] = event.metrics
        elif isinstance(event, CheckpointCommitted):
            self.checkpoints.setdefault(event.checkpoint.node, set()).add(event.checkpoint.resource)

    def upto(self, node: NodeKey, resource: float) -> Learned:
        """Return what was known of a node when it was trained so far."""
        return Learned(
            node,
            tuple((at, metrics) for at, metrics in sorted(self.reports.get(node, {}).items()) if at <= resource),
            None,
            tuple(sorted(at for at in self.checkpoints.get(node, ()) if at <= resource)),
        )


class Beside(Simulation):
    """Hands out each work, or refuses it: as known already, or as trained by others, who leave some time later."""

    def __init__(self, state: StudyState, facts: Facts, chance: random.Random, **options: Any) -> None:
        super().__init__(state, **options)
        self._facts, self._chance = facts, chance
        self.refused = 0

    def _carry_out(self, action: AnyAction) -> None:
        if isinstance(action, Assign):
            self.clock.after(0.01, lambda: self._admit(action))
        else:
            super()._carry_out(action)

    def _admit(self, action: Assign) -> None:
        attempt = self.state.attempt(action.work.lease)
        if attempt is None:
            return
        stages = attempt.batch.stages
        kind = self._chance.choice(["all", "some", "busy", "none", "none"])
        if kind in ("all", "some"):
            reach = float("inf") if kind == "all" else self._chance.randint(stages[0].start, attempt.stop)
            nodes = {step.node: None for n in stages[0].trials for step in self.state.trials[n].steps}
            self._tell_all(dict.fromkeys(nodes, reach))
        elif kind == "busy":
            busy = tuple(stage.node for stage in stages[self._chance.randrange(len(stages)) :])
            self.refused += 1
            start = stages[len(stages) - len(busy)].start
            steps = self.state.trials[stages[-1].trials[0]].steps
            self._tell_all({step.node: start for step in steps if step.start < start})
            self.tell(WorkRefused(action.work.lease, "others train it now", busy))
            self.clock.after(LOOK_S, lambda: self._look(busy, self._chance.randint(1, 3)))
            return
        if kind != "none" or is_outdated(self.state, attempt):
            self.refused += 1
            self.tell(WorkRefused(action.work.lease, "others have trained some of it before"))
        else:
            super()._carry_out(action)

    def _look(self, busy: tuple[NodeKey, ...], left: int) -> None:
        self._tell_all({node: float("inf") if left == 0 else 3.0 * left for node in busy})
        if left:
            self.clock.after(LOOK_S, lambda: self._look(busy, left - 1))
            return
        for node in busy:
            if node in self.state.busy:
                self.tell(NodeFreed(node))

    def _tell_all(self, reach: Mapping[NodeKey, float]) -> None:
        for node, resource in reach.items():
            event = self._facts.upto(node, resource)
            if not is_stale(self.state, event):
                self.tell(event)
