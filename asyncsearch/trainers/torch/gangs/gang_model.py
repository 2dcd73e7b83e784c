"""A model of PyTorch that several workers train together: each trains its share of every batch.

The gradients of the ranks are averaged by ``DistributedDataParallel``, each weighted by its share, so that a step is
that of the whole batch on one worker, within rounding.
"""

from __future__ import annotations

import re
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from asyncsearch.errors import UsageError
from asyncsearch.trainers.torch.gangs.strategy import TorchStrategy

_NUMBERS = re.compile(r"did not receive grad for rank \d+: ((?:\d+ ?)+)")


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

    def require_gradients(self, parallel: Any) -> None:
        check = getattr(parallel, "_check_reducer_finalized", None)
        if check is None:
            return
        try:
            check()
        except RuntimeError as error:  # torch says it in the next step, and the other ranks may wait before
            names = ", ".join(map(repr, _without_gradient(parallel, str(error)))) or "a parameter"
            raise UsageError(
                f"{names} got no gradient in rank {dist.get_rank(self._group)}, and the other ranks would wait for it:"
                ' write ddp_options = {"find_unused_parameters": True} in the trainer if some batches do not use all'
                " parameters, or requires_grad_(False) for those that no batch uses."
            ) from None


def _without_gradient(parallel: Any, text: str) -> list[str]:
    """Return the names of the parameters whose numbers are in torch's message."""
    found = _NUMBERS.search(text)
    names = [name for name, one in parallel.module.named_parameters() if one.requires_grad]
    numbers = map(int, found[1].split()) if found is not None else ()
    return [names[number] for number in numbers if number < len(names)]
