"""The parts of stacked members that must match: all but the values of variables and the numbers of optimizers.

The step of a stack is traced once, with the values of its first member. Two values whose keys are equal by mistake
would give a member the results of another one, so what is not known is equal to itself alone.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainers.keras.packs.traced_steps import NotStackedError
from asyncsearch.trainers.keras.packs.update_rules import RULES, number_names
from asyncsearch.trainers.keras.traced_values import CommonValues, Itself
from asyncsearch.trainers.packs.pack_training import place_of

_OPTIMIZER_OPTIONS = ("clipnorm", "global_clipnorm", "clipvalue", "use_ema", "loss_scale_factor",
                      "gradient_accumulation_steps")  # fmt: skip
_READ_OF_ANY = (np.ndarray, tf.Tensor, FunctionType, MethodType, functools.partial)
"""Attributes of Keras's own layers that their settings may not tell whole, such as an activation with a closure."""
_PLAIN = (int, float, str, bytes, type(None), type, CodeType, np.generic, np.dtype, tf.DType)
_DEPTH = 3
"""Levels of objects and functions inside each other that are compared; a cycle of them would have no end."""
_NAMES = frozenset({"name", "seed"})
"""Settings of a layer that do not tell how it computes."""

CALLED_ALONE = ("train_on_batch", "test_on_batch", "make_train_function", "make_test_function", "reset_metrics")
"""Methods of a model that are called where it trains alone, and not in a pack."""

Structure = tuple[Any, ...]
_PARTS = (
    "their classes differ",
    "their layers, or settings of these, differ",
    "the shapes of their weights differ",
    "their optimizers, options of these, or whether there is a clip_grad_norm, differ",
    "their losses, or what these read, differ",
    "values that their layers or losses read differ",
)
"""The words for a part of two structures that is not the same."""


def structure_of(trainer: Any) -> Structure:
    """Return the structure of a traced step: all but numbers and values; equal ones make one stack.

    Raises:
        NotStackedError: no member like this one can be in a stack.
    """
    net, optimizer = trainer.net, trainer.opt
    _require_known_step(trainer)
    _require_known_optimizer(net, optimizer)
    rule = RULES[type(optimizer)](optimizer)
    variables = (net.trainable_variables, net.non_trainable_variables)
    shapes = tuple(tuple((tuple(one.shape), one.dtype) for one in group) for group in variables)
    decayed = tuple(map(optimizer._use_weight_decay, net.trainable_variables))
    update = type(optimizer), rule.flags(), rule.slots(), number_names(optimizer), decayed, trainer._limit is not None
    return type(trainer), _layer(net), shapes, update, key_of(trainer.loss), CommonValues(trainer).key


def difference_between(one: Structure, other: Structure) -> str:
    """Return the difference of two structures, in words."""
    return next(words for words, mine, its in zip(_PARTS, one, other, strict=True) if mine != its)


def _require_known_step(trainer: Any) -> None:
    net = trainer.net
    for name in ("train_step", "test_step", "compute_loss", "compute_metrics", "get_metrics_result", *CALLED_ALONE):
        method = vars(net).get(name) or getattr(type(net), name)
        if not method.__module__.startswith("keras."):
            where = place_of(method)
            raise NotStackedError(
                f"{type(net).__name__}.{name} ({where}) is its own: put it into layers, or into the loss"
            )
    if net.jit_compile:
        raise NotStackedError(
            f"jit_compile of {type(trainer).__name__} compiles each size of a pack anew: leave it out"
        )
    if not all(layer.built for layer in net._flatten_layers()):
        raise NotStackedError(f"a layer of {type(net).__name__} is not built: call each of its layers in call()")


def _require_known_optimizer(net: Any, optimizer: Any) -> None:
    kind = type(optimizer)
    if kind not in RULES:
        known = ", ".join(one.__name__ for one in RULES)
        raise NotStackedError(f"the optimizer is {kind.__name__}: use Keras's {known}")
    for name in _OPTIMIZER_OPTIONS:
        if getattr(optimizer, name, None):
            raise NotStackedError(f"{kind.__name__} has {name}={getattr(optimizer, name)!r}: leave it out")
    if not isinstance(optimizer._learning_rate, keras.Variable):
        raise NotStackedError(f"the learning rate of {kind.__name__} is a schedule: let it be a number")
    if [*map(id, optimizer._trainable_variables)] != [*map(id, net.trainable_variables)]:
        raise NotStackedError("which layers are trainable has changed: decide it in model()")
    for variable in net.trainable_variables:
        if variable.constraint is not None:
            raise NotStackedError(f"{variable.path} has a constraint: leave it out")
    if not net.trainable_variables:
        raise NotStackedError("the model has no trainable weights")


