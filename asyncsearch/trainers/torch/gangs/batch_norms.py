"""``sync_batch_norm``: BatchNorm over the whole batch, of which each rank has a share.

On GPUs it is torch's ``SyncBatchNorm``, which refuses tensors of the CPU; there it is ``GangBatchNorm``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm


class _Sum(torch.autograd.Function):  # type: ignore[misc]
    """The sum of the ranks' tensors, through which gradients flow: each rank's part is in the loss of all."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return _summed(value, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _summed(gradients[0], ctx.group), None


class GangBatchNorm(_BatchNorm):  # type: ignore[misc]
    """A BatchNorm whose statistics are those of all ranks' samples. It has the weights and buffers of another one."""

    has_share = True
    """Whether this rank's samples count. Without a share of the batch it has a sample that does not."""

    def __init__(self, like: _BatchNorm, group: Any) -> None:
        settings = like.num_features, like.eps, like.momentum, like.affine, like.track_running_stats
        super().__init__(*settings, device="meta")
        self._parameters, self._buffers = like._parameters, like._buffers
        self._group = group
        self.train(like.training)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        if not self.training:
            return super().forward(input)
        mean, variance, count = self._statistics(input)
        if self.track_running_stats:
            self._follow(mean.detach(), variance.detach() * (count / (count - 1)))
        shape = _along_channels(input)
        found = (input - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.weight is not None:
            found = found * self.weight.view(shape)
        return found if self.bias is None else found + self.bias.view(shape)

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        if input.dim() < 2:
            raise ValueError(f"a BatchNorm needs samples with channels, and got a tensor of shape {tuple(input.shape)}")

    def _statistics(self, input: Tensor) -> tuple[Tensor, Tensor, float]:  # noqa: A002
        """Return mean and variance of each channel, and the number of values that they are of."""
        self._check_input_dim(input)
        others = [dimension for dimension in range(input.dim()) if dimension != 1]
        share = float(self.has_share)
        size = input.new_tensor([share * input.numel() / input.size(1)])
        total = _Sum.apply(torch.cat([input.sum(others) * share, size]), self._group)
        count = float(total[-1])
        if count <= 1:
            raise ValueError(f"a BatchNorm needs more than one value of each channel in training, and got {count:.0f}")
        mean = total[:-1] / count
        away = (input - mean.view(_along_channels(input))).square().sum(others) * share
        return mean, _Sum.apply(away, self._group) / count, count

    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        """Let the moving statistics follow those of a batch."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        pace = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, pace)
        self.running_var.lerp_(variance, pace)


def synchronized(net: Any, group: Any, device: torch.device) -> Any:
    """Return a model whose BatchNorms see the whole batch."""
    if device.type == "cuda":
        return torch.nn.SyncBatchNorm.convert_sync_batchnorm(net, group)
    if isinstance(net, _BatchNorm):
        return GangBatchNorm(net, group)
    for name, child in net.named_children():
        setattr(net, name, synchronized(child, group, device))
    return net


def tell_share(net: Any, *, has_share: bool) -> None:
    """Tell a model's BatchNorms whether the samples of the next step count."""
    for module in net.modules():
        if isinstance(module, GangBatchNorm):
            module.has_share = has_share


def _summed(value: Tensor, group: Any) -> Tensor:
    total = value.detach().clone()
    dist.all_reduce(total, group=group)
    return total


def _along_channels(tensor: Tensor) -> list[int]:
    return [1, -1, *[1] * (tensor.dim() - 2)]
