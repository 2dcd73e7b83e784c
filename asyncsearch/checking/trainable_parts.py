"""The smallest parts of a trainable: arrays, generators, modules, optimizers, with their digests and copy functions.

Only frameworks that are already imported are recognised; see ``trainers.state.global_generators``.
"""

from __future__ import annotations

import copy
import hashlib
import random
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from asyncsearch.trainers.state import is_of
from asyncsearch.trainers.state.numpy_state import bits_of

_HASHED_BYTES = 1 << 26
"""Of a larger array only this much is read, at its beginning and at its end."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Part(NamedTuple):
    """One part: its content, and how to replace it by another part's content."""

    kind: str
    digests: dict[str, str]
    """Digests of its content, by name."""
    owner: Any
    give: Callable[[Any, Any], None] | None
    """Copies from one owner into another; None if the part itself is replaced in its container."""


def framework_parts(value: Any) -> list[Part] | None:
    """Return the parts of an object of a known kind; None if its kind is unknown."""
    if isinstance(value, random.Random):
        return [_generator(repr(value.getstate()), value, lambda one, other: other.setstate(one.getstate()))]
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        source = bits_of(value)
        return [_generator(repr(source.state), value, _give_bits)]
    if is_of("torch", "Generator", value):
        state = value.get_state().numpy().tobytes()
        return [_generator(state.hex(), value, lambda one, other: other.set_state(one.get_state()))]
    if is_of("torch", "nn.Module", value):
        return _module_parts(value)
    if is_of("torch", "optim.Optimizer", value):
        return [Part("optimizer", _digests_of(value.state_dict()), value, _give_state_dict)]
    if is_of("torch", "amp.GradScaler", value):
        return [Part("scaler", _digests_of(value.state_dict()), value, _give_state_dict)]
    if is_of("keras", "Layer", value):
        return _layer_parts(value)
    if is_of("keras", "optimizers.Optimizer", value):
        return _keras_optimizer_parts(value)
    if is_of("keras", "metrics.Metric", value) or is_of("keras", "Loss", value):
        return []
    return None


def _generator(state: str, value: Any, give: Callable[[Any, Any], None]) -> Part:
    return Part("generator", {"": digest_text(state)}, value, give)


def _give_bits(one: Any, other: Any) -> None:
    bits_of(other).state = bits_of(one).state


def _give_state_dict(one: Any, other: Any) -> None:
    other.load_state_dict(copy.deepcopy(one.state_dict()))


def _module_parts(module: Any) -> list[Part]:
    weights = {f".{name}": digest(as_array(value)) for name, value in module.named_parameters()}
    buffers = {f".{name}": digest(as_array(value)) for name, value in module.named_buffers()}
    modes = {f".{name}": str(part.training) for name, part in module.named_modules()}
    return [
        Part("weights", weights, module, _giving_tensors("named_parameters")),
        Part("buffers", buffers, module, _giving_tensors("named_buffers")),
        Part("mode", modes, module, _give_modes),
    ]


def _giving_tensors(method: str) -> Callable[[Any, Any], None]:
    def give(one: Any, other: Any) -> None:
        theirs = dict(getattr(other, method)())
        for name, value in getattr(one, method)():
            if name in theirs and theirs[name].shape == value.shape:
                theirs[name].data.copy_(value.data)

    return give


def _give_modes(one: Any, other: Any) -> None:
    for mine, theirs in zip(one.modules(), other.modules(), strict=False):
        theirs.training = mine.training


def _layer_parts(layer: Any) -> list[Part]:
    kinds: dict[str, list[int]] = {"weights": [], "buffers": [], "generator": []}
    trainable = {id(variable) for variable in layer.trainable_variables}
    for number, variable in enumerate(layer.variables):
        is_seed = "seed_generator" in variable.path
        kinds["generator" if is_seed else "weights" if id(variable) in trainable else "buffers"].append(number)
    return [_variables_part(kind, layer, numbers) for kind, numbers in kinds.items() if numbers]


