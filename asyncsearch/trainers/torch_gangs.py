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


def parallel_model(net: Any, trial: TrialContext, device: torch.device, options: dict[str, Any]) -> Any:
    """Return what a step calls in place of the model, so that gradients are averaged over the ranks."""
    group = trial.process_group()
    if not any(parameter.requires_grad for parameter in net.parameters()):
        return net  # there is no gradient to average, which torch refuses
    devices = [device] if device.type == "cuda" else None
    return DistributedDataParallel(net, device_ids=devices, process_group=group, **options)


def summed(values: list[float], trial: TrialContext, device: torch.device) -> list[float]:
    """Return sums over the ranks, in double precision."""
    group = trial.process_group()
    total = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(total, group=group)
    sums: list[float] = total.tolist()
    return sums
