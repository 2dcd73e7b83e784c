"""The Python values that a traced step holds as constants, so that a step is traced anew once one has changed.

What is reachable from the model, the loss, the metrics and the optimizer is read: attributes of layers and of objects,
containers, functions with their closures and the globals that they name. Of a trainer and of a module only what some
function there names is read, since the rest, such as a list of results, changes without any effect. Variables do not
count: a traced step reads them each time. A value too many costs one trace, one too few gives a wrong number.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainable import Trainer, TrialContext

_FRAMEWORKS = frozenset({"keras", "tensorflow", "numpy", "asyncsearch", "h5py", "absl", "optree", "ml_dtypes"})
_MOST = 200_000
"""Values that are read; a trainer with more is taken for changed each time."""
_PLAIN = (int, str, bytes, complex, type(None), CodeType, np.dtype, tf.DType, range)
_OF_OBJECTS = frozenset({"name", "_name", "_tracker", "_lock", "_auto_config"})
"""Attributes of any object of Keras that tell nothing about how it computes."""
_OF_OPTIMIZERS = frozenset({"_variables", "_trainable_variables", "_trainable_variables_indices", "apply",
                            "_distribution_strategy", "_distribute_strategy"})  # fmt: skip
_RATES = frozenset({"lr", "learning_rate"})
_WHOLE = frozenset({"items", "values", "keys", "dict", "vars", "copy"})
"""Names in code that may read a mapping as a whole."""
_TRAINER = frozenset({"net", "opt", "trial"})
"""Parts of a trainer that are read anyhow, or in another way."""


class Itself:
    """A value that is equal to itself alone; it is kept, since another one could get its address."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


_REPLACED = ("call", "compute_loss", "train_step", "test_step")
"""Methods that may be replaced in one layer."""


