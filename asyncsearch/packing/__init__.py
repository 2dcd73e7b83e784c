"""Packed training: several torch models trained together, alike ones as one computation.

Each member is trained as if it was alone, within rounding: its weights, optimizer settings, generator and number of
steps are its own. ``load``, ``pack`` and ``free`` are the three primitives of "Understanding and Optimizing Packed
Neural Network Training" (Liu et al., DEEM 2021).
"""

import copy
from collections.abc import Sequence
from typing import Any

from asyncsearch.packing.member import Member as Member
from asyncsearch.packing.member import cross_entropy as cross_entropy
from asyncsearch.packing.packs import Pack as Pack
from asyncsearch.packing.probe import why_not as why_not

__all__ = ["Member", "Pack", "cross_entropy", "free", "load", "pack", "why_not"]


def load(model: Any, device: Any = "cpu") -> Any:
    """Return a copy of a model on a device, with storage of its own; make the optimizer of the copy's parameters."""
    return copy.deepcopy(model).to(device)


def pack(members: Sequence[Member]) -> Pack:
    """Return a pack in which members train together.

    Alike members, which differ only in weights, buffers and numbers of the optimizer, train as one computation. Others
    share the input: on the CPU that is all, on CUDA each group has a stream. ``Pack.describe`` says which do which.

    Args:
        members: in the state of their own models and optimizers.
    """
    return Pack(members)


def free(packed: Any) -> None:
    """Let go of all that ``pack`` or ``load`` holds on the device; more than once does no harm.

    The members of a pack have their state in their own models and optimizers again. A model keeps its structure and
    loses its values: its tensors are on the device ``meta``.
    """
    if isinstance(packed, Pack):
        packed.free()
    else:
        packed.to("meta")
