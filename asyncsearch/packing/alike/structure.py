"""Whether two members have one structure, so that one computation trains both; else the first difference in words."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from asyncsearch.packing.member import Member, precision_differences
from asyncsearch.packing.stack.activations import DROPOUTS
from asyncsearch.packing.stack.optimizer_rows import trained_parameters
from asyncsearch.packing.stack.update_rules import RULES

_OWN = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}
"""Attributes of a module that hold its parts, which are compared by themselves; hooks are refused elsewhere."""

_PROTOCOL = 4
"""The protocol of pickle that says what an object without a comparison of its own consists of."""


def difference_between(one: Member, other: Member) -> str | None:
    """Return how two members differ where they may not: in all but weights, buffers and numbers of the optimizer."""
    layers = {id(module): name for member in (one, other) for name, module in member.model.named_modules()}
    return next(_Comparison(layers).differences(one, other), None)


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two values mean the same, also where mappings and lists are no attributes of modules."""
    return _Comparison({}).is_equal(one, other)


class _Comparison:
    """One comparison of two models.

    Args:
        layers: those of both models, by their ids, with their names.
    """

    def __init__(self, layers: dict[int, str]) -> None:
        self._layers = layers
        self._compared: set[tuple[int, int]] = set()
        """Modules that are being compared, by their ids."""

    def differences(self, one: Member, other: Member) -> Iterator[str]:
        """Yield how two members differ, in words."""
        mine, theirs = dict(one.model.named_modules()), dict(other.model.named_modules())
        if list(mine) != list(theirs):
            yield f"the models have different layers: {_first_missing(mine, theirs)!r} is in only one of them"
        for name, module in mine.items():
            yield from self._module_differences(name or type(module).__name__, module, theirs[name])
        for kind in ("named_parameters", "named_buffers"):
            yield from _tensor_differences(dict(getattr(one.model, kind)()), dict(getattr(other.model, kind)()))
        yield from _optimizer_differences(one, other)
        yield from precision_differences(one, other)
        for name in ("loss", "sample_losses"):
            if not self._is_same(_unbound(getattr(one, name)), _unbound(getattr(other, name))):
                yield f"they have different functions {name}"
        for words in {**one.must_match, **other.must_match}:
            values = [member.must_match.get(words) for member in (one, other)]
            if words not in one.must_match or words not in other.must_match or not self.is_equal(*values):
                yield f"{words} {_in_one_and_other(*values)}"

    def is_equal(self, one: Any, other: Any) -> bool:
        """Return whether two values mean the same, also where mappings and lists are no attributes of modules."""
        if one is other:
            return True
        if isinstance(one, torch.nn.Module) and isinstance(other, torch.nn.Module):
            return self._is_equal_module(one, other)
        if type(one) is type(other) and isinstance(one, Mapping):
            return list(one) == list(other) and all(self.is_equal(one[key], other[key]) for key in one)
        if type(one) is type(other) and isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(self.is_equal, one, other))
        return self._is_same(one, other)

    def _module_differences(self, name: str, one: Any, other: Any) -> Iterator[str]:
        kinds = _class_of(one), _class_of(other)
        if kinds[0] is not kinds[1]:
            mine, theirs = (kind.__name__ for kind in kinds)
            yield f"layer {name!r} is a {mine} in one and a {theirs} in the other{_hint(*kinds)}"
        if one._non_persistent_buffers_set != other._non_persistent_buffers_set:
            yield f"layer {name!r} saves different buffers"
        free = _OWN | ({"p"} if type(one) in DROPOUTS else set())
        own, its = (
            {key: value for key, value in vars(module).items() if key not in free and "hook" not in key}
            for module in (one, other)
        )
        if own.keys() != its.keys():
            yield f"layer {name!r} has {_first_missing(own, its)!r} in only one of them"
        for key, value in own.items():
            if not self._is_same(value, its[key]):
                yield f"layer {name!r} has {key}={_short(value)} in one and {_short(its[key])} in the other"

    def _is_same(self, one: Any, other: Any) -> bool:
        """Return whether two attributes of modules mean the same; objects that nothing can compare do not."""
        if one is other:
            return True
        if type(one) is not type(other):
            return False
        if isinstance(one, torch.Tensor):
            return one.shape == other.shape and one.dtype == other.dtype and bool(torch.equal(one, other))
        if isinstance(one, Mapping):
            return list(one) == list(other) and all(self._is_same(one[key], other[key]) for key in one)
        if isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(self._is_same, one, other))
        if isinstance(one, types.FunctionType):  # a lambda is made anew with each model
            parts = ((f.__code__, f.__defaults__, f.__kwdefaults__, _captured(f)) for f in (one, other))
            return self._is_same(*parts)
        if isinstance(one, functools.partial):
            return self._is_same((one.func, one.args, one.keywords), (other.func, other.args, other.keywords))
        if isinstance(one, torch.nn.Module):  # a layer, which is compared under its own name, or what a list hides
            name = self._layers.get(id(one))
            return (name is not None and name == self._layers.get(id(other))) or self._is_equal_module(one, other)
        compares: Any = type(one).__eq__
        try:
            if isinstance(one, np.ndarray):
                return one.dtype == other.dtype and bool(np.array_equal(one, other))
            if compares is object.__eq__:
                return self._is_same(one.__reduce_ex__(_PROTOCOL), other.__reduce_ex__(_PROTOCOL))
            return bool(one == other)
        except Exception:
            return False

    def _is_equal_module(self, one: Any, other: Any) -> bool:
        pair = id(one), id(other)
        if pair in self._compared:  # a layer that knows the one above it
            return True
        self._compared.add(pair)
        try:
            mine, theirs = dict(one.named_modules()), dict(other.named_modules())
            if list(mine) != list(theirs):
                return False
            if any(True for name in mine for _ in self._module_differences(name, mine[name], theirs[name])):
                return False
            tensors = [[*module.parameters(), *module.buffers()] for module in (one, other)]
            return len(tensors[0]) == len(tensors[1]) and all(map(self._is_same, *tensors))
        finally:
            self._compared.discard(pair)