def _layer(layer: Any) -> Structure:
    """Return how a layer and those inside it compute."""
    kind = type(layer)
    if kind is keras.Sequential:
        return kind, layer.trainable, tuple(map(_layer, layer.layers))
    children = layer._flatten_layers(include_self=False, recursive=False)
    try:
        config = layer.get_config()
    except Exception as error:
        words = str(error).strip().partition("\n")[0]
        raise NotStackedError(f"get_config() of layer {layer.name!r}, a {kind.__name__}, fails: {words}") from error
    parts = [*layer._flatten_layers(), *getattr(layer, "operations", ())]  # a functional model has both
    names = {one.name: f"layer {number}" for number, one in enumerate(parts)}
    return kind, key_of(without_names(config, names)), _attributes(layer), tuple(map(_layer, children))


def _attributes(layer: Any) -> Structure:
    """Return the values that ``call`` may read from a layer besides its settings and parts.

    These are tensors and functions, and any value of a class that is not Keras's.
    """
    is_own = not type(layer).__module__.startswith("keras.")
    found: list[tuple[Any, ...]] = []
    for name, value in sorted(vars(layer).items()):
        if name in _of_keras() or _is_part(value):
            continue
        if is_own or isinstance(value, _READ_OF_ANY):
            found.append((name, key_of(value)))
    return tuple(found)


@functools.cache
def _of_keras() -> frozenset[str]:
    """Return the attributes that Keras gives each layer and each compiled model."""
    model = keras.Sequential()
    model.compile("sgd", "mse")
    return frozenset(vars(keras.layers.Layer())) | frozenset(vars(keras.Model())) | frozenset(vars(model))


def _is_part(value: Any) -> bool:
    """Return whether an attribute has layers and variables, which are compared elsewhere, and nothing else."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_part, value))
    return isinstance(value, keras.layers.Layer | keras.Variable | keras.random.SeedGenerator)


def key_of(value: Any, depth: int = _DEPTH) -> Any:
    """Return something hashable that is equal for values that compute the same."""
    if isinstance(value, _PLAIN):
        return type(value), value
    inner = functools.partial(key_of, depth=depth)
    if isinstance(value, np.ndarray | tf.Tensor):
        array = np.asarray(value)
        return array.shape, str(array.dtype), array.tobytes()
    if isinstance(value, Mapping):
        return "mapping", frozenset((inner(name), inner(one)) for name, one in value.items())
    if isinstance(value, Sequence | set | frozenset):
        return "items", (tuple if isinstance(value, Sequence) else frozenset)(map(inner, value))
    if depth == 0:
        return Itself(value)
    if isinstance(value, FunctionType):
        return _of_function(value, depth)
    if isinstance(value, MethodType):
        is_own = isinstance(value.__self__, keras.layers.Layer)  # whose other values are compared beside this one
        owner = None if is_own or not _reads_owner(value.__func__) else Itself(value.__self__)
        return inner(value.__func__), owner
    if isinstance(value, functools.partial):
        return inner(value.func), inner(value.args), inner(value.keywords)
    return _of_object(value, depth)


def _of_function(function: FunctionType, depth: int) -> Any:
    """Return the key of a function: equal code may have other values around it."""
    if function.__module__.partition(".")[0] in ("keras", "tensorflow"):
        return Itself(function)
    try:
        around = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # it names what is not there yet
        return Itself(function)
    values = (function.__defaults__, function.__kwdefaults__, around)
    return function.__code__, Itself(function.__globals__), *(key_of(one, depth - 1) for one in values)


def _reads_owner(function: Any) -> bool:
    """Return whether a method mentions the object that it belongs to."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_varnames:
        return True
    owner = code.co_varnames[0]
    found = (one.argval for one in dis.get_instructions(code))
    return any(owner in (one if isinstance(one, tuple) else (one,)) for one in found)


def _of_object(value: Any, depth: int) -> Any:
    """Return the key of an object: its class, its configuration, and its attributes where the class is not Keras's."""
    kind = type(value)
    if isinstance(value, keras.layers.Layer | keras.Variable) or any("__slots__" in vars(one) for one in kind.__mro__):
        return Itself(value)
    if isinstance(value, keras.DTypePolicy):
        return kind, value.name
    if kind.__module__.startswith("keras."):
        config = getattr(value, "get_config", None)
        return Itself(value) if config is None else (kind, key_of(without_names(config()), depth - 1))
    if not hasattr(value, "__dict__"):
        return Itself(value)
    is_counted = any(one.__module__.startswith("keras.") for one in kind.__mro__)
    found = {name: one for name, one in vars(value).items() if not (is_counted and name == "name")}
    return kind, key_of(found, depth - 1)


def without_names(value: Any, names: Mapping[str, str] | None = None) -> Any:
    """Return a configuration without the names that Keras gives layers, which count on in a process."""
    if isinstance(value, Mapping):
        if str(value.get("class_name")).endswith("DTypePolicy"):  # whose name is all that it has
            return value
        return {key: without_names(one, names) for key, one in value.items() if key not in _NAMES}
    if isinstance(value, list | tuple):
        return [without_names(one, names) for one in value]
    return names.get(value, value) if names and isinstance(value, str) else value
