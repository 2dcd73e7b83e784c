"""Several trainings inside the runner that train each unit together, as one call of their trainer's ``train_pack``.

Everything else, such as building, loading, evaluating and saving, is that of each training alone. A lane that is
stopped, paused, or fails leaves the pack after its unit, and the others go on; another one may join them then, and not
before, since there may be memory for no more. They wait a moment for it, so that its place is not empty for a unit.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.events import KILLED, MEMORY_KINDS, Outcome
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.packs.pack_memory import PackMemoryProbe, waiting_words
from asyncsearch.runner.packs.pack_timing import PackHistory, PackTiming
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import Ended, PackFindings
from asyncsearch.runner.stopwatch import AWAITING, ENTERING
from asyncsearch.runner.training import ended_by, report_returned
from asyncsearch.sizing.pack_probe import joiner_wait_s
from asyncsearch.trainable import Trainer, TrialStopped, begin_trainer, is_evaluated
from asyncsearch.trainable.context import StoppedItself
from asyncsearch.trainers.turns import begin_turn, end_turn, keep_turn, turn_between_units, turn_of


class PackedTrainer:
    """One lane: a trial, and its trainer once it is built."""

    def __init__(self, number: int, context: SearchContext) -> None:
        self.number, self.context = number, context
        self.trainer: Trainer | None = None
        self._units: Iterator[int] | None = None
        self._unit = 0

    def begin(self, trainer_class: type[Trainer]) -> None:
        """Build the trainer, and load its checkpoint."""
        if self.context.should_stop:
            raise TrialStopped("it was stopped before it began")
        self.context.stopwatch.switch(ENTERING)
        end_turn()
        self.trainer, self._units = begin_trainer(trainer_class, self.context)
        keep_turn(self.trainer)

    def advance(self) -> None:
        """Begin the next unit: save, and take over changed values.

        Raises:
            StopIteration: there is none.
        """
        assert self._units is not None
        assert self.trainer is not None
        with turn_between_units(self.trainer):
            self._unit = next(self._units)

    @property
    def is_evaluated(self) -> bool:
        """Whether it is evaluated after its present unit."""
        return self.trainer is not None and is_evaluated(self.trainer, self._unit)

    def train(self) -> None:
        """Train a unit as without a pack."""
        if self.trainer is not None:
            begin_turn(self.trainer)
            self.trainer.train()
            keep_turn(self.trainer)

    def report(self, metrics: Mapping[str, Any] | Exception | None) -> None:
        """Report the metrics at the end of a unit; None to evaluate first.

        Raises:
            Exception: the evaluation has raised it.
        """
        assert self.trainer is not None
        if metrics is None:
            with turn_of(self.trainer), self.context.evaluating():
                metrics = self.trainer.evaluate()
        if isinstance(metrics, Exception):
            raise metrics
        self.context.report(metrics)


class PackRun:
    """The lanes of one lease that have not ended.

    Args:
        trainer_class: has ``train_pack``.
        contexts: the trials by the numbers of their lanes.
        interrupts: those of this process.
        metric: name of the study's metric.
        tell: called with the end of each lane, as soon as it has ended, and with what is found out about the pack.
        measured: how many lanes to time together in their first unit, group after group.
        joining: returns the trials that came since its last call, by the numbers of their lanes; called between units.
        history: of the packs that this runner has trained before. None if there were none.
        await_joiner: waits for a trial that ``joining`` would return, or so many seconds.
    """

    def __init__(
        self,
        trainer_class: type[Trainer],
        contexts: Mapping[int, SearchContext],
        interrupts: SigtermGuard,
        metric: str,
        tell: Callable[[PackFindings | Ended], None],
        measured: Sequence[int] = (),
        joining: Callable[[], Mapping[int, SearchContext]] = dict,
        history: PackHistory | None = None,
        await_joiner: Callable[[float], None] = lambda timeout_s: None,
    ) -> None:
        self._trainer_class, self._interrupts, self._metric = trainer_class, interrupts, metric
        self._joining, self._await_joiner = joining, await_joiner
        self._memory = PackMemoryProbe()
        self._tell = tell
        self._timing = PackTiming(trainer_class, history or PackHistory(), measured, self._memory)
        self._lanes: list[PackedTrainer] = []
        """Those that are built and have not ended."""
        self._waiting = [PackedTrainer(number, context) for number, context in contexts.items()]
        """Those that are to be built once there is memory for them."""
        self._ended = 0
        """How many lanes have ended since the garbage collector freed what they held."""
        self._unit_s = 0.0
        """Seconds of the last unit; 0 before the first."""
        self._awaits_joiners = True
        """Whether joiners are waited for: not once that was in vain, until one comes."""

    def run(self) -> None:
        """Train all lanes to their ends, whatever their code does except ending the process."""
        try:
            try:
                self._interrupts.arm()
                self._begin_first()
                while self._lanes or self._take_in():
                    self._advance()
                    self._train()
                    self._report()
            finally:
                self._interrupts.disarm()
        except BaseException as error:  # SIGTERM between two steps concerns all lanes
            self._interrupts.disarm()
            # The lanes that have not begun, too: the agent awaits the end of each.
            self._lanes += [*self._waiting, *self._joined()]
            for lane in list(self._lanes):
                self._end(lane, ended_by(error, lane.context, self._interrupts))

    def _advance(self) -> None:
        """Begin the next unit of each lane, and of others that have come, in place of those that end here."""
        before = len(self._lanes)
        self._each(PackedTrainer.advance)
        if self._unit_s:  # not before the first unit, in which lanes may be built one by one
            self._fill(before - len(self._lanes))

    def _fill(self, left: int) -> None:
        """Let lanes that have come train this unit, too, and wait a moment for as many as have left."""
        until_s = time.monotonic() + joiner_wait_s(self._unit_s)
        left -= self._admit()
        while left > 0 and self._lanes and self._awaits_joiners and not self._waiting:
            with self._lanes[0].context.stopwatch.during(AWAITING):
                self._await_joiner(until_s - time.monotonic())
            new = self._admit()
            self._awaits_joiners = new > 0
            left -= new

    def _admit(self) -> int:
        """Take in lanes for the unit that begins; return how many were built."""
        known = set(self._lanes)
        self._take_in()
        new = [lane for lane in self._lanes if lane not in known]
        self._each(PackedTrainer.advance, new)
        return len(new)

    def _begin(self, lane: PackedTrainer) -> None:
        lane.begin(self._trainer_class)
        self._memory.lane_built()

    def _begin_first(self) -> None:
        """Build one lane, and all others if there is memory for them beyond doubt and nothing to be timed.

        Lanes that come meanwhile are among them: a promotion, which has no mates, begins alone, and is joined at once.
        """
        self._build(1)
        self._waiting += self._joined()
        lanes = len(self._lanes) + len(self._waiting)
        if not self._timing.builds_in_turns(lanes):
            self._build(len(self._waiting))

    def _build(self, count: int) -> list[PackedTrainer]:
        """Build so many of the lanes that wait, and return them; those that fail end."""
        new = self._waiting[:count]
        del self._waiting[:count]
        self._lanes += new
        self._each(self._begin, new)
        return [lane for lane in new if lane in self._lanes]

    def _build_for_unit(self, count: int) -> list[Trainer]:
        """Build lanes until so many more have begun their unit, or none waits; return their trainers."""
        found: list[Trainer] = []
        while len(found) < count and self._waiting:
            new = self._build(count - len(found))
            self._each(PackedTrainer.advance, new)
            found += [lane.trainer for lane in new if lane in self._lanes and lane.trainer is not None]
        return found

    def _joined(self) -> list[PackedTrainer]:
        joined = [PackedTrainer(number, context) for number, context in self._joining().items()]
        self._awaits_joiners |= bool(joined)
        return joined

    def _take_in(self) -> bool:
        """Let lanes that wait or came meanwhile begin, as far as there is memory; return whether there were any."""
        self._waiting += self._joined()
        had = len(self._waiting)
        self._build(self._room())
        return len(self._waiting) < had

    def _room(self) -> int:
        """Return how many of the lanes that wait have memory enough, once what has ended is freed."""
        wanted, fits = len(self._waiting), self._timing.fits
        if fits is None:
            return wanted
        found = max(0, min(wanted, fits - len(self._lanes)))
        # Trainers that have ended may hold memory in cycles. To look for cycles takes longer than many a unit.
        if found and len(self._lanes) + self._ended + found > fits:
            gc.collect()
            self._ended = 0
        return found

    def _each(self, step: Callable[[PackedTrainer], None], lanes: Sequence[PackedTrainer] | None = None) -> None:
        """Do a step of some lanes, by default of all; one that cannot go on ends, and the others do."""
        for lane in list(self._lanes) if lanes is None else lanes:
            try:
                step(lane)
            except StopIteration:
                self._return(lane)
            except BaseException as error:
                if self._interrupts.is_received:
                    raise
                self._end(lane, ended_by(error, lane.context, self._interrupts))

    def _train(self) -> None:
        began_s = time.monotonic()
        self._train_unit()
        self._unit_s = time.monotonic() - began_s

    def _train_unit(self) -> None:
        """Train a unit of each lane; one that is left alone trains as it would without a pack."""
        trainers = [lane.trainer for lane in self._lanes if lane.trainer is not None]
        if len(trainers) < 2 and not (self._waiting and self._timing.builds_in_turns(len(trainers))):
            self._each(PackedTrainer.train)
            return
        try:
            found = self._timing.train(trainers, self._build_for_unit, len(self._waiting))
            if found is not None:
                self._tell(found)
            if found is not None and found.memory is not None and self._waiting:
                sys.stderr.write(f"asyncsearch: {waiting_words(found.memory, len(self._waiting))}\n")
        except BaseException as error:
            if self._interrupts.is_received:
                raise
            trained, is_own_stop = len(self._lanes), self._is_own_stop(error)
            if not is_own_stop:
                self._lanes, self._waiting = [*self._lanes, *self._waiting], []
            for lane in list(self._lanes):
                self._end(lane, _ended_together(error, lane.context, trained, is_own_stop=is_own_stop))

    def _is_own_stop(self, error: BaseException) -> bool:
        """Whether the code of one of the lanes has stopped it."""
        return isinstance(error, StoppedItself) and any(lane.context is error.trial for lane in self._lanes)

    def _report(self) -> None:
        """Evaluate all lanes at once, or one after another where that fails, and report.

        Where any lane needs its value: lanes are judged at places of their own, and to evaluate some of them takes as
        long as to evaluate all.
        """
        lanes = list(self._lanes) if any(lane.is_evaluated for lane in self._lanes) else []
        trainers = [lane.trainer for lane in lanes if lane.trainer is not None]
        found: dict[int, Mapping[str, Any] | Exception] = {}
        if len(trainers) > 1:
            try:
                with lanes[0].context.evaluating():
                    metrics = self._trainer_class.evaluate_pack(trainers)
                found = {lane.number: one for lane, one in zip(lanes, metrics, strict=True)}
            except BaseException:
                if self._interrupts.is_received:
                    raise
        self._each(lambda lane: lane.report(found.get(lane.number)), lanes)

    def _return(self, lane: PackedTrainer) -> None:
        error: BaseException | None = None
        try:
            report_returned(lane.context, None, self._metric)
        except BaseException as caught:
            error = caught
        self._end(lane, ended_by(error, lane.context, self._interrupts))

    def _end(self, lane: PackedTrainer, ended: Ended) -> None:
        self._lanes.remove(lane)
        self._ended += 1
        lane.context.close()  # before its end is told: a thread of it that goes on must report nothing after that
        lane.trainer = lane._units = None  # its model needs no memory any more
        self._tell(msgspec.structs.replace(ended, lane=lane.number))


def _ended_together(error: BaseException, context: SearchContext, lanes: int, *, is_own_stop: bool) -> Ended:
    """Return the end of a lane when the step of all lanes failed, for which no one of them can be blamed."""
    if isinstance(error, StoppedItself) and error.trial is context:
        return Ended(Outcome.RETURNED, context.resource, str(error))
    # One that was in a part of its unit when another one stopped itself has to do it again, and nobody is to blame.
    if context.should_stop or is_own_stop:
        return Ended(Outcome.STOPPED, context.resource)
    text = exception_text(error)
    if kind_of(error) in MEMORY_KINDS:
        return Ended(Outcome.FAILED, context.resource, text, kind_of(error))
    words = f"the common step of {lanes} packed trainings failed: {type(error).__name__}: {error}"
    sys.stderr.write(f"{text}\n")
    return Ended(Outcome.FAILED, context.resource, f"{text}\n{words}", KILLED)
