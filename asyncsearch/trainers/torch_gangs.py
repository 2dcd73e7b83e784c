"""A model of PyTorch that several workers train together: each trains its share of every batch.

The gradients of the ranks are averaged by ``DistributedDataParallel``, each weighted by its share, so that a step is
that of the whole batch on one worker, within rounding.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from asyncsearch.trainable import TrialContext
from asyncsearch.trainers.torch_strategies import TorchStrategy


class Ddp(TorchStrategy):
    """Every rank has all weights and the whole state of the optimizer."""

    def __init__(self, trainer: Any) -> None:
        self._group = trainer.trial.process_group()
        self._device, self._options = trainer._device, dict(trainer.ddp_options)

    def parallel(self, net: Any) -> Any:
        if not any(parameter.requires_grad for parameter in net.parameters()):
            return net  # there is no gradient to average, which torch refuses
        devices = [self._device] if self._device.type == "cuda" else None
        return DistributedDataParallel(net, device_ids=devices, process_group=self._group, **self._options)


def strategy_for(trainer: Any) -> TorchStrategy:
    """Return the strategy of a trainer."""
    return Ddp(trainer)


def summed(values: list[float], trial: TrialContext, device: torch.device) -> list[float]:
    """Return sums over the ranks, in double precision."""
    group = trial.process_group()
    total = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(total, group=group)
    sums: list[float] = total.tolist()
    return sums
