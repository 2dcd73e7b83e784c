"""Networks of torch without some of their layers: each is replaced by the identity, or by what fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from asyncsearch.ablation import chosen
from asyncsearch.errors import UsageError

_SAME = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d,
    nn.BatchNorm2d, nn.BatchNorm3d, nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Softmax,
    nn.LogSoftmax, nn.Identity,
)  # fmt: skip
"""Layers whose output always has the shape of their input."""
TensorShape = tuple[int, ...]
SeenLayer = tuple[TensorShape, TensorShape, torch.dtype]
"""Shapes of a layer's input and output, and the output's dtype."""


class FittedModule(nn.Module):  # type: ignore[misc]
    """Gives its input another shape without parameters: cut off or filled up with zeros, dimension by dimension.

    Where only the size of a picture differs, as after a convolution with a stride, it is the mean of each part.
    Integers, as of tokens before an embedding, become zeros.
    """

    def __init__(self, shape: TensorShape, dtype: torch.dtype) -> None:
        """``shape`` is that of the output without its first dimension, that of the samples."""
        super().__init__()
        self.shape = tuple(shape)
        self.dtype = dtype

    def forward(self, x: torch.Tensor, *others: Any) -> torch.Tensor:
        if not x.is_floating_point():
            return x.new_zeros((len(x), *self.shape), dtype=self.dtype)
        if x.dim() == len(self.shape) + 1 and x.dim() in (3, 4, 5):
            x = self._pooled(x)
        if x.dim() != len(self.shape) + 1:
            width = 1
            for size in self.shape:
                width *= size
            return _resized(x.flatten(1), 1, width).reshape(len(x), *self.shape)
        for number, size in enumerate(self.shape, start=1):
            x = _resized(x, number, size)
        return x

    def extra_repr(self) -> str:
        return f"shape={self.shape}"

    def _pooled(self, x: torch.Tensor) -> torch.Tensor:
        """Return the means of equal parts where each size of the picture is a multiple of the one wanted."""
        sizes, wanted = tuple(x.shape[2:]), self.shape[1:]
        if sizes == wanted or any(size % new for size, new in zip(sizes, wanted, strict=True)):
            return x
        for number, (size, new) in enumerate(zip(sizes, wanted, strict=True), start=2):
            x = x.unflatten(number, (new, size // new)).mean(number + 1)
        return x


def without(net: nn.Module, patterns: Sequence[str], inputs: Sequence[Any] = ()) -> nn.Module:
    """Replace the layers that the patterns name, in place, and return the network.

    Raises:
        UsageError: there is no such layer, nothing fits in its place, or its shapes cannot be told without inputs.
    """
    kind = type(net).__name__
    # With each name of a layer that has several: the one that is named is left out.
    names = [name for name, _ in net.named_modules(remove_duplicate=False) if name]
    found = [part for name in chosen(names, patterns, kind) for part in _parts(net, name)]
    outer = [name for name in found if not any(name.startswith(f"{other}.") for other in found)]
    shapes = _shapes(net, outer, inputs)
    for name in outer:
        parent, _, last = name.rpartition(".")
        old = net.get_submodule(name)
        setattr(net.get_submodule(parent), last, _replacement(name, old, shapes.get(name), was_called=bool(inputs)))
    if inputs:
        with _aside(net):
            try:
                net(*inputs)
            except Exception as error:
                raise UsageError(
                    f"{kind} without {', '.join(outer)} cannot be computed ({type(error).__name__}: {error}): leave "
                    "out another layer, or the layer that holds it."
                ) from error
    return net


def _parts(net: nn.Module, name: str) -> list[str]:
    """Return a layer's name; of a list or dictionary of layers, which computes nothing itself, the names in it."""
    if not isinstance(module := net.get_submodule(name), nn.ModuleList | nn.ModuleDict):
        return [name]
    return [part for child in module._modules for part in _parts(net, f"{name}.{child}")]


def _replacement(name: str, old: nn.Module, seen: SeenLayer | None, *, was_called: bool) -> nn.Module:
    if seen is not None:
        before, after, dtype = seen
        return nn.Identity() if before == after else FittedModule(after[1:], dtype)
    if isinstance(old, _SAME) or (isinstance(old, nn.Linear) and old.in_features == old.out_features):
        return nn.Identity()
    if was_called:
        raise UsageError(
            f"The network does not call {name!r} ({type(old).__name__}) with those samples, so nothing is known that "
            "fits in its place: name the layer that it calls."
        )
    raise UsageError(
        f"The shapes of {name!r} ({type(old).__name__}) are known once the network is called with samples: write "
        "trial.ablation.model(net, x), with x as your loop calls net(x), for a few samples."
    )


def _shapes(net: nn.Module, names: Sequence[str], inputs: Sequence[Any]) -> dict[str, SeenLayer]:
    """Return layer -> the shapes of its input and output, and the output's dtype, in one forward of the inputs."""
    found: dict[str, SeenLayer] = {}

    def note(name: str) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...], result: Any) -> None:
            if not given or not isinstance(given[0], torch.Tensor) or not isinstance(result, torch.Tensor):
                raise UsageError(
                    f"{name!r} ({type(module).__name__}) does not turn one tensor into one tensor, so nothing fits in "
                    "its place: write Ablation(custom=[...]) and ask trial.ablation.keeps(name) in model()."
                )
            same = given[0].dtype.is_floating_point == result.dtype.is_floating_point
            before = tuple(given[0].shape) if same else ()
            seen = (before, tuple(result.shape), result.dtype)
            is_kept = before == seen[1] and name in found and found[name][0] == found[name][1]
            if name in found and found[name] != seen and not is_kept:
                raise UsageError(
                    f"{name!r} ({type(module).__name__}) is called several times, with other shapes, so nothing fits "
                    "in its place: write Ablation(custom=[...]) and ask trial.ablation.keeps(name) in model()."
                )
            found[name] = seen

        return hook

    if not inputs:
        return found
    hooks = [net.get_submodule(name).register_forward_hook(note(name)) for name in names]
    try:
        with _aside(net):
            net(*inputs)
    finally:
        for one in hooks:
            one.remove()
    return found


@contextmanager
def _aside(net: nn.Module) -> Iterator[None]:
    """Leave no trace: no gradients, no moving averages, and the generators as they were."""
    modes = [(module, module.training) for module in net.modules()]
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        try:
            net.eval()
            yield
        finally:
            for module, is_training in modes:
                module.training = is_training


def _resized(x: torch.Tensor, dimension: int, size: int) -> torch.Tensor:
    have = x.shape[dimension]
    if have > size:
        return x.narrow(dimension, 0, size)
    return x if have == size else pad(x, [0, 0] * (x.dim() - dimension - 1) + [0, size - have])
