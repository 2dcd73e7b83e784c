"""What a loss reads of its trainer: members of one computation have the loss of one of them, so these must be equal."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from asyncsearch.events import MEMORY_KINDS
from asyncsearch.packing.structure import is_equal
from asyncsearch.trainers.base_trainer import FrameworkTrainer
from asyncsearch.trainers.torch import TorchTrainer

_CHANGING = ("net", "parallel", "opt", "scaler", "steps", "_applied", "_pack", "__dict__")
"""Attributes of a trainer that are its own, or change from step to step."""
_COUNTERS = ("samples",)
"""Attributes that a trainer has of its class until it first trains."""
_WHOLE = ("__iter__", "__len__", "__eq__", "__or__", "__ror__", "__reversed__", "__repr__", "keys", "values", "items")
"""Methods of a dictionary that read all of it; ``dict(hp)`` and ``f(**hp)`` call some of them."""
_FUNCTIONS = ("loss", "sample_losses")


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


def has_default_loss(trainer: Any) -> bool:
    """Return whether the loss of a trainer is that of ``TorchTrainer``."""
    return type(trainer).loss is TorchTrainer.loss and "loss" not in vars(trainer)


class LossReads:
    """What the losses of trainers of one class have read so far."""

    def __init__(self) -> None:
        self.own = ""
        """Why each of them trains by itself, whatever the values are; empty: it need not."""
        self._names: dict[tuple[str, str | None], None] = {}

    def values(self, trainer: Any) -> dict[str, Any]:
        """Return the present values of all that is known to be read, by words that say what each is."""
        return {_label(kind, name): _value(trainer, kind, name) for kind, name in self._names}

    def watch(self, trainer: Any, batch: Any) -> None:
        """Compute the losses of a batch on a copy of the model, training and evaluating, and note what they read."""
        spy = _spy(trainer, self)
        try:
            model = copy.deepcopy(trainer.net)
            with as_before(trainer), trainer.autocast():
                self._call(spy, model, batch)
                self._call(spy, model.eval(), batch)
        except Exception as error:
            if type(error).__name__ in MEMORY_KINDS:
                raise
            self.own = f"its loss fails on a copy of its model ({type(error).__name__}: {error})"

    def note(self, kind: str, name: str | None = None) -> None:
        """Note that something is read; None: all of it."""
        if kind == "self" and name in _CHANGING:
            self.own = f"loss() reads or writes self.{name}, which each trainer has of its own: use its arguments"
        else:
            self._names[kind, name] = None

    def note_write(self, name: str) -> None:
        """Note that an attribute of the trainer is written."""
        self.own = f"loss() writes self.{name}, which a pack does for one trainer only: leave it out"

    @staticmethod
    def _call(spy: Any, model: Any, batch: Any) -> None:
        for name in _FUNCTIONS:
            function = getattr(spy, name, None)
            if function is not None:
                function(model, batch)


class LossTerms:
    """Looks at the losses of the trainers of one pack, whenever what they read may be something else."""

    def __init__(self, reads: LossReads) -> None:
        self._reads = reads
        self._seen: dict[int, dict[str, Any]] = {}

    def look(self, trainers: Mapping[int, Any], batch_of: Callable[[Any], Any]) -> None:
        """Watch the losses of trainers that are new, and of those whose values have led them another way.

        Args:
            trainers: those of the pack, by their ids.
            batch_of: returns the batch of a trainer.
        """
        self._seen = {number: seen for number, seen in self._seen.items() if number in trainers}
        for number, trainer in trainers.items():
            if has_default_loss(trainer):
                continue
            if number not in self._seen or not is_equal(self._seen[number], self._reads.values(trainer)):
                self._reads.watch(trainer, batch_of(trainer))
            self._seen[number] = self._reads.values(trainer)

    def of(self, trainer: Any) -> tuple[Mapping[str, Any], str]:
        """Return what must be equal for a trainer to be trained with others, and why it never is; empty: it may be."""
        return ({}, "") if has_default_loss(trainer) else (self._reads.values(trainer), self._reads.own)


class _WatchedValues(dict[str, Any]):
    """Hyper-parameters that tell what is read of them."""

    def __init__(self, values: Mapping[str, Any], kind: str, reads: LossReads) -> None:
        super().__init__(values)
        self._kind, self._reads = kind, reads

    def __getitem__(self, name: str) -> Any:
        self._reads.note(self._kind, name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._reads.note(self._kind, name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self._reads.note(self._kind, str(name))
        return super().__contains__(name)

    def pop(self, name: str, *default: Any) -> Any:
        self._reads.note(self._kind, name)
        return super().pop(name, *default)

    def copy(self) -> _WatchedValues:
        return _WatchedValues(self, self._kind, self._reads)


def _reads_all(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def read(self: _WatchedValues, *args: Any) -> Any:
        self._reads.note(self._kind)
        return method(self, *args)

    return read


for _name in _WHOLE:
    setattr(_WatchedValues, _name, _reads_all(_name))


class _WatchedTrial:
    """A trial that tells what is read of it."""

    def __init__(self, trial: Any, reads: LossReads) -> None:
        self._trial, self._reads = trial, reads

    def __getattr__(self, name: str) -> Any:
        if name == "params":
            return _WatchedValues(self._trial.params, "params", self._reads)
        found = getattr(self._trial, name)
        if name != "once":  # returns one object for all trials of a process
            if callable(found):
                self._reads.own = f"loss() calls self.trial.{name}(): read self.hp instead"
            self._reads.note("trial", name)
        return found


def _spy(trainer: Any, reads: LossReads) -> Any:
    """Return a trainer with the attributes of another one that tells what is read of it; writes stay in it."""
    kind = type(trainer)
    own = dict(vars(trainer))

    def read(self: Any, name: str) -> Any:
        if name == "hp":
            return _WatchedValues(own["hp"], "hp", reads)
        if name == "trial":
            return _WatchedTrial(own["trial"], reads)
        if name in own or name in _COUNTERS or name in _CHANGING:
            reads.note("self", name)
        return object.__getattribute__(self, name)

    def write(self: Any, name: str, value: Any) -> None:
        reads.note_write(name)
        object.__setattr__(self, name, value)

    spying = type(kind.__name__, (kind,), {"__getattribute__": read, "__setattr__": write})
    spy: Any = object.__new__(spying)
    object.__getattribute__(spy, "__dict__").update(own)
    return spy


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
