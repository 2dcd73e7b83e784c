"""The values that a loss reads of its trainer: they must match, since a stack calls the loss of one of its members."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from asyncsearch.errors import UsageError
from asyncsearch.events import is_of_all
from asyncsearch.packing.alike.structure import is_equal
from asyncsearch.packing.stack.sample_masks import copied_batch
from asyncsearch.packing.unit_generators import outside_states
from asyncsearch.trainers.base_trainer import FrameworkTrainer
from asyncsearch.trainers.packs.pack_training import known_of
from asyncsearch.trainers.torch.packs.watched_trainer import CHANGING, Parts, spy_of, written

_FUNCTIONS = ("loss", "sample_losses")


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


def has_default_loss(trainer: Any) -> bool:
    """Return whether the loss of a trainer is that of ``TorchTrainer``."""
    return type(trainer).has_default("loss") and "loss" not in vars(trainer)


class LossReads:
    """The values that losses of trainers of one class have read so far."""

    def __init__(self) -> None:
        self.own = ""
        """Why each of them trains by itself, whatever the values are; empty if it need not."""
        self._names: dict[tuple[str, str | None], None] = {}

    def values(self, trainer: Any) -> dict[str, Any]:
        """Return the present values of all that is known to be read, by words that say what each is."""
        return {_label(kind, name): _value(trainer, kind, name) for kind, name in self._names}

    def watch(self, trainer: Any, batch: Any) -> str:
        """Compute the losses of a batch on a copy of the model, training and evaluating, and note what they read.

        Args:
            trainer: it is not changed.
            batch: it is on the device.

        Returns:
            Why they fail; empty if they do not.
        """
        parts = Parts(vars(trainer))
        spy = spy_of(trainer, self, parts)
        own = failure = ""
        try:
            model = copy.deepcopy(trainer.net)
            with as_before(trainer):
                before = outside_states()
                with trainer.autocast():
                    self._call(spy, model, copied_batch(batch))
                with torch.no_grad():  # as metrics() calls it
                    self._call(spy, model.eval(), copied_batch(batch))
                if outside_states() != before:
                    own = "loss() draws from the generator of Python or of numpy: draw such numbers in data()"
        except Exception as error:
            if is_of_all(error):
                raise
            failure = f"its loss fails on a copy of its model ({type(error).__name__}: {error})"
        self.own = parts.words() or own or self.own
        return failure

    def note(self, kind: str, name: str | None = None) -> None:
        """Note that something is read; None for all of it."""
        if kind == "self" and name in CHANGING:
            self.own = f"loss() reads or writes self.{name}, which each trainer has of its own: use its arguments"
        else:
            self._names[kind, name] = None

    def note_write(self, name: str) -> None:
        """Note that an attribute of the trainer is written."""
        self.own = written(name)

    @property
    def names(self) -> tuple[tuple[str, str | None], ...]:
        """All that is known to be read."""
        return tuple(self._names)

    @staticmethod
    def _call(spy: Any, model: Any, batch: Any) -> None:
        for name in _FUNCTIONS:
            function = getattr(spy, name, None)
            if function is not None:
                function(model, batch)


def reads_of(kind: type) -> LossReads:
    """Return the reads of the losses of a class of trainers in this process."""
    known = known_of(kind)
    known.loss_reads = known.loss_reads or LossReads()
    found: LossReads = known.loss_reads
    return found


class ReadsDifferError(UsageError):
    """Members of one computation differ in what their loss has read in a step for the first time."""


class LossWatch:
    """Watches the loss of one trainer in each step of the stack that calls it for all its members."""

    def __init__(self, trainer: Any, reads: LossReads) -> None:
        self.trainer, self._reads = trainer, reads
        self.renew()

    def renew(self) -> None:
        """Look at the trainer anew: its own code may have changed it."""
        self._parts = Parts(vars(self.trainer))
        spy = spy_of(self.trainer, self._reads, self._parts)
        self.loss, self.sample_losses = spy.loss, getattr(spy, "sample_losses", None)
        self._count = len(self._reads.names)

    def check(self, watches: Sequence[LossWatch]) -> None:
        """Refuse a step that cannot be that of each trainer of some watches.

        Raises:
            UsageError: the loss has changed something of its trainer, or the trainers differ in what it has read.
        """
        words = self._parts.words() or self._reads.own
        if words:
            self._reads.own = words
            raise UsageError(words)
        names = self._reads.names
        for kind, name in names[self._count :]:
            first, *others = (_value(watch.trainer, kind, name) for watch in watches)
            if not all(is_equal(first, other) for other in others):
                raise ReadsDifferError(f"{_label(kind, name)} differs, and was not read in the first step of the unit")
        self._count = len(names)


class SeenLosses:
    """Looks at the losses of the trainers of one pack, whenever what they read may be something else."""

    def __init__(self, reads: LossReads) -> None:
        self._reads = reads
        self._seen: dict[int, dict[str, Any]] = {}
        self._failures: dict[int, str] = {}

    def look(self, trainers: Mapping[int, Any], batches_of: Callable[[Any], Sequence[Any]]) -> None:
        """Watch the losses of trainers that are new, and of those whose values have led them another way.

        Args:
            trainers: those of the pack, by their ids.
            batches_of: returns the first batch of a trainer, and its beginnings of other sizes that batches will have.
        """
        own = {number: trainer for number, trainer in trainers.items() if not has_default_loss(trainer)}
        self._seen = {number: seen for number, seen in self._seen.items() if number in own}
        for number, trainer in own.items():
            if not self._is_seen(number, trainer):
                first, *smaller = batches_of(trainer)
                self._failures[number] = self._reads.watch(trainer, first)
                for batch in smaller:  # what was cut may be no batch, so that a failure says nothing
                    self._reads.watch(trainer, batch)
        for number, trainer in own.items():
            if not self._is_seen(number, trainer):
                self._seen[number] = self._kept(trainer)

    def of(self, trainer: Any) -> tuple[Mapping[str, Any], str]:
        """Return the values of a trainer that must match, and why it trains by itself; empty if it need not."""
        number = id(trainer)
        return (self._seen[number], self._reads.own or self._failures[number]) if number in self._seen else ({}, "")

    def is_as_seen(self, trainer: Any) -> bool:
        """Return whether the values that a loss reads are as at the last look; the default loss reads none."""
        return has_default_loss(trainer) or self._is_seen(id(trainer), trainer)

    def _is_seen(self, number: int, trainer: Any) -> bool:
        return number in self._seen and is_equal(self._seen[number], self._reads.values(trainer))

    def _kept(self, trainer: Any) -> dict[str, Any]:
        """Return copies of the values: an object that changes in place would always be as it was seen."""
        return {} if self._reads.own else copy.deepcopy(self._reads.values(trainer))


@contextlib.contextmanager
def as_before(trainer: Any) -> Iterator[None]:
    """Restore all generators afterwards."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with FrameworkTrainer._untouched(trainer), torch.random.fork_rng(devices=devices):
        yield


def _label(kind: str, name: str | None) -> str:
    where = {"hp": "hp", "params": "trial.params", "trial": "trial", "self": "self"}[kind]
    if name is not None:
        where += f".{name}" if kind in ("trial", "self") else f"[{name!r}]"
    return f"{where}, which loss() reads,"


def _value(trainer: Any, kind: str, name: str | None) -> Any:
    if kind in ("hp", "params"):
        values = trainer.hp if kind == "hp" else trainer.trial.params
        return dict(values) if name is None else values.get(name, _MISSING)
    return getattr(trainer.trial if kind == "trial" else trainer, str(name), _MISSING)
