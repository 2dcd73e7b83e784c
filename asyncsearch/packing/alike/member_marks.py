"""Whether code of the user has changed what a pack knows of a model: its layers, their attributes, what is trained.

Values of parameters and buffers are no part of it: a pack reads them anew before each unit. What compares by identity
is looked at first, so that looking at a model in which nothing has changed costs some microseconds a layer.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator
from typing import Any

import torch

from asyncsearch.packing.alike.structure import is_equal
from asyncsearch.packing.member import Member
from asyncsearch.packing.stack.activations import DROPOUTS
from asyncsearch.packing.stack.update_rules import OPTION_KEYS

_PARTS = ("_parameters", "_buffers", "_modules")
_PLAIN = frozenset(
    (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size, type(Ellipsis))
)
_CODE = (type, types.BuiltinFunctionType, types.ModuleType)
_HOOKS_OF_OPTIMIZERS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_MISSING: Any = object()


class ModelMarks:
    """The state of a model when it was looked at."""

    def __init__(self, model: Any, *, has_rates: bool = False) -> None:
        """Look at a model.

        Args:
            model: a ``torch.nn.Module``.
            has_rates: whether the ``p`` of dropout layers counts.
        """
        layers = dict(model.named_modules())
        own = {id(one): one for one in (*layers.values(), *model.parameters(), *model.buffers())}
        self._layers = [_LayerMarks(name, module, has_rates, own) for name, module in layers.items()]

    def change(self) -> str:
        """Return the first change, such as ``features.0.scale``; empty if there is none."""
        for layer in self._layers:
            for name in layer.changes():
                return name
        return ""


class OptimizerMarks:
    """The settings of an optimizer that decide how a pack computes its updates, when it was looked at."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._seen = _settings_of(optimizer)

    def has_changed(self) -> bool:
        """Return whether something has changed but values of its state and numbers that may differ."""
        now = _settings_of(self._optimizer)
        return len(now) != len(self._seen) or any(
            one is not other and (isinstance(one, torch.Tensor) or not is_equal(one, other))
            for one, other in zip(now, self._seen, strict=True)
        )


class MemberMarks:
    """The parts of a member that decide whether it is like others, when it was looked at."""

    def __init__(self, member: Member) -> None:
        self._model, self._optimizer = ModelMarks(member.model), OptimizerMarks(member.optimizer)

    def is_current(self) -> bool:
        """Return whether it is as it was."""
        return not self._model.change() and not self._optimizer.has_changed()


def _settings_of(optimizer: Any) -> list[Any]:
    options = OPTION_KEYS.get(type(optimizer), frozenset())
    found: list[Any] = ["step" in vars(optimizer)]
    found += [len(getattr(optimizer, name, ())) for name in _HOOKS_OF_OPTIMIZERS]
    for group in optimizer.param_groups:
        found += group["params"]
        for name, value in group.items():
            if name not in options:
                found += (name,) if name == "params" else (name, value)
            elif isinstance(value, torch.Tensor):
                found.append(value)
    return found


class _LayerMarks:
    def __init__(self, name: str, module: Any, has_rates: bool, parts: dict[int, Any]) -> None:
        """Look at a layer; ``parts``: what is in the model anyway, by ids, of which no copy is kept."""
        self._name, self._module, self._kind = name, module, type(module)
        own = vars(module)
        skipped = {*_PARTS, *(() if has_rates or self._kind not in DROPOUTS else ("p",))}
        self._count = len(own)
        self._values = [(name, value) for name, value in own.items() if name not in skipped and not _is_hooks(name)]
        self._hooks = [(name, value, len(value)) for name, value in own.items() if _is_hooks(name) and _is_sized(value)]
        self._copies = [
            (name, value, kept) for name, value in self._values if (kept := _copy_of(value, parts)) is not _MISSING
        ]
        self._children = list(own["_modules"].items())
        self._parameters = [
            (key, one, None if one is None else one.requires_grad) for key, one in own["_parameters"].items()
        ]
        self._shapes = [None if one is None else one.shape for one in own["_parameters"].values()]
        self._buffers = [(key, _kind_of(one)) for key, one in own["_buffers"].items()]

    def changes(self) -> Iterator[str]:
        """Yield the changes."""
        own = vars(self._module)
        if type(self._module) is not self._kind or len(own) != self._count:
            yield f"{self._name or 'the model'}"
        for name, value in self._values:
            now = own.get(name, _MISSING)
            if now is not value and not (type(now) is type(value) and type(now) in _PLAIN and now == value):
                yield self._at(name)
        for name, value, count in self._hooks:
            if own.get(name) is not value or len(value) != count:
                yield self._at(name)
        for name, value, kept in self._copies:
            if not is_equal(_contents(value), kept):
                yield self._at(name)
        if len(own["_modules"]) != len(self._children) or any(
            own["_modules"].get(key) is not one for key, one in self._children
        ):
            yield self._at("its layers")
        yield from self._tensor_changes(own["_parameters"], own["_buffers"])

    def _tensor_changes(self, parameters: Any, buffers: Any) -> Iterator[str]:
        if len(parameters) != len(self._parameters):
            yield self._at("its parameters")
        for (key, one, is_trained), shape in zip(self._parameters, self._shapes, strict=True):
            if parameters.get(key) is not one or (
                one is not None and (one.requires_grad != is_trained or one.shape != shape)
            ):
                yield self._at(key)
        if len(buffers) != len(self._buffers):
            yield self._at("its buffers")
        for key, kind in self._buffers:
            if _kind_of(buffers.get(key)) != kind:
                yield self._at(key)

    def _at(self, name: str) -> str:
        return f"{self._name}.{name}" if self._name else name


def _is_hooks(name: str) -> bool:
    return name.startswith("_") and "hook" in name


def _is_sized(value: Any) -> bool:
    return hasattr(value, "__len__")


def _kind_of(tensor: Any) -> Any:
    return None if tensor is None else (tensor.shape, tensor.dtype, tensor.device)


def _copy_of(value: Any, parts: dict[int, Any]) -> Any:
    """Return a copy of the parts of a value that may change; missing if there are none, or it cannot be copied."""
    if _is_constant(value):
        return _MISSING
    try:
        return copy.deepcopy(_contents(value), dict(parts))
    except Exception:  # then the model is not copied either, and so in no stack
        return _MISSING


def _is_constant(value: Any) -> bool:
    if type(value) in _PLAIN or isinstance(value, _CODE):
        return True
    if isinstance(value, types.FunctionType):
        return value.__module__.startswith("asyncsearch.packing.") or all(map(_is_constant, _contents(value)))
    if isinstance(value, types.MethodType):
        return isinstance(value.__self__, torch.nn.Module)  # which is looked at where it is
    return type(value) in (tuple, frozenset) and all(map(_is_constant, value))


def _contents(value: Any) -> Any:
    """Return the parts of a value that may change: the captured values of a function, the object of a method."""
    if isinstance(value, types.FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or ()]
    return value.__self__ if isinstance(value, types.MethodType) else value
