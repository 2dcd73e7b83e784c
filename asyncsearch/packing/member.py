"""One model in a pack, with all that its training needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

import torch
from torch.nn import functional

from asyncsearch.errors import UsageError
from asyncsearch.packing.unit_generators import UnitGenerators
from asyncsearch.sentences import warn_of_former_name

LossFunction = Callable[[Any, Any], Any]
PRECISIONS = ("float16", "bfloat16")


def cross_entropy(model: Any, batch: Any) -> Any:
    """Return the mean cross entropy of a batch ``(x, y)``: the default loss of a member."""
    x, y = batch
    return functional.cross_entropy(model(x), y)


@dataclass(eq=False)
class Member:
    """A model, its optimizer and its loss, as they would train alone.

    While it is in a pack, its weights and the state of its optimizer are in the pack; ``Pack.leave``, ``Pack.sync`` and
    ``free`` write them back into ``model`` and ``optimizer``. The pack reads the settings of ``optimizer.param_groups``
    and the ``p`` of dropout layers at each step, so a schedule may change them.
    """

    model: Any
    """A ``torch.nn.Module``."""
    optimizer: Any
    """An optimizer of the model's parameters: SGD, Adam, AdamW, RMSprop or Adagrad to be trained with others as one."""
    loss: LossFunction = cross_entropy
    """``loss(model, batch)`` returns a 0-dimensional tensor, the mean over the samples."""
    sample_losses: LossFunction | None = None
    """``sample_losses(model, batch)`` returns the loss of each sample, (B,), whose mean is ``loss``. With it, members
    may have batches of different sizes; the default loss needs none."""
    generator: torch.Generator | None = None
    """The generator of its dropout layers, in place of torch's own."""
    steps: int | None = None
    """Steps after which it leaves the pack; None if it leaves when it is told to."""
    batch_size: int | None = None
    """Samples that it takes from the beginning of a batch that all share; None for all."""
    clip_grad_norm: float | None = None
    """The largest norm of its gradient, over all parameters that the optimizer updates."""
    hp: Mapping[str, Any] = field(default_factory=dict)
    """Its hyper-parameters, for those who read about it."""
    taken: int = 0
    """Steps that it has made in packs."""
    precision: str | None = None
    """``float16`` or ``bfloat16``: its loss is computed under ``torch.autocast``; None: in the type of its weights."""
    scaler: Any = None
    """A ``torch.amp.GradScaler``; None if its loss is not scaled. While it is in a pack, its state is in the pack."""
    must_match: Mapping[str, Any] = field(default_factory=dict)
    """What is equal in all members that train with it as one computation, by words that say what it is: values that its
    loss reads, and that are neither parameters, buffers nor in the batch."""
    keeps_grads: bool = False
    """Whether its parameters get the gradients of its last step where its state is written back."""
    by_itself: str = ""
    """Why it trains by itself, whomever it is with; empty if it need not."""
    watch: Any = None
    """Watches ``loss`` where one computation calls it for several members; None if nothing does."""
    unit_generators: UnitGenerators | None = None
    """Its generators in one unit of training; None if only torch's generator is its own."""
    must_equal: InitVar[Mapping[str, Any] | None] = None
    """The former name of ``must_match``."""

    def watched_losses(self) -> tuple[LossFunction, LossFunction | None]:
        """Return ``loss`` and ``sample_losses`` as a stack calls them."""
        watch = self.watch
        return (self.loss, self.sample_losses) if watch is None else (watch.loss, watch.sample_losses)

    def __post_init__(self, must_equal: Mapping[str, Any] | None) -> None:
        if must_equal is not None:
            warn_of_former_name("Member.must_equal", "Member.must_match", last="0.3", calls=2)
            self.must_match = must_equal
        for name in ("steps", "batch_size"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(
                    f"{name}={value} of a member is not a number to count: give an integer from 1, or None."
                )
        if self.precision not in (None, *PRECISIONS):
            raise UsageError(
                f"precision={self.precision!r} of a member is unknown: give 'float16', 'bfloat16', or None."
            )
        if self.clip_grad_norm is not None and not self.clip_grad_norm > 0:
            raise UsageError(
                f"clip_grad_norm={self.clip_grad_norm} of a member is no length: give a positive number, or None."
            )