class HeldValues:
    """The values that a traced step of a trainer may hold, as they are now; equal ones permit one trace."""

    _left_out = _OF_OBJECTS
    is_of_no_training = True
    """It decides only what is traced, so a check of the trainer leaves it out."""

    def __init__(self, trainer: Any) -> None:
        self.functions: list[Any] = []
        """The ``tf.function`` objects among them, each of which has traces of its own."""
        config = keras.config  # which layers and losses read when they are traced
        settings = config.floatx(), config.epsilon(), config.image_data_format(), config.dtype_policy().name
        self._tokens: list[Any] = [settings]
        self._seen: dict[int, Any] = {}
        self._names: set[str] = set()
        self._owners: list[Any] = []
        """Trainers and modules, of which only what is named is read."""
        self._read: set[tuple[int, str]] = set()
        self._walk(self._roots(trainer))
        self._read_named()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldValues) and self._tokens == other._tokens

    __hash__ = None  # type: ignore[assignment]

    def _roots(self, trainer: Any) -> list[Any]:
        net = trainer.net
        own = [getattr(net, name, None) for name in ("_compile_loss", "_compile_metrics")]
        return [net, *own, list(net.metrics), trainer.loss, trainer.metrics, trainer._limit, net.optimizer]

    def _mark(self, value: Any) -> Any:
        """Return the mark of an object: another one in its place is a change."""
        return Itself(value)

    def _walk(self, roots: Iterable[Any]) -> None:
        todo = [*roots]
        while todo:
            value = todo.pop()
            if len(self._tokens) > _MOST:
                self._tokens.append(Itself(object()))
                return
            if (plain := plain_mark(value)) is not None:
                self._tokens.append(plain)
            elif id(value) in self._seen:
                self._tokens.append(("again", self._seen[id(value)][0]))
            else:
                self._seen[id(value)] = len(self._seen), value  # kept, so that nothing else gets its address
                try:
                    kind, parts = self._parts(value)
                except Exception:  # code of the user's own, or of a library, that does not let itself be read
                    kind, parts = Itself(value), []
                self._tokens.append((type(value), kind, len(parts)))
                todo.extend(parts)

    def _parts(self, value: Any) -> tuple[Any, list[Any]]:
        """Return the mark by which a value itself is compared, and its parts."""
        found = array_mark(value)
        if found is not None:
            return found, []
        if isinstance(value, keras.Variable):
            return self._mark(value), [value.trainable, getattr(value, "regularizer", None), value.constraint]
        if isinstance(value, keras.random.SeedGenerator | tf.Variable | keras.KerasTensor):
            return self._mark(value), []
        if isinstance(value, random.Random | np.random.Generator | np.random.RandomState):
            return _state_of(value), []
        if isinstance(value, Mapping):
            return "mapping", [part for pair in value.items() for part in pair]
        if isinstance(value, AbstractSet):
            return "set", sorted(value, key=repr)
        if isinstance(value, list | tuple | deque):
            return "items", list(value)
        if isinstance(value, FunctionType | MethodType | functools.partial | type):
            return self._of_code(value)
        return self._of_owner(value) or self._of_object(value)

    def _of_code(self, value: Any) -> tuple[Any, list[Any]]:
        if isinstance(value, FunctionType):
            return self._of_function(value)
        if isinstance(value, type):
            return Itself(value), self._of_class(value)
        if isinstance(value, MethodType):
            return "method", [value.__func__, value.__self__]
        return "partial", [value.func, value.args, value.keywords]

    def _of_owner(self, value: Any) -> tuple[Any, list[Any]] | None:
        """Return the mark of an owner of which only named parts are read; None if it is read whole."""
        if isinstance(value, TrialContext):
            return self._mark(value), [dict(value.params), getattr(value, "resource", None)]
        if isinstance(value, Trainer | ModuleType):
            if isinstance(value, Trainer) or not is_of_library(value.__name__):
                self._owners.append(value)
            return self._mark(value), []
        return None

    def _of_function(self, function: FunctionType) -> tuple[Any, list[Any]]:
        wrapped = getattr(function, "__wrapped__", None)
        if is_of_library(function.__module__):
            return Itself(function), [] if wrapped is None else [wrapped]
        names = set(_names_in(function.__code__))
        self._names |= names
        cells = [cell.cell_contents for cell in function.__closure__ or () if not _is_empty(cell)]
        known = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
        return function.__code__, [function.__defaults__, function.__kwdefaults__, wrapped, *cells, *known]

    def _of_class(self, kind: type) -> list[Any]:
        """Return the values that the classes of the user's own among the bases hold."""
        own = [one for one in kind.__mro__ if not is_of_library(one.__module__) and not issubclass(one, Trainer)]
        found = [
            value
            for one in own
            for name, value in sorted(vars(one).items())
            if name in ("__init__", "__call__") or not name.startswith("__")
        ]
        return [part for value in found for part in _unbound(value)]

    def _of_object(self, value: Any) -> tuple[Any, list[Any]]:
        kind = type(value)
        if hasattr(value, "python_function") and hasattr(value, "get_concrete_function"):
            self.functions.append(value)
            return "tf.function", [value.python_function]
        if kind.__module__.startswith(("tensorflow.", "numpy")) or isinstance(value, BuiltinFunctionType):
            return Itself(value), []
        identity = self._mark(value)  # a layer in place of another one has other variables
        if isinstance(value, keras.layers.Layer):
            return identity, [kind, *self._of_layer(value)]
        if isinstance(value, keras.optimizers.Optimizer):
            left_out = _OF_OBJECTS | _OF_OPTIMIZERS
            return identity, [kind, *(one for name, one in _attributes(value) if name not in left_out)]
        if isinstance(value, keras.DTypePolicy):
            return value.name, []
        if kind.__module__.startswith("keras."):
            return identity, [one for name, one in _attributes(value) if name not in self._left_out]
        if not hasattr(value, "__dict__") and not any("__slots__" in vars(one) for one in kind.__mro__[:-1]):
            return identity, []
        return identity, [kind, *(part for name, one in _attributes(value) for part in (name, self._named(value, one)))]

    def _named(self, owner: Any, value: Any) -> Any:
        """Return the part of an attribute that is read, of an object of the user's own."""
        return value

    def _of_layer(self, layer: Any) -> list[Any]:
        """Return the values that a layer's ``call`` may read: its parts, and attributes of its own."""
        known = _of_keras() | (self._left_out if type(layer).__module__.startswith("keras.") else frozenset())
        own = [part for pair in _attributes(layer) if pair[0] not in known for part in pair]
        parts = [*layer._flatten_layers(include_self=False, recursive=False), *getattr(layer, "operations", ())]
        variables = [*layer._trainable_variables, *layer._non_trainable_variables]
        settings = [bool(layer.trainable), layer.dtype_policy.name, layer.activity_regularizer, layer.autocast]
        replaced = [vars(layer)[name] for name in _REPLACED if name in vars(layer)]
        return [*settings, *own, *parts, *variables, *replaced]

    def _read_named(self) -> None:
        """Read all that functions name of trainers and modules, until they name nothing more."""
        while True:
            new = [
                (owner, name)
                for owner in self._owners
                for name in sorted(self._names)
                if (id(owner), name) not in self._read and not (isinstance(owner, Trainer) and name in _TRAINER)
            ]
            if not new:
                break
            self._read |= {(id(owner), name) for owner, name in new}
            for owner, name in new:
                value = inspect.getattr_static(owner, name, self)
                if value is not self:
                    self._tokens.append(name)
                    self._walk([self._without_rate(value)] if name == "hp" else _unbound(value))
        if "trial" in self._names:
            self._walk([one.trial for one in self._owners if isinstance(one, Trainer)])

    def _without_rate(self, hp: Any) -> Any:
        """Return hyper-parameters without a learning rate that nobody names, as it may change at each unit."""
        if not isinstance(hp, Mapping) or self._names & _WHOLE:
            return hp
        return {name: value for name, value in hp.items() if name not in _RATES or name in self._names}


