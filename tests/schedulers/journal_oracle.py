"""The oracle of ASHA over a journal: whatever was killed, each promotion in it was due when it was made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from asyncsearch.actions import AnyAction, Compare, CreateTrial, MoveTrial, Promote, lanes_given
from asyncsearch.events import Reported
from asyncsearch.journal.format import Record
from asyncsearch.trial import TrialState
from asyncsearch.values import finite
from tests.schedulers.oracle import Oracle


def require_legal_promotions(records: Iterable[Record], levels: Sequence[int], eta: int = 3) -> int:
    """Check each promotion of a study that minimises ``loss`` and shares nothing; return how many there are."""
    rule = _Rule(levels, eta)
    for record in records:
        if isinstance(record.event, Reported):
            trial = rule.trials[record.event.lease.number + record.event.lane]
            rule.scores[trial] = finite(record.event.metrics["loss"])
        for action in record.actions:
            rule.take(action)
    return rule.promotions


class _Rule:
    def __init__(self, levels: Sequence[int], eta: int) -> None:
        self.oracle, self.top = Oracle(levels, eta), levels[-1]
        self.targets: dict[int, int] = {}
        self.scores: dict[int, float | None] = {}
        self.trials: dict[int, int] = {}
        """Number of an attempt -> its trial."""
        self.compared: dict[int, int] = {}
        self.promotions = 0

    def take(self, action: AnyAction) -> None:
        self.trials |= {given.attempt: given.lane.stages[0].trials[0] for given in lanes_given(action)}
        match action:
            case CreateTrial(trial=trial, target=target):
                assert target is not None
                self.targets[trial] = target
            case Promote():
                move = (action.trial, action.from_resource, action.to_resource)
                assert move in self.oracle.legal(), f"{move} was not due"
                self.targets[action.trial] = action.to_resource
                self.oracle.tell(("promoted", *move))
                self.promotions += 1
            case Compare(trial=trial):
                self.compared[trial] = self.targets[trial]
                self.oracle.tell(("paused", trial, self.targets[trial], self.scores[trial]))
            case MoveTrial(trial=trial, to=TrialState.PAUSED) if self.compared.get(trial) != self.targets[trial]:
                self.oracle.tell(("paused", trial, self.targets[trial], self.scores[trial]))
            case MoveTrial(trial=trial, to=TrialState.COMPLETED):
                self.oracle.tell(("completed", trial, self.top, self.scores[trial]))
            case MoveTrial(trial=trial, to=TrialState.FAILED):
                self.oracle.tell(("failed", trial, self.targets[trial]))
            case _:
                pass
