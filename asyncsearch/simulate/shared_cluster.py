"""Several studies on one pool of virtual workers, which the broker of real clusters shares out. Pure.

pool = SharedSimulation(60)
pool.submit("wide", state, Curves(seed=1), num_trials=500, weight=2)
pool.submit("late", another, Curves(seed=2), num_trials=100, at_s=600.0)
pool.run()
pool.holdings, pool.clock.now
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from asyncsearch.engine.sizing.share import demand
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UsageError
from asyncsearch.events import AnyEvent, ShareChanged
from asyncsearch.fair.broker import PATIENCE_S, SETTLE_S, TURN_S, WorkerBroker
from asyncsearch.fair.demands import BrokerFact, GangSizes, StudyJoined, StudyLeft, TimePassed, WorkersNeeded
from asyncsearch.simulate.cluster import Simulation
from asyncsearch.simulate.options import Delays, Faults, TrainingModel
from asyncsearch.simulate.virtual_cluster import VirtualClock
from asyncsearch.simulate.workloads import Workload

_NO_DELAYS, _NO_FAULTS, _TRAINING = Delays(), Faults(), TrainingModel()


class Holding(msgspec.Struct, frozen=True):
    """The workers of all studies from a time on."""

    at_s: float
    held: dict[str, int]
    """Workers of each study that takes part."""
    needed: dict[str, int]
    """How many each could use."""


class _Study(Simulation):
    """One study of the pool, observed after each event."""

    observe: Callable[[], None] = staticmethod(lambda: None)

    def tell(self, event: AnyEvent) -> None:
        super().tell(event)
        self.observe()


class SharedSimulation:
    """A pool of virtual workers."""

    def __init__(
        self, workers: int, *, turn_s: float = TURN_S, settle_s: float = SETTLE_S, patience_s: float = PATIENCE_S
    ) -> None:
        """Begin without studies; see ``WorkerBroker`` for the arguments."""
        self.clock = VirtualClock()
        self.workers = workers
        self.studies: dict[str, Simulation] = {}
        self.holdings: list[Holding] = []
        """In the order of time, one for each change."""
        self._broker = WorkerBroker(workers, turn_s=turn_s, settle_s=settle_s, patience_s=patience_s)
        self._reported: dict[str, WorkersNeeded] = {}
        self._due_s: float | None = None

    def submit(
        self,
        name: str,
        state: StudyState,
        workload: Workload,
        *,
        num_trials: int | None,
        at_s: float = 0.0,
        weight: float = 1.0,
        max_workers: int | None = None,
        priority: int = 0,
        delays: Delays = _NO_DELAYS,
        faults: Faults = _NO_FAULTS,
        training: TrainingModel = _TRAINING,
    ) -> None:
        """Let a study join at a time.

        Raises:
            UsageError: the name is taken, or the weight, the limit or the priority is invalid.
        """
        if name in self.studies:
            raise UsageError(f"There is a study {name!r} already: name this one otherwise.")
        study = _Study(
            state, workload, workers=self.workers, delays=delays, faults=faults, training=training, clock=self.clock
        )
        self.studies[name] = study
        gang = state.gang
        sizes = GangSizes() if gang is None else GangSizes(gang.size, gang.min_size)
        terms = StudyJoined(name, weight, max_workers, priority, sizes)

        def begin() -> None:
            self._tell(terms)
            study.observe = lambda: self._observe(name, study)
            study.begin(num_trials, share=0)

        self.clock.at(at_s, begin)

    def run(self, until: float = float("inf")) -> None:
        """Let time pass until all have ended, or the clock passes ``until`` seconds."""
        self.clock.run(until)

    def held_s(self, name: str, from_s: float, to_s: float) -> float:
        """Return for how many seconds a study held workers between two times, all workers together."""
        ends = [holding.at_s for holding in self.holdings[1:]] + [max(self.clock.now, to_s)]
        return sum(
            holding.held.get(name, 0) * max(0.0, min(end, to_s) - max(holding.at_s, from_s))
            for holding, end in zip(self.holdings, ends, strict=True)
        )

    def _observe(self, name: str, study: _Study) -> None:
        state, is_over = study.state, study.end is not None
        share = state.run.share if state.run is not None and isinstance(state.run.share, int) else 0
        held = state.pool.count_alive()
        needs = 0 if is_over else demand(state, self.workers)
        known, starting = self._broker.share_of(name) if is_over else share, state.pool.count_starting()
        fact = WorkersNeeded(name, needs, held, known, starting)
        if fact != self._reported.get(name):
            self._reported[name] = fact
            self._note()
            self._tell(StudyLeft(name) if is_over and not held else fact)

    def _note(self) -> None:
        now = self.clock.now
        held = {name: fact.held for name, fact in self._reported.items()}
        needed = {name: fact.workers for name, fact in self._reported.items()}
        if self.holdings and self.holdings[-1].at_s == now:
            self.holdings.pop()
        self.holdings.append(Holding(now, held, needed))

    def _tell(self, fact: BrokerFact) -> None:
        for order in self._broker.handle(fact, self.clock.now):
            study = self.studies[order.study]
            event = ShareChanged(order.workers, order.is_urgent)
            assert isinstance(study, _Study)
            self.clock.after(0.0, lambda study=study, event=event: study.tell(event))  # type: ignore[misc]
        self._set_timer()

    def _set_timer(self) -> None:
        due_s = self._broker.next_due()
        if due_s is None or (self._due_s is not None and self.clock.now <= self._due_s <= due_s):
            return
        self._due_s = due_s
        self.clock.at(due_s, self._ring)

    def _ring(self) -> None:
        due_s = self._broker.next_due()
        self._due_s = None
        if due_s is not None and due_s <= self.clock.now:
            self._tell(TimePassed())
        else:
            self._set_timer()