class CommonValues(HeldValues):
    """The values that a traced step of several trainers holds; equal keys permit one trace for all of them."""

    _left_out = _OF_OBJECTS | {"seed", "_init_seed", "_initial_seed"}

    @property
    def key(self) -> tuple[Any, ...]:
        """All values, to be compared and hashed."""
        return tuple(self._tokens)

    def _roots(self, trainer: Any) -> list[Any]:
        # The numbers of an optimizer are each member's own, and metrics are computed elsewhere. What Keras makes of the
        # loss is built at the first call, which only some members have had.
        return [trainer.net, trainer.loss]

    def _mark(self, value: Any) -> Any:
        return len(self._seen)

    def _named(self, owner: Any, value: Any) -> Any:
        """Return the value; for the name that Keras gave a loss, ``scaled`` or ``scaled_1``, its class's name alone."""
        if isinstance(owner, keras.losses.Loss) and isinstance(value, str):
            name, _, number = value.rpartition("_")
            if number.isdecimal() and name.replace("_", "") == type(owner).__name__.lower().replace("_", ""):
                return name
        return value


@functools.cache
def is_of_library(module: str | None) -> bool:
    """Return whether code is that of a library: the user does not change what it holds."""
    top = (module or "").partition(".")[0]
    if top in _FRAMEWORKS or (top in sys.stdlib_module_names and top != "__main__"):
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return "site-packages" in file


def plain_mark(value: Any) -> Any:
    """Return the mark by which a plain value is compared; None if it has parts."""
    if isinstance(value, float):
        return type(value), value.hex() if type(value) is float else repr(value)  # NaN is not equal to itself
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, np.generic):
        return type(value), value.dtype.str, value.tobytes()
    return None


def array_mark(value: Any) -> Any:
    """Return the mark by which numbers of an array or a tensor are compared; None if it is neither."""
    if isinstance(value, tf.Tensor):
        if not hasattr(value, "numpy"):
            return "symbolic"  # what an earlier trace has left
        value = value.numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16)
        return value.shape, value.dtype.str, digest.digest()
    return None


def _state_of(generator: Any) -> str:
    if isinstance(generator, random.Random | np.random.RandomState):
        get = generator.getstate if isinstance(generator, random.Random) else generator.get_state
        return repr(get())
    return repr(generator.bit_generator.state)


@functools.cache
def _of_keras() -> frozenset[str]:
    """Return the attributes that Keras gives each layer and each compiled model, and those of a model's graph."""
    model = keras.Sequential()
    model.compile("sgd", "mse")
    graph = {"_inputs_struct", "_outputs_struct", "_inputs", "_outputs", "_nodes", "_nodes_by_depth", "_operations",
             "_operations_by_depth", "output_names", "_dropout_mask", "_recurrent_dropout_mask"}  # fmt: skip
    own = frozenset(vars(keras.layers.Layer())) | frozenset(vars(keras.Model())) | frozenset(vars(model))
    return own | _OF_OBJECTS | graph


def _attributes(value: Any) -> list[tuple[str, Any]]:
    slots = [name for one in type(value).__mro__ for name in _names_of_slots(one)]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return [*found.items(), *list(getattr(value, "__dict__", {}).items())]


def _names_of_slots(kind: type) -> Iterable[str]:
    found = vars(kind).get("__slots__", ())
    return [name for name in ((found,) if isinstance(found, str) else found) if not name.startswith("__")]


def _unbound(value: Any) -> list[Any]:
    """Return the functions of a class's attribute, or the value itself."""
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    return [getattr(value, "func", value)] if isinstance(value, functools.cached_property) else [value]


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # it names what is not there yet
        return True
    return False


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in code, and texts that may be names for ``getattr``."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant
