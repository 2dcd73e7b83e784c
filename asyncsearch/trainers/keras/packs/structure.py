"""What members of one stack have in common: all but the values of variables and the numbers of their optimizers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import FunctionType, MethodType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainers.keras.packs.errors import NotStackedError
from asyncsearch.trainers.keras.packs.update_rules import RULES, number_names
from asyncsearch.trainers.keras.packs.user_lines import place_of
from asyncsearch.trainers.keras.packs.value_keys import key_of, without_names
from asyncsearch.trainers.keras.traced_values import CommonValues

_OPTIMIZER_OPTIONS = ("clipnorm", "global_clipnorm", "clipvalue", "use_ema", "loss_scale_factor",
                      "gradient_accumulation_steps")  # fmt: skip
_READ_OF_ANY = (np.ndarray, tf.Tensor, FunctionType, MethodType, functools.partial)
"""Attributes of Keras's own layers that their settings may not tell whole, such as an activation with a closure."""

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
"""What it means that a part of two structures is not the same."""


def structure_of(trainer: Any) -> Structure:
    """Return what a trained step depends on besides numbers and values; equal ones make one stack.

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
    """Return in what two structures differ, in words."""
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
    """Return what ``call`` may read from a layer besides its settings and parts.

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
