"""Decides how many workers each study of a cluster may have, as studies come, need more or fewer, and end. Pure.

A study gets a *share*: how many workers it may have running. It launches that many, and gives workers back when its
share falls: idle ones at once, busy ones at the boundary of a stage. All workers that studies may have, or
have not given back yet, are never more than the cluster has.

Shares follow from ``shares.py``. Where they are not whole, studies take turns of at least ``turn_s`` seconds: a worker
changes its study only once another study lags by so many seconds of a worker (``Service``). A worker is asked back
only if another study waits for it, or, where others use the cluster besides, if its study had no need of it for
``spare_s`` seconds; and a need that falls counts as it was for ``settle_s`` seconds, so that the moment between two
stages moves no worker. A worker that was not given back after ``patience_s`` seconds is asked for at the
end of its present unit of training.

A study whose trials train on several workers gets and gives back as many at once as its gangs can use. Until they are
all free, those that are stay reserved for it: no other study may have more than it is to have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from asyncsearch.fair.demands import BrokerFact, Demand, FairPart, SetShare, StudyJoined, StudyLeft, Turn, WorkersNeeded
from asyncsearch.fair.shares import REMEMBERED_S, Service, divide

TURN_S = 30.0
SETTLE_S = 1.0
PATIENCE_S = 60.0
SPARE_S = 10.0
"""As ``spare_s`` where a returned worker is of use to others: longer than most waits for the end of a stage."""
_SOON_S = 0.001
_LEAST_PATIENCE_S = 0.1
"""A shorter one, added to a time, would be that time: the broker would ask again and again and do nothing else."""


class _Member(msgspec.Struct):
    """A study, its last message and its share."""

    demand: Demand
    """The workers that it needs, once that has settled."""
    needs: int = 0
    """The workers that it needs, by its last message."""
    fell_s: float | None = None
    """Since when it needs fewer than ``demand`` has. None if it does not."""
    share: int = 0
    """The share that it was told last."""
    known: int = 0
    """The share that it knows: while that differs from ``share``, a message is on its way."""
    held: int = 0
    starting: int = 0
    asked_s: float | None = None
    """Since when it has more workers than its share. None if it has not."""
    spare_s: float | None = None
    """Since when its share is more than it is to have. None if it is not."""

    @property
    def taken(self) -> int:
        """How many workers it may have running, whatever is on its way."""
        return max(self.share, self.known, self.held)

    @property
    def next_share(self) -> int:
        """The next larger share of which it could use all."""
        return self.demand.sizes.above(self.share)

    @property
    def costs(self) -> int:
        """How many free workers that takes."""
        return max(0, self.next_share - self.taken)

    @property
    def is_answered(self) -> bool:
        """Whether it has said that it knows its share."""
        return self.known == self.share


class WorkerBroker:
    """Shares the workers of one cluster out. ``handle`` takes every fact, in the order of time."""

    def __init__(
        self,
        workers: int,
        *,
        turn_s: float = TURN_S,
        settle_s: float = SETTLE_S,
        patience_s: float = PATIENCE_S,
        spare_s: float = math.inf,
    ) -> None:
        """Begin without studies.

        Args:
            workers: of the cluster, from 1.
            turn_s: the least time that a study keeps a worker, or the workers of a gang, of which it is owed a part
                only.
            settle_s: how long a need that has fallen counts as it was.
            patience_s: how long a study may take to give a worker back at the boundary of a stage.
            spare_s: after how long a study gives back workers that it does not need and no other study waits for; at
                infinity it keeps them.
        """
        self.workers = workers
        self._turn_s, self._settle_s, self._spare_s = turn_s, settle_s, spare_s
        self._patience_s = max(patience_s, _LEAST_PATIENCE_S)
        self._members: dict[str, _Member] = {}
        self._service = Service()
        self._parts: dict[str, FairPart] = {}
        """The part of each study."""
        self._due_s: float | None = None

    def handle(self, fact: BrokerFact, now: float) -> list[SetShare]:
        """Apply a fact and return the messages to the studies.

        Args:
            fact: about a study, or the time.
            now: seconds of a clock that never goes back.
        """
        # Before the fact: until now the studies had the workers that they had before it.
        self._service.advance(now)
        self._learn(fact, now)
        self._settle(now)
        decisions = [*self._decide(now), *self._urge(now)]
        self._due_s = self._next_due(now)
        return decisions

    def next_due(self) -> float | None:
        """Return the time at which ``TimePassed`` is to be told if nothing happens before, or None if never."""
        return self._due_s

    def share_of(self, study: str) -> int:
        """Return how many workers a study may have; 0 for one that is not there."""
        member = self._members.get(study)
        return 0 if member is None else member.share

    def _learn(self, fact: BrokerFact, now: float) -> None:
        match fact:
            case StudyJoined():
                demand = Demand(fact.study, 0, fact.weight, fact.max_workers, fact.priority, fact.sizes)
                self._members[fact.study] = _Member(demand)
            case StudyLeft():
                self._members.pop(fact.study, None)
            case WorkersNeeded() if (member := self._members.get(fact.study)) is not None:
                member.needs, member.held, member.known = fact.workers, fact.held, fact.share
                member.starting = fact.starting
                self._note_return(member, now)
            case _:
                pass

    def _note_return(self, member: _Member, now: float) -> None:
        if member.held <= member.share:
            member.asked_s = None
        elif member.asked_s is None:
            member.asked_s = now

    def _settle(self, now: float) -> None:
        """Let needs count that have risen, and those that fell long enough ago."""
        for member in self._members.values():
            if member.needs >= member.demand.workers:
                member.fell_s = None
            elif member.fell_s is None:
                member.fell_s = now
            if member.fell_s is None or now >= member.fell_s + self._settle_s:
                member.demand, member.fell_s = msgspec.structs.replace(member.demand, workers=member.needs), None

    def _decide(self, now: float) -> list[SetShare]:
        demands = [member.demand for member in self._members.values()]
        self._parts = divide(demands, self.workers, self._turns())
        rates = {study: float(part.rate) for study, part in self._parts.items()}
        self._service.hold(rates, {study: member.held for study, member in self._members.items()})
        # One message at a time: of two on their way it would not be known how many workers are being launched.
        open_to = {study: member for study, member in self._members.items() if member.is_answered}
        former = {study: member.share for study, member in open_to.items()}
        self._ask_back(open_to)
        self._spare(open_to, now)
        self._grant(open_to)
        return [SetShare(study, member.share) for study, member in open_to.items() if member.share != former[study]]

    def _turns(self) -> dict[str, Turn]:
        """Return the turns by which a share is rounded up: first whoever lags, but each for a whole turn.

        A turn does not end before its workers have attached: else short turns would be all starts and no training.
        """
        widest = max((member.demand.sizes.size for member in self._members.values()), default=1)
        turn_s = self._turn_s * widest
        self._service.remembered_s = max(REMEMBERED_S * widest, 2 * turn_s)  # else a long turn would never end
        return {
            study: Turn(self._service.lags.get(study, 0.0), member.share, math.inf if member.starting else turn_s)
            for study, member in self._members.items()
        }

    def _ask_back(self, members: Mapping[str, _Member]) -> None:
        """Lower the shares of studies that have more than their own, as far as others wait for workers."""
        wanted = sum(max(0, self._target(study) - member.share) for study, member in self._members.items())
        coming = sum(member.taken - member.share for member in self._members.values())
        short = wanted - self._free() - coming
        for study, member in sorted(members.items(), key=lambda pair: self._target(pair[0]) - pair[1].share):
            given = max(0, min(short, member.share - self._target(study)))
            kept = member.demand.sizes.usable(member.share - given) if given else member.share
            short -= member.share - kept
            member.share = kept

    def _spare(self, members: Mapping[str, _Member], now: float) -> None:
        """Lower the shares of studies that had more than they are to have for long, though no other study waits."""
        for study, member in members.items():
            if member.share <= self._target(study):
                member.spare_s = None
            elif member.spare_s is None:
                member.spare_s = now
            elif now >= member.spare_s + self._spare_s:
                member.share, member.spare_s = member.demand.sizes.usable(self._target(study)), None

    def _grant(self, members: Mapping[str, _Member]) -> None:
        """Raise the shares of studies that have less than their own, the one that misses most for its weight first.

        Where that waits for the workers of a gang, free ones are kept for it: else others, whose needs come and go,
        would take one after another, and the gang might never have all at once.
        """

        def order(member: _Member) -> tuple[int, float]:
            return -member.demand.priority, member.share / member.demand.weight

        while True:
            free = self._free()
            short = [member for study, member in members.items() if member.share < self._target(study)]
            first = next(
                (one for one in sorted(short, key=order) if one.costs <= free or one.demand.sizes.size > 1), None
            )
            if first is None or first.costs > free:
                return
            first.share = first.next_share

    def _target(self, study: str) -> int:
        return self._parts[study].workers

    def _free(self) -> int:
        return self.workers - sum(member.taken for member in self._members.values())

    def _urge(self, now: float) -> Iterable[SetShare]:
        """Ask again, and for the end of the present unit, for the workers that are overdue."""
        for study, member in self._members.items():
            self._note_return(member, now)
            if member.asked_s is not None and now >= member.asked_s + self._patience_s:
                member.asked_s = now
                yield SetShare(study, member.share, is_urgent=True)

    def _next_due(self, now: float) -> float | None:
        dues = [member.fell_s + self._settle_s for member in self._members.values() if member.fell_s is not None]
        dues += [member.asked_s + self._patience_s for member in self._members.values() if member.asked_s is not None]
        answered = [member for member in self._members.values() if member.is_answered]  # nothing is told to others
        spares = [member.spare_s for member in answered if member.spare_s is not None]
        dues += [since_s + self._spare_s for since_s in spares if math.isfinite(self._spare_s)]
        turn = self._next_turn(now)
        return min([*dues, *([] if turn is None else [turn])], default=None)

    def _next_turn(self, now: float) -> float | None:
        """Return when the first study that waits for its turn lags so far that it has one. None if it never does."""
        parts = [part for study, part in self._parts.items() if self._members[study].is_answered]
        waiting = [part for part in parts if part.workers < part.rate]
        dues = [
            due
            for late in waiting
            for other in parts
            if other is not late and other.demand.priority == late.demand.priority
            for gap in _gaps(late, other)
            if (due := self._turn_of(late, other, gap, now)) is not None
        ]
        return min(dues, default=None)

    def _turn_of(self, late: FairPart, other: FairPart, gap: float, now: float) -> float | None:
        speeds = self._service.speeds
        speed = speeds[late.demand.study] - speeds[other.demand.study]
        is_coming = speed > 0 and math.isfinite(gap) and gap >= 0  # else it has come, and was not enough
        return now + gap / speed + _SOON_S if is_coming else None


def _gaps(late: FairPart, other: FairPart) -> Iterable[float]:
    """Yield by how much more a study must lag than the one that has its workers, to have its turn."""
    if other.workers > other.rate:
        yield other.rise - late.rise
    if late.is_large and other.workers >= other.floor > 0:
        yield other.keep - late.rise
