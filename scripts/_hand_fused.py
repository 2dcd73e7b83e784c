"""Members fused by hand, as HFTA does it: batched products, grouped convolutions, and SGD with a number a member.

What one would write for exactly these models: a bound for what a pack of any models may reach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

MOMENTUM, WEIGHT_DECAY = 0.9, 1e-4


class HandFused:
    """K models of one architecture and their SGD.

    Args:
        models: alike, with the parameters that ``forward`` takes.
        rates: the learning rate of each, (K,).
        forward: takes the stacked parameters and x, and returns outputs (K, B, C).
    """

    def __init__(self, models: list[Any], rates: list[float], forward: Callable[[list[Any], Any], Any]) -> None:
        rows = zip(*(model.parameters() for model in models), strict=True)
        self.parameters = [torch.stack([one.detach() for one in row]).requires_grad_() for row in rows]
        self._rates = [torch.tensor(rates).view(-1, *[1] * (one.dim() - 1)) for one in self.parameters]
        self._momenta: list[Any] = []
        self._forward = forward

    def step(self, x: Any, y: Any) -> Any:
        """Train each model by one step, and return the losses, (K,)."""
        outputs = self._forward(self.parameters, x)
        rows = y.expand(len(outputs), -1)
        losses = functional.cross_entropy(outputs.transpose(1, 2), rows, reduction="none").mean(1)
        grads = torch.autograd.grad(losses.sum(), self.parameters)
        with torch.no_grad():
            changes = [grad.add(one, alpha=WEIGHT_DECAY) for grad, one in zip(grads, self.parameters, strict=True)]
            if self._momenta:
                changes = [old.mul_(MOMENTUM).add_(new) for old, new in zip(self._momenta, changes, strict=True)]
            self._momenta = changes
            for one, rate, change in zip(self.parameters, self._rates, changes, strict=True):
                one.addcmul_(rate, change, value=-1)
        return losses.detach()


def mlp_outputs(parameters: list[Any], x: Any) -> Any:
    """Return the outputs of MLPs with one hidden layer."""
    w1, b1, w2, b2 = parameters
    hidden = torch.baddbmm(b1.unsqueeze(1), x.expand(len(w1), -1, -1), w1.transpose(1, 2)).relu()
    return torch.baddbmm(b2.unsqueeze(1), hidden, w2.transpose(1, 2))


def cnn_outputs(parameters: list[Any], x: Any) -> Any:
    """Return the outputs of the CNNs of the searches: all see the same image, so the first layer needs no groups."""
    w1, b1, w2, b2, w3, b3 = parameters
    count = len(w1)
    first = functional.conv2d(x.unflatten(1, (1, 8, 8)), w1.flatten(0, 1), b1.flatten(), padding=1)
    second = functional.conv2d(_pooled(first), w2.flatten(0, 1), b2.flatten(), padding=1, groups=count)
    rows = _pooled(second).unflatten(1, (count, -1)).transpose(0, 1).flatten(2)
    return torch.baddbmm(b3.unsqueeze(1), rows, w3.transpose(1, 2))


def _pooled(x: Any) -> Any:
    return functional.max_pool2d(x.relu(), 2)
