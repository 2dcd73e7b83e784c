"""Keras 3's layers, models, optimizers, metrics, variables and generators, on any backend."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state import StateKind, is_of


def find_keras(value: Any) -> StateKind | None:
    """Return the kind of an object of Keras."""
    if is_of("keras", "Layer", value):
        return _LAYER
    if is_of("keras", "optimizers.Optimizer", value):
        return _OPTIMIZER
    if is_of("keras", "metrics.Metric", value):
        return _METRIC
    if is_of("keras", "random.SeedGenerator", value):
        return _SEEDS
    return _VARIABLE if is_of("keras", "Variable", value) else None


def _get_variables(variables: Any) -> list[Any]:
    return [_get_variable(variable) for variable in variables]


def _get_variable(variable: Any) -> Any:
    value = np.ascontiguousarray(_array(variable))
    # As bytes: numpy's files do not have all of Keras's types, such as bfloat16.
    return {"shape": list(variable.shape), "type": str(value.dtype), "bytes": np.frombuffer(value.tobytes(), np.uint8)}


def _put_variables(variables: Any, saved: list[Any]) -> None:
    if len(variables) != len(saved):
        raise UsageError(f"it has {len(variables)} variables, and {len(saved)} were saved")
    for variable, state in zip(variables, saved, strict=True):
        _put_variable(variable, state)


def _put_variable(variable: Any, state: Any) -> None:
    now = _array(variable)
    shape = tuple(state["shape"])
    if (tuple(variable.shape), str(now.dtype)) != (shape, state["type"]):
        raise UsageError(
            f"variable {variable.path} is {now.dtype} of shape {tuple(variable.shape)}, and {state['type']} of shape "
            f"{shape} was saved"
        )
    variable.assign(np.frombuffer(state["bytes"].tobytes(), dtype=now.dtype).reshape(shape))


def _array(variable: Any) -> Any:
    # Of TensorFlow's tensors convert_to_numpy asks what numpy 2 warns of.
    is_tensorflow = keras.backend.backend() == "tensorflow"
    return variable.value.numpy() if is_tensorflow else keras.ops.convert_to_numpy(variable.value)


def _get_layer(layer: Any) -> Any:
    optimizer = getattr(layer, "optimizer", None)
    return {
        "variables": _get_variables(layer.variables),
        "shapes": layer.get_build_config() if layer.built else None,
        "optimizer": None if optimizer is None else _get_optimizer(optimizer),
    }


def _put_layer(layer: Any, state: Any) -> None:
    if not layer.built and state["shapes"]:
        layer.build_from_config(state["shapes"])
    if not layer.built and state["variables"]:
        raise UsageError("it is not built: begin the model with keras.Input(...), or call model.build(shape) first")
    _put_variables(layer.variables, state["variables"])
    optimizer = getattr(layer, "optimizer", None)
    if (optimizer is None) != (state["optimizer"] is None):
        raise UsageError("it was compiled when it was saved, or is now, and not both: call compile() before epochs()")
    if optimizer is not None:
        if state["optimizer"]["built"] and not optimizer.built:
            optimizer.build(layer.trainable_variables)
        _put_optimizer(optimizer, state["optimizer"])


def _get_optimizer(optimizer: Any) -> Any:
    variables = _get_variables(optimizer.variables)
    return {"class": type(optimizer).__qualname__, "built": bool(optimizer.built), "variables": variables}


def _put_optimizer(optimizer: Any, state: Any) -> None:
    if state["class"] != type(optimizer).__qualname__:
        raise UsageError(f"its optimizer is {type(optimizer).__qualname__}, and {state['class']} was saved")
    if state["built"] and not optimizer.built:
        raise UsageError("it has no variables yet: call opt.build(net.trainable_variables) before trial.epochs(...)")
    _put_variables(optimizer.variables, state["variables"])


_LAYER = StateKind("keras layer", _get_layer, _put_layer)
_OPTIMIZER = StateKind("keras optimizer", _get_optimizer, _put_optimizer)
_METRIC = StateKind(
    "keras metric", lambda value: _get_variables(value.variables), lambda v, s: _put_variables(v.variables, s)
)
_SEEDS = StateKind("keras generator", lambda value: _get_variable(value.state), lambda v, s: _put_variable(v.state, s))
_VARIABLE = StateKind("keras variable", _get_variable, _put_variable)