def _in_one_and_other(one: Any, other: Any) -> str:
    mine, theirs = _short(one), _short(other)
    if mine == theirs:
        return f"is not the same in both: each is shown as {mine}, and they differ inside"
    return f"is {mine} in one and {theirs} in the other"


def _class_of(module: Any) -> type[Any]:
    """Return the class of a module; torch makes one for each module with parametrizations."""
    kind = type(module)
    return kind.__bases__[0] if torch.nn.utils.parametrize.is_parametrized(module) else kind


def _hint(one: type[Any], other: type[Any]) -> str:
    is_made_anew = (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
    return ", made anew for each model: define the class once, outside the function" if is_made_anew else ""


def _tensor_differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    if list(mine) != list(theirs):
        yield f"{_first_missing(mine, theirs)!r} is in only one of the models"
    for name, tensor in mine.items():
        for key in ("shape", "dtype", "device", "requires_grad"):
            values = getattr(tensor, key), getattr(theirs[name], key)
            if values[0] != values[1]:
                yield f"{key} of {name!r} is {_short(values[0])} in one and {_short(values[1])} in the other"


def _optimizer_differences(one: Member, other: Member) -> Iterator[str]:
    mine, theirs = one.optimizer, other.optimizer
    if type(mine) is not type(theirs):
        yield f"one is trained by {type(mine).__name__} and the other by {type(theirs).__name__}"
    if trained_parameters(one.model, mine) != trained_parameters(other.model, theirs):
        yield "their optimizers have different parameters or groups"
    for group, its in zip(mine.param_groups, theirs.param_groups, strict=True):
        for name in RULES[type(mine)].common:
            if group[name] != its[name]:
                yield f"{name} of the optimizer is {group[name]} in one and {its[name]} in the other"


def _captured(function: types.FunctionType) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _unbound(function: Any) -> Any:
    return getattr(function, "__func__", function)


def _first_missing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    return next(
        iter([*(name for name in mine if name not in theirs), *(n for n in theirs if n not in mine)]), "the order"
    )


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
