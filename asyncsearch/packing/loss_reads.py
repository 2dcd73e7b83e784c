"""What a loss reads of its trainer: members of one computation have the loss of one of them, so these must be equal."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from asyncsearch.packing.structure import is_equal
from asyncsearch.packing.unit_generators import draws_outside_torch, states
from asyncsearch.trainers.base_trainer import FrameworkTrainer
from asyncsearch.trainers.torch import TorchTrainer
from asyncsearch.trainers.unit_errors import is_of_all

_CHANGING = ("net", "parallel", "opt", "scaler", "steps", "_applied", "_pack", "__dict__")
"""Attributes of a trainer that are its own, or change from step to step."""
_COUNTERS = ("samples",)
"""Attributes that a trainer has of its class until it first trains."""
_WHOLE = (
    "__iter__",
    "__len__",
    "__eq__",
    "__ne__",
    "__or__",
    "__ror__",
    "__reversed__",
    "__repr__",
    "keys",
    "values",
    "items",
)
"""Methods of a dictionary that read all of it; ``dict(hp)`` and ``f(**hp)`` call some of them."""
_WRITERS = ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update")
"""Methods of a dictionary that change it."""
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

    def watch(self, trainer: Any, batch: Any) -> str:
        """Compute the losses of a batch on a copy of the model, training and evaluating, and note what they read.

        Args:
            trainer: it is not changed.
            batch: it is on the device.

        Returns:
            Why they fail; empty: they do not.
        """
        parts = _Parts(vars(trainer))
        spy = _spy(trainer, self, parts)
        own = failure = ""
        try:
            model = copy.deepcopy(trainer.net)
            with as_before(trainer), trainer.autocast():
                before = states()
                self._call(spy, model, batch)
                self._call(spy, model.eval(), batch)
                if draws_outside_torch(before):
                    own = "loss() draws from the generator of Python or of numpy: draw such numbers in data()"
        except Exception as error:
            if is_of_all(error):
                raise
            failure = f"its loss fails on a copy of its model ({type(error).__name__}: {error})"
        self.own = parts.words() or own or self.own
        return failure

    def note(self, kind: str, name: str | None = None) -> None:
        """Note that something is read; None: all of it."""
        if kind == "self" and name in _CHANGING:
            self.own = f"loss() reads or writes self.{name}, which each trainer has of its own: use its arguments"
        else:
            self._names[kind, name] = None

    def note_write(self, name: str) -> None:
        """Note that an attribute of the trainer is written."""
        self.own = _written(name)

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
        """Return what must be equal for a trainer to be trained with others, and why it never is; empty: it may be."""
        number = id(trainer)
        return (self._seen[number], self._reads.own or self._failures[number]) if number in self._seen else ({}, "")

    def is_as_seen(self, trainer: Any) -> bool:
        """Return whether what the loss of a trainer reads is as at the last look; the default one reads nothing."""
        return has_default_loss(trainer) or self._is_seen(id(trainer), trainer)

    def _is_seen(self, number: int, trainer: Any) -> bool:
        return number in self._seen and is_equal(self._seen[number], self._reads.values(trainer))

    def _kept(self, trainer: Any) -> dict[str, Any]:
        """Return copies of the values: an object that changes in place would always be as it was seen."""
        return {} if self._reads.own else copy.deepcopy(self._reads.values(trainer))


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

    def copy(self) -> dict[str, Any]:
        self._reads.note(self._kind)
        return dict(self)


def _reads_all(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def read(self: _WatchedValues, *args: Any) -> Any:
        self._reads.note(self._kind)
        return method(self, *args)

    return read


def _writes(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def write(self: _WatchedValues, *args: Any, **values: Any) -> Any:
        self._reads.note_write("hp")
        return method(self, *args, **values)

    return write


for _name in _WHOLE:
    setattr(_WatchedValues, _name, _reads_all(_name))
for _name in _WRITERS:
    setattr(_WatchedValues, _name, _writes(_name))


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


class _Parts:
    """Copies of the attributes of a trainer, which a loss may change without writing them."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        self._own = own
        self._copies: dict[str, Any] = {}
        self._uncopied: str | None = None

    def of(self, name: str) -> Any:
        """Return the copy of an attribute; the error ends a loss that would change what has none."""
        if name not in self._copies:
            self._uncopied = name
            self._copies[name] = copy.deepcopy(self._own[name])
            self._uncopied = None
        return self._copies[name]

    def words(self) -> str:
        """Return why trainers with these attributes train by themselves; empty: they need not."""
        name = self._uncopied
        if name is not None:
            kind = type(self._own[name]).__name__
            return f"loss() reads self.{name}, a {kind}, which cannot be copied: use numbers, tensors and layers"
        changed = next((name for name, one in self._copies.items() if not is_equal(one, self._own[name])), None)
        return "" if changed is None else _written(changed)


def _spy(trainer: Any, reads: LossReads, parts: _Parts) -> Any:
    """Return a trainer with the attributes of another one that tells what is read of it; writes stay in it."""
    kind = type(trainer)
    own = dict(vars(trainer))

    def read(self: Any, name: str) -> Any:
        if name == "hp":
            return _WatchedValues(parts.of("hp"), "hp", reads)
        if name == "trial":
            return _WatchedTrial(own["trial"], reads)
        if name in own or name in _COUNTERS or name in _CHANGING:
            reads.note("self", name)
        return parts.of(name) if name in own and name not in _CHANGING else object.__getattribute__(self, name)

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


def _written(name: str) -> str:
    return f"loss() changes self.{name}, which a pack does for one trainer only: leave it out"


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
