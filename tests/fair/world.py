"""Studies that obey a broker on a clock of their own, for tests."""

from __future__ import annotations

import random
from collections.abc import Iterable

from asyncsearch.fair.broker import WorkerBroker
from asyncsearch.fair.demands import BrokerFact, GangSizes, SetShare, StudyJoined, StudyLeft, TimePassed, WorkersNeeded

ALONE = GangSizes()


class World:
    """Studies that obey the broker: messages take a while, launches too, and workers come back at boundaries."""

    def __init__(self, workers: int, seed: int = 0, stage_s: float = 5.0, **options: float) -> None:
        self.broker = WorkerBroker(workers, **options)
        self.now = 0.0
        self.stage_s = stage_s
        self.draw = random.Random(seed)
        self.needs: dict[str, int] = {}
        self.sizes: dict[str, GangSizes] = {}
        self.shares: dict[str, int] = {}
        self.ends: dict[str, list[float]] = {}
        """When each worker of a study comes to the end of its stage."""
        self.inbox: list[SetShare] = []
        self.served: dict[str, float] = {}
        self.moves: list[float] = []

    def tell(self, fact: BrokerFact) -> None:
        self.inbox += self.broker.handle(fact, self.now)

    def join(
        self,
        study: str,
        needs: int,
        weight: float = 1.0,
        most: int | None = None,
        priority: int = 0,
        sizes: GangSizes = ALONE,
    ) -> None:
        self.needs[study], self.shares[study], self.ends[study], self.served[study] = needs, 0, [], 0.0
        self.sizes[study] = sizes
        self.tell(StudyJoined(study, weight, most, priority, sizes))
        self.report(study)

    def leave(self, study: str) -> None:
        del self.needs[study], self.shares[study], self.ends[study]
        self.inbox = [order for order in self.inbox if order.study != study]
        self.tell(StudyLeft(study))

    def report(self, study: str) -> None:
        self.tell(WorkersNeeded(study, self.needs[study], len(self.ends[study]), self.shares[study]))

    def deliver(self) -> None:
        """Deliver the first message; its study launches up to its share."""
        if not self.inbox:
            return
        order = self.inbox.pop(0)
        self.shares[order.study] = order.workers
        ends = self.ends[order.study]
        new = max(0, order.workers - len(ends))
        self.moves += [self.now] * new
        ends += self.begin(order.study, new)
        if order.is_urgent:
            del ends[order.workers :]
        self.report(order.study)

    def lose(self, study: str) -> None:
        """Lose a worker, which the study knows of before it launches another one."""
        if self.ends[study]:
            self.ends[study].pop()
            self.report(study)

    def relaunch(self) -> None:
        """Let studies launch up to the shares that they know, whatever is on its way to them."""
        for study, ends in self.ends.items():
            while len(ends) < self.shares[study]:
                ends.append(self.now + self.stage_s)
                self.check()
            self.report(study)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        self.relaunch()
        while self.now < until:
            while self.inbox:
                self.deliver()
                self.check()
            due = self.broker.next_due()
            step = min(
                [until, *([due] if due is not None else []), *[end for ends in self.ends.values() for end in ends]]
            )
            step = max(step, self.now)
            for study, ends in self.ends.items():
                self.served[study] += len(ends) * (step - self.now)
            self.now = step
            if due is not None and step >= due:
                self.tell(TimePassed())
            for study in list(self.ends):
                self.end_stages(study)
            self.check()

    def happen(self, event: str, draw: random.Random) -> None:
        """Let something happen to a study that is drawn; where there is none, and else by default, time passes."""
        studies = list(self.needs)
        match event:
            case "leave" if studies:
                self.leave(draw.choice(studies))
            case "need" if studies:
                study = draw.choice(studies)
                self.needs[study] = draw.randint(0, 9)
                self.report(study)
            case "lose" if studies:
                self.lose(draw.choice(studies))
            case "relaunch":
                self.relaunch()
            case "deliver":
                self.deliver()
            case _:
                self.pass_time(draw.uniform(0.0, 10.0))

    def end_stages(self, study: str) -> None:
        ends = sorted(self.ends[study])
        over = [end for end in ends if end <= self.now]
        stay = [end for end in ends if end > self.now]
        self.ends[study] = stay + self.begin(study, min(len(over), max(0, self.shares[study] - len(stay))))
        if over:
            self.report(study)

    def begin(self, study: str, workers: int) -> list[float]:
        """Return when so many workers come to the end of a stage: those of a gang at once."""
        found: list[float] = []
        while len(found) < workers:
            end = self.now + self.stage_s * self.draw.uniform(0.5, 1.0)
            found += [end] * min(self.sizes[study].size, workers - len(found))
        return found

    def check(self) -> None:
        """Require that no more run than there are, and that each share is what the gangs of its study can use."""
        assert sum(map(len, self.ends.values())) <= self.broker.workers
        assert all(self.sizes[study].usable(share) == share for study, share in self.shares.items())

    def held(self) -> dict[str, int]:
        return {study: len(ends) for study, ends in self.ends.items()}


def jain(parts: Iterable[float]) -> float:
    """Return Jain's index of fairness: 1 where all parts are equal."""
    values = list(parts)
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))