def _keras_optimizer_parts(optimizer: Any) -> list[Part]:
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is None:
        return [_variables_part("optimizer", optimizer, list(range(len(optimizer.variables))))]
    within = {id(variable) for variable in inner.variables}
    numbers = [number for number, variable in enumerate(optimizer.variables) if id(variable) not in within]
    return [
        _variables_part("scaler", optimizer, numbers),
        _variables_part("optimizer", inner, list(range(len(inner.variables)))),
    ]


def _variables_part(kind: str, owner: Any, numbers: list[int]) -> Part:
    def give(one: Any, other: Any) -> None:
        for number in numbers:
            other.variables[number].assign(one.variables[number].value)

    # Without the numbers that Keras puts into names: they increase from object to object.
    words = [re.sub(r"_\d+(?=[/_]|$)", "", variable.path) for variable in owner.variables]
    names = {number: f".variables[{number}] ({words[number]})" for number in numbers}
    return Part(kind, {names[number]: digest(owner.variables[number].value.numpy()) for number in numbers}, owner, give)


def _digests_of(value: Any, name: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        pairs = [(f"[{key!r}]", part) for key, part in value.items()]
    elif isinstance(value, list | tuple) and not is_plain(value):
        pairs = [(f"[{key}]", part) for key, part in enumerate(value)]
    else:
        array = as_array(value)
        return {name: digest_text(value) if array is None else digest(array)}
    return {key: digest for step, part in pairs for key, digest in _digests_of(part, name + step).items()}


def as_array(value: Any) -> Any:
    """Return an array or tensor as a numpy array, None for any other value."""
    if isinstance(value, np.ndarray | np.generic):
        return None if value.dtype.hasobject else value
    if is_of("torch", "Tensor", value):
        torch: Any = sys.modules["torch"]
        found = value.detach().cpu()
        return found.contiguous().reshape(-1).view(torch.uint8).numpy() if found.numel() else np.zeros(0)
    if is_of("tensorflow", "Variable", value) or is_of("tensorflow", "Tensor", value):
        return value.numpy() if hasattr(value, "numpy") else None
    if is_of("keras", "Variable", value):
        return value.value.numpy()
    return None


def give_array(one: Any, other: Any) -> None:
    """Copy the content of an array or tensor into another, in place: other objects may hold the same one."""
    if isinstance(other, np.ndarray):
        other[...] = one
    elif hasattr(other, "copy_"):
        other.data.copy_(one.data)
    elif hasattr(other, "assign"):
        other.assign(one)


def kind_of_array(named: str, value: Any, array: Any) -> str:
    """Return the kind of an array, by its name or else by its content."""
    if named:
        return named
    if isinstance(value, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu" and array.size > 1:
        is_permutation = int(array.min()) == 0 and np.array_equal(np.sort(array), np.arange(array.size))
        return "order" if is_permutation else "value"
    return "weights"


def is_plain(value: Any) -> bool:
    """Return whether a value is a number, text or None, or a collection of these."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return all(map(is_plain, value))
    if kind is dict:
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    return isinstance(value, _PLAIN)


def digest(array: Any) -> str:
    """Return a digest of an array's bits, type and shape."""
    array = np.asarray(array)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    half = _HASHED_BYTES // 2
    parts = [data] if data.size <= _HASHED_BYTES else [data[:half], data[-half:]]
    found = hashlib.blake2b(f"{array.dtype} {array.shape}".encode(), digest_size=12)
    for part in parts:
        found.update(part.tobytes())
    return found.hexdigest()


def digest_text(value: Any) -> str:
    """Return a short digest of a plain value."""
    # The order of a set differs from process to process.
    text = repr(sorted(value, key=repr)) if isinstance(value, set | frozenset) else repr(value)
    return text if len(text) <= 40 else hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
