"""Random orders of facts for a scheduler alone and for the oracle of its rule; no engine takes part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from hypothesis import strategies as st

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import Scheduler
from tests.schedulers.oracle import Fact, Move
from tests.schedulers.tools import restored

Command = tuple[str, int, float | None]
SCORES = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.0]), st.floats(-10, 10))
COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(
            ["new", "new", "pause", "pause", "pause", "again", "fail", "stop", "end", "promote", "promote"]
        ),
        st.integers(0, 1000),
        SCORES,
    ),
    max_size=60,
)


class Rule(Protocol):
    """An oracle: it is told every fact, and says which promotions are due, the first one first."""

    def tell(self, fact: Fact) -> None: ...
    def legal(self) -> list[Move]: ...


class OraclePlay:
    """Turns random commands into facts; the scheduler is put through its snapshot after every one."""

    def __init__(self, scheduler: Scheduler, oracle: Rule) -> None:
        self.scheduler = scheduler
        self.state = scheduler.begin()
        self.oracle = oracle
        self.facts: list[Fact] = []
        self.training: dict[int, int] = {}
        self.paused: dict[int, int] = {}
        self.created = 0

    def go(self, commands: Iterable[Command]) -> None:
        """Obey all commands, then promote until nothing is due."""
        for command in commands:
            self.act(command)
            self.check()
            self.state = restored(self.scheduler, self.state)
        while self.promote():
            self.check()

    def tell(self, *fact: Any) -> None:
        self.facts.append(fact)
        self.oracle.tell(fact)
        getattr(self.state, fact[0])(*fact[1:])

    def act(self, command: Command) -> None:
        kind, choice, score = command
        training = sorted(self.training)
        trial = training[choice % len(training)] if training else -1
        if kind == "new":
            target = self.state.first_target(TrialId(self.created))
            assert target is not None
            self.training[self.created] = target
            self.tell("created", self.created, {})
            self.created += 1
        elif kind == "pause" and training and self.training[trial] != self.scheduler.max_resource:
            self.paused[trial] = self.training.pop(trial)
            self.tell("paused", trial, self.paused[trial], score)
        elif kind in ("pause", "end") and training:
            self.tell("completed", trial, self.training.pop(trial), score)
        elif kind == "fail" and training:
            self.tell("failed", trial, self.training.pop(trial))
        elif kind == "stop" and self.paused:
            trial = sorted(self.paused)[choice % len(self.paused)]
            self.tell("stopped", trial, self.paused.pop(trial), score)
        elif kind == "again" and self.paused:
            trial = sorted(self.paused)[choice % len(self.paused)]
            self.tell("paused", trial, self.paused[trial], score)
        elif kind == "promote":
            self.promote()

    def promote(self) -> bool:
        promotion = self.state.next_promotion()
        if promotion is None:
            return False
        self.tell("promoted", promotion.trial, promotion.from_resource, promotion.to_resource)
        del self.paused[promotion.trial]
        self.training[promotion.trial] = promotion.to_resource
        return True

    def check(self) -> None:
        promotion = self.state.next_promotion()
        due = self.oracle.legal()
        found = None if promotion is None else (promotion.trial, promotion.from_resource, promotion.to_resource)
        assert found == (due[0] if due else None)
