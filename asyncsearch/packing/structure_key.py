"""A key of the structure of a member, so that copies of one structure are tried once in a process.

Members of one structure have equal keys. The other way round it holds but for values that have no short text, such as
tensors in attributes of layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from asyncsearch.packing.dropout_masks import DROPOUTS
from asyncsearch.packing.member import Member
from asyncsearch.packing.optimizer_rows import trained_parameters
from asyncsearch.packing.update_rules import RULES

_PLAIN = (int, float, bool, str, type(None), tuple)


def structure_key(member: Member) -> Hashable:
    """Return the key of a member that can be trained with others."""
    model, optimizer = member.model, member.optimizer
    tensors = (*model.named_parameters(), *model.named_buffers())
    shapes = tuple((name, one.shape, one.dtype, one.device, one.requires_grad) for name, one in tensors)
    common = repr([group[name] for group in optimizer.param_groups for name in RULES[type(optimizer)].common])
    layers = tuple(_layer_key(name, module) for name, module in model.named_modules())
    trained = type(optimizer), common, tuple(trained_parameters(model, optimizer))
    functions = tuple(_function_key(one) for one in (member.loss, member.sample_losses))
    return layers, shapes, trained, functions, member.precision, member.scaler is None


def _layer_key(name: str, module: Any) -> Hashable:
    return name, type(module), module.training, tuple(_attributes(module))


def _attributes(module: Any) -> Iterator[tuple[str, Hashable]]:
    for name, value in vars(module).items():
        if name.startswith("_") or (name == "p" and type(module) in DROPOUTS):
            continue
        yield name, repr(value) if isinstance(value, _PLAIN) else _function_key(value)


def _function_key(value: Any) -> Hashable:
    code: Hashable = getattr(getattr(value, "__func__", value), "__code__", None)
    return str(type(value)) if code is None else code
