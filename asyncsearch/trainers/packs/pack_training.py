"""Trains units of several trainers together, whatever their framework, which says how members are stacked and stepped.

Pseudocode of ``train_pack``::

    trainers that a pack cannot train, or that would change each other's results, train one after another
    for those whose batches can be read in step:
        while there are batches left:
            trainers that have none rest until the end of the unit
            each applies its values at this fraction of the unit to its optimizer
            one step of all, on batches that are read once for all who see the same samples
        the state of each is in its own model and optimizer again, so ``evaluate`` and ``save`` are those of the trainer
        those whose common step failed train their unit by themselves, from its beginning

The process keeps its knowledge about packs of one class of trainers for later packs, and prints each sentence once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from asyncsearch.errors import UsageError
from asyncsearch.trainable import PackOutcome
from asyncsearch.trainers.packs.sample_streams import SampleStream, TrainerUnit
from asyncsearch.trainers.turns import evaluated

T = TypeVar("T")


class Recent(dict[Hashable, Any]):
    """The values that were used last, at most so many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def found(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, made by the first call."""
        value = self.pop(key) if key in self else make()
        self.note(key, value)
        return value

    def note(self, key: Hashable, value: Any) -> None:
        """Let a key have a value from now on."""
        self[key] = value
        if len(self) > self._most:
            del self[next(iter(self))]


class KnownClass:
    """The knowledge about one class of trainers. Everything in it can be found out again, at the price of time."""

    def __init__(self) -> None:
        self.traps = Recent(1024)
        """Structures of which copies were trained -> why members cannot be one computation; empty if they can."""
        self.paddings = Recent(1024)
        """Structures of which copies were trained on padded batches -> why padding counts; None if it does not."""
        self.traced = Recent(32)
        """Traced steps and evaluations, of some megabytes each; a text says why there is none."""
        self.steps = Recent(32)
        """Steps of trainers that train alone, of as many megabytes; None where there is none to be kept."""
        self.loss_reads: Any = None
        """The reads of the losses of trainers of this class; None if none was watched."""
        self.late_seed: Any = None
        """A weak reference to the trainer whose seed of the framework was put off, and the seed; None if none was."""
        self._printed: set[str] = set()

    def say(self, text: str, key: str = "") -> None:
        """Print a sentence once in this process; sentences with the same key are one."""
        if (key or text) not in self._printed:
            self._printed.add(key or text)
            sys.stderr.write(f"asyncsearch: {text}\n")


_known: dict[type, KnownClass] = {}
"""The only memory that packs have beyond themselves."""


def known_of(kind: type) -> KnownClass:
    """Return the knowledge of this process about a class of trainers."""
    return _known.setdefault(kind, KnownClass())


class PackReport:
    """Collects the outcome of one call of ``train_pack``, and prints its new sentences."""

    def __init__(self, kind: type) -> None:
        self._known = known_of(kind)
        self._refused = self._sequential = ""

    @property
    def outcome(self) -> PackOutcome:
        return PackOutcome(self._refused, self._sequential)

    def refuse(self, words: str) -> None:
        """Note that trainers are trained one after another."""
        self._refused, self._sequential = words, ""
        self._known.say(f"these trainings are not packed: {words}.")

    def note_sequential(self, words: str) -> None:
        """Note why some step one after another; the first reason counts."""
        self._sequential = self._sequential or words

    def say(self, text: str, key: str = "") -> None:
        """Print a sentence once in this process; sentences with the same key are one."""
        self._known.say(text, key)


U = TypeVar("U", bound=TrainerUnit)


class NotTogetherError(Exception):
    """Trainers would change each other's results in a pack, and how, and the thing to change."""


class PackTraining(Generic[U]):
    """Several trainers of one class that train together, unit by unit."""

    has_stepped = False
    """Whether a step of the present unit was made."""
    failed: list[U]
    """Those whose common step has failed; their own models and optimizers are as before the unit."""

    def train(self) -> None:
        """Train each trainer by one unit.

        Raises:
            NotTogetherError: before the first step, as they would change each other's results.
            UsageError: they cannot be in one pack for another reason.
        """
        self.has_stepped, self.failed = False, []
        running = self.begin()
        units = [unit for stream in running for unit in stream.units]
        while left := [stream for stream in running if stream.units and stream.advance()]:
            self.rest([unit for stream in running if stream not in left for unit in stream.units])
            running = left
            for stream in running:
                for unit in list(stream.units):
                    # Without sequences, values change between units only.
                    if not self.has_stepped or unit.trainer.trial.has_sequences:
                        self.follow(unit, stream.fraction)
            running = self._without_failed(running)
            if not running:
                break
            self.step(running)
            self.has_stepped = True
            running = self._without_failed(running)
        self.sync()
        for unit in units:
            if unit not in self.failed:
                unit.trainer.samples = unit.start + unit.size
                self.end(unit)
        failed, self.failed = self.failed, []
        for unit in failed:
            self.train_alone(unit)

    def _without_failed(self, streams: Iterable[SampleStream[U]]) -> list[SampleStream[U]]:
        for stream in streams:
            stream.units = [unit for unit in stream.units if unit not in self.failed]
        return [stream for stream in streams if stream.units]

    # The part of the framework

    def begin(self) -> list[SampleStream[U]]:
        """Seed the generators as each trainer's own ``train`` does, and return the streams of samples."""
        raise NotImplementedError

    def rest(self, units: Sequence[U]) -> None:
        """Let units be that have no batches left."""

    def follow(self, unit: U, fraction: float) -> None:
        """Apply the values at a fraction of the unit to the optimizer of a trainer."""
        raise NotImplementedError

    def step(self, streams: Sequence[SampleStream[U]]) -> None:
        """Make one step of all units of some streams, and count it; note those that have failed."""
        raise NotImplementedError

    def sync(self) -> None:
        """Let each trainer that has not failed have its state in its own model and optimizer."""
        raise NotImplementedError

    def end(self, unit: U) -> None:
        """Let a trainer find the generators as its own unit leaves them."""
        raise NotImplementedError

    def train_alone(self, unit: U) -> None:
        """Train a unit that has failed from its beginning, as without a pack."""
        raise NotImplementedError


def train_packs(
    trainers: Sequence[Any],
    refused: str,
    packs: Callable[[PackReport], Iterable[tuple[Sequence[Any], PackTraining[Any] | None]]],
    train_alone: Callable[[Any], None],
) -> PackOutcome:
    """Train a unit of each trainer; return how.

    Args:
        trainers: of one call of ``train_pack``.
        refused: why they cannot be in one pack; empty if they can.
        packs: returns trainers with their pack; None if each trains by itself.
        train_alone: trains a unit as without a pack; an error is that of the trainer.
    """
    report = PackReport(type(trainers[0]))
    if refused:
        report.refuse(refused)
    for together, pack in [(trainers, None)] if refused else packs(report):
        try:
            if pack is not None:
                pack.train()
                continue
        except (NotTogetherError, UsageError) as error:
            if pack is None or pack.has_stepped:
                raise
            report.refuse(str(error).rstrip("."))
        for trainer in together:
            train_alone(trainer)
    return report.outcome


def class_refusal(trainers: Sequence[Any], instead: Mapping[str, str]) -> str:
    """Return why trainers of such classes cannot be in one pack, and the line to change; empty if they can.

    Args:
        trainers: those that are to train together.
        instead: names of methods that a pack does itself, so that one that is overridden would not be called as its
            author expects; and the place for its code.
    """
    kind: Any = type(trainers[0])
    for trainer in trainers:
        if type(trainer) is not kind:
            return f"{kind.__name__} and {type(trainer).__name__} are different classes"
    for name, words in instead.items():
        if not kind.has_default(name):
            where = place_of(getattr(kind, name))
            return f"{kind.__name__}.{name} ({where}) is its own, and a pack has one of its own: {words}"
    return ""


def with_own_metrics(
    trainers: Sequence[Any], found: Mapping[int, Mapping[str, Any]]
) -> list[Mapping[str, Any] | Exception]:
    """Return the metrics of trainers: those that were found, by their ids, and each other one's own or its error."""
    return [found[id(one)] if id(one) in found else evaluated(one) for one in trainers]


def place_of(function: Any) -> str:
    """Return file and line of a function or method."""
    code = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
