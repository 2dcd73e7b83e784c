"""One model in a pack, with all that its training needs; and what mixed precision means for its loss and its step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from asyncsearch.errors import UsageError
from asyncsearch.packing.unit_generators import UnitGenerators
from asyncsearch.sentences import warn_of_former_name


def autocast_of(member: Member) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which the loss of a member is computed in training; a step is outside of it."""
    if member.precision is None:
        return contextlib.nullcontext()
    kind = next(member.model.parameters()).device.type
    context: contextlib.AbstractContextManager[Any] = torch.autocast(kind, dtype=getattr(torch, member.precision))
    return context


def has_scaler(member: Member) -> bool:
    """Return whether the loss of a member is multiplied by a scale."""
    return member.scaler is not None and bool(member.scaler.is_enabled())


def precision_refusals(member: Member) -> Iterator[str]:
    """Yield why the mixed precision of a member cannot be that of a pack."""
    if not has_scaler(member):
        return
    kind = type(member.scaler)
    if kind is not torch.amp.GradScaler:
        yield f"its scaler is a {kind.__module__}.{kind.__qualname__}, whose rule is its own: use torch.amp.GradScaler"
    halves = [name for name, parameter in member.model.named_parameters() if parameter.dtype == torch.float16]
    if halves:
        yield f"parameter {halves[0]!r} is float16, whose gradient torch does not unscale: let it be float32"


def precision_differences(one: Member, other: Member) -> Iterator[str]:
    """Yield how the mixed precision of two members differs; the numbers of their scalers may."""
    if one.precision != other.precision:
        yield f"precision is {one.precision} in one and {other.precision} in the other"
    if has_scaler(one) != has_scaler(other):
        yield "only one of them has a gradient scaler"


Flags = npt.NDArray[np.bool_]


class GradientScales:
    """The scales, (K,), and the steps since each one changed, (K,), in the place of those in the members' scalers."""

    def __init__(self, scalers: Sequence[Any]) -> None:
        """Take the states of ``torch.amp.GradScaler``, all of them enabled."""
        self.scalers = list(scalers)
        self._scales = np.empty(len(self.scalers), dtype=np.float32)
        self._growths, self._backoffs = np.empty((2, len(self.scalers)))
        self._intervals, self._tracked = np.empty((2, len(self.scalers)), dtype=np.int64)
        for row in range(len(self.scalers)):
            self.take(row)

    def take(self, row: int) -> None:
        """Copy the state of a member's scaler into its row."""
        state = self.scalers[row].state_dict()
        self._scales[row], self._tracked[row] = state["scale"], state["_growth_tracker"]
        self._growths[row], self._backoffs[row] = state["growth_factor"], state["backoff_factor"]
        self._intervals[row] = state["growth_interval"]

    def scaled(self, losses: Any) -> Any:
        """Return the losses, (K,), each times its scale."""
        return losses * self._row(self._scales, losses.device)

    def unscale(self, grads: Any) -> Flags:
        """Divide gradients, (K, P), by the scales in place, and return which of them were not finite, (K,)."""
        overflowed: Flags = (~grads.isfinite().all(1)).cpu().numpy()
        # In double precision, and as a product, as torch does.
        with np.errstate(divide="ignore", over="ignore"):
            inverse = (1.0 / self._scales.astype(np.float64)).astype(np.float32)
        grads.mul_(self._row(inverse, grads.device).unsqueeze(1))
        return overflowed

    def update(self, overflowed: Flags) -> None:
        """Reduce the scales of members that overflowed, and enlarge those that have not for their interval."""
        wide = self._scales.astype(np.float64)
        with np.errstate(over="ignore"):
            reduced, enlarged = ((wide * factors).astype(np.float32) for factors in (self._backoffs, self._growths))
        self._tracked = np.where(overflowed, 0, self._tracked + 1)
        is_due = self._tracked == self._intervals
        grown = np.where(is_due & np.isfinite(enlarged), enlarged, self._scales)
        self._scales = np.where(overflowed, reduced, grown)
        self._tracked = np.where(is_due, 0, self._tracked)

    def write(self, row: int) -> None:
        """Give the scaler of a member the state of its row."""
        scaler = self.scalers[row]
        scaler.load_state_dict(
            scaler.state_dict() | {"scale": float(self._scales[row]), "_growth_tracker": int(self._tracked[row])}
        )

    @staticmethod
    def _row(numbers: npt.NDArray[np.float32], device: Any) -> Any:
        return torch.from_numpy(numbers).to(device)


def scales_of(scalers: Sequence[Any]) -> GradientScales | None:
    """Return the scales of members; None if they have no scalers."""
    found = [scaler for scaler in scalers if scaler is not None and scaler.is_enabled()]
    return GradientScales(found) if found else None


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
    """``float16`` or ``bfloat16``: its loss is computed under ``torch.autocast``. None for its weights' type."""
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
