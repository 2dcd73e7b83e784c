"""Computes the losses of K alike models at once: known layers by one call each, all else by ``torch.func.vmap``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.func import functional_call, vmap
from torch.utils import _pytree

from asyncsearch.errors import UsageError
from asyncsearch.packing.member import LossFunction, Member, cross_entropy
from asyncsearch.packing.stack.activations import DROPOUTS, Activations, DropoutMasks
from asyncsearch.packing.stack.sample_masks import cross_entropy_sums, masked_mean, stacked_cross_entropy
from asyncsearch.packing.stack.stacked_layers import NORMS, OtherRankError, StackedLayer, computed, stacked_layers

nn: Any = torch.nn
T = TypeVar("T")
_FEWEST = 64
"""Samples that are evaluated at once, at least."""


class StackedModel:
    """The computation of one architecture; the weights of the members are given at each call."""

    def __init__(self, member: Member) -> None:
        self.masks = DropoutMasks()
        self.take_losses(member)
        # Calls with other weights, and what forward may keep, must not reach the user's model.
        self.template = copied(member.model, member.model)
        self._whole = stacked_layers(self.template, "")
        self._caller = _Caller(self.template)
        self._values: dict[str, Any] = {}
        self._index: Any = None
        self._given: dict[str, Any] = {}
        """Parameters and buffers by name, as the present call gives them to the model."""
        self._replace(self.template, "")

    def take_losses(self, member: Member) -> None:
        """Compute the losses of a member from now on: that of one that has left may read values of its own."""
        self._loss, self._sample_losses = member.watched_losses()

    def runs_users_code(self, batch: Any) -> bool:
        """Return whether the loss of a batch calls anything but known layers and the default loss."""
        return self._loss is not cross_entropy or self._whole is None or not isinstance(batch[0], torch.Tensor)

    def losses(self, values: dict[str, Any], batch: Any, is_shared: bool, sizes: Sequence[int] | None) -> Any:
        """Return the loss of each member, (K,).

        Args:
            values: parameters and buffers of all members by name, (K, ...); buffers are updated in place.
            batch: what all members share, or with a leading axis of K.
            is_shared: which of both.
            sizes: samples of each member, where the batches are padded.
        """
        self._values, self.masks.sizes = values, sizes
        try:
            if self._loss is cross_entropy:
                x, y = batch
                return stacked_cross_entropy(self._outputs(x, is_shared), y, is_shared, sizes)
            if sizes is None:
                return self._mapped(self._loss, batch, is_shared)
            assert self._sample_losses is not None
            return masked_mean(self._mapped(self._sample_losses, batch, is_shared), sizes)
        finally:
            self._values = {}

    def validated(self, values: dict[str, Any], batch: Any) -> tuple[Any, Any]:
        """Return the loss of each member in evaluation mode, (K,), and how many right answers.

        Args:
            values: as above.
            batch: what all members share.

        Returns:
            The second is None where the loss is not the default one.
        """
        self._values, self.masks.sizes = values, None
        modes = [(module, module.training) for module in self.template.modules()]
        self.template.eval()
        try:
            with torch.no_grad():
                if self._loss is cross_entropy:
                    return self._rightly_classified(*batch)
                return self._mapped(self._loss, batch, True), None
        finally:
            self._values = {}
            for module, is_training in modes:
                module.training = is_training

    def _rightly_classified(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return mean cross entropies and right answers, computed in parts whose activations stay in the cache."""
        size = max(_FEWEST, -(-len(y) // self._count()))
        found = []
        for start in range(0, len(y), size):
            outputs, part = self._outputs(x[start : start + size], True), y[start : start + size]
            right = (outputs.argmax(2) == part).flatten(1).sum(1)
            found.append((*cross_entropy_sums(outputs, part, True), right))
        losses, counts, right = (sum(parts) for parts in zip(*found, strict=True))
        return losses / counts, right

    def _outputs(self, x: Any, is_shared: bool) -> Any:
        if self._whole is not None and isinstance(x, torch.Tensor):
            try:
                return self._run(self._whole, x, is_shared)
            except OtherRankError:
                self._whole = None
        return self._mapped(_forward, x, is_shared)

    def _run(self, layers: list[StackedLayer], x: Any, is_shared: bool) -> Any:
        given = Activations(x, "shared" if is_shared else "rows", self._count())
        return computed(layers, self._values, given, self.masks).as_rows()

    def _count(self) -> int:
        return len(self.masks.models)

    def _mapped(self, function: LossFunction, batch: Any, is_shared: bool) -> Any:
        leaves, structure = _pytree.tree_flatten(batch)
        names = list(self._values)
        buffers = [name for name, _ in self.template.named_buffers()]

        held = frozenset(buffers)

        def one(index: Any, *parts: Any) -> Any:
            self._index = index
            inside = {f"model.{name}": value for name, value in zip(names, parts, strict=False)}
            self._given = dict(zip(names, parts, strict=False))
            given = _pytree.tree_unflatten(parts[len(names) :], structure)
            result = functional_call(self._caller, inside, (function, given))
            for name, value in zip(names, parts, strict=False):
                if name not in held and inside[f"model.{name}"] is not value:
                    raise UsageError(
                        f"loss() or forward() replaces parameter {name!r}: change it in place, or train it"
                    )
            return result, tuple(inside[f"model.{name}"] for name in buffers)

        dims = [None if is_shared or not isinstance(leaf, torch.Tensor) else 0 for leaf in leaves]
        values = self._values.values()
        index = torch.arange(self._count(), device=next(iter(values)).device)
        mapped = vmap(one, in_dims=(0, *[0] * len(names), *dims), randomness="error")
        with warnings.catch_warnings():
            # Right, only not faster: an operation that vmap computes one member after the other.
            warnings.filterwarnings("ignore", message="There is a performance drop because we have not yet impl")
            result, after = mapped(index, *values, *leaves)
        for name, value in zip(buffers, after, strict=True):
            own = self._values[name]
            if value.data_ptr() != own.data_ptr():  # forward has put a new tensor in the buffer's place
                if value.shape != own.shape or value.dtype != own.dtype:
                    raise UsageError(f"loss() or forward() gives buffer {name!r} another shape or dtype: keep both")
                own.copy_(value.detach())
        return result

    def _replace(self, module: Any, name: str) -> None:
        """Let parts of the model compute the rows of all members at once: dropout, and sequences of known layers.

        Other single layers are left to ``vmap``: a call from inside it costs more than they gain. Norms are, too, but
        under autocast, where the input of one has another dtype than its weights.
        """
        layers = stacked_layers(module, name)
        if layers is not None and (len(layers) > 1 or type(module) in (*DROPOUTS, *NORMS)):
            module.forward = self._stacked_forward(module.forward, layers, _Held(module, name), type(module) in NORMS)
            return
        for key, child in module.named_children():
            self._replace(child, f"{name}.{key}" if name else key)

    def _stacked_forward(
        self, own: Callable[..., Any], layers: list[StackedLayer], held: _Held, is_norm: bool
    ) -> Callable[..., Any]:
        def forward(x: Any) -> Any:
            if is_norm and not torch.is_autocast_enabled(x.device.type):
                return own(x)
            if not held.are(self._given):  # a loss calls it with other weights, as by functional_call
                return own(x)
            try:
                return _Rows.apply(x, self._index, lambda rows, is_shared: self._run(layers, rows, is_shared))
            except OtherRankError:
                return own(x)

        return forward


def copied(model: Any, what: T) -> T:
    """Return a deep copy of a model, or of something around it."""
    try:
        return copy.deepcopy(what)
    except Exception as error:
        raise UsageError(
            f"A {type(model).__name__} cannot be copied, which a pack does once ({type(error).__name__}: {error}): "
            "keep in it only what copy.deepcopy copies."
        ) from error


def _forward(model: Any, x: Any) -> Any:
    return model(x)


class _Caller(nn.Module):  # type: ignore[misc]
    """Lets a function see the model with the weights of the call, also where it asks for its parameters."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: LossFunction, batch: Any) -> Any:
        return function(self.model, batch)


class _Held:
    """The parameters and buffers of a part of the model."""

    def __init__(self, module: Any, name: str) -> None:
        start = f"{name}." if name else ""
        self._places = [
            (part, kind, key, f"{start}{inner}.{key}" if inner else f"{start}{key}")
            for inner, part in module.named_modules()
            for kind in ("_parameters", "_buffers")
            for key in vars(part)[kind]
        ]

    def are(self, given: dict[str, Any]) -> bool:
        """Return whether they are tensors of these names; a name of a tensor with several is perhaps not among them."""
        return all(vars(part)[kind].get(key) is given[name] for part, kind, key, name in self._places if name in given)


class _Rows(torch.autograd.Function):  # type: ignore[misc]
    """A call inside ``vmap`` that computes the rows of all members by itself."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x: Any, index: Any, run: Callable[[Any, bool], Any]) -> Any:
        raise NotImplementedError("only inside vmap")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: the operations that ``run`` calls have gradients of their own."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, index: Any, run: Callable[[Any, bool], Any]) -> tuple[Any, int]:
        """Return the rows. The index of the member is an argument because this is called only where one is batched.

        Raises:
            UsageError: this is another ``vmap``, of the loss itself.
        """
        at = in_dims[0]
        if in_dims[1] is None:
            raise UsageError(
                "its model or loss calls layers inside torch.func.vmap: call them once for all samples of a batch"
            )
        return run(x if at is None else x.movedim(at, 0), at is None), 0
