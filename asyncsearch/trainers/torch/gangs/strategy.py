"""How the workers of a trial divide weights and the optimizer's state; ``TorchStrategy`` is one worker that has all.

A checkpoint has the same contents whatever the strategy. Rank 0 writes it, as one worker alone would have written it,
or each rank its shard.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from asyncsearch.errors import UsageError
from asyncsearch.trainers.torch.gangs.shards import read_checkpoint

_NUMBERS = re.compile(r"did not receive grad for rank \d+: ((?:\d+ ?)+)")
"""Torch's message about parameters without a gradient, and their numbers."""


class TorchStrategy:
    """One worker, which has all of the model and of the optimizer's state."""

    is_in_step = False
    """Whether every rank must call the model as often as the others, also without gradients."""

    def divide(self, net: Any) -> Any:
        """Return the model with this rank's part of the weights, of which the optimizer is then made."""
        return net

    def parallel(self, net: Any) -> Any:
        """Return the model as a step calls it."""
        return net

    def require_gradients(self, parallel: Any) -> None:
        """Check, after a step, that no parameter lacks a gradient for which the other ranks wait.

        Raises:
            UsageError: one does; the message names it.
        """

    def attach(self, opt: Any) -> Any:
        """Return the optimizer, which from then on updates this rank's part."""
        return opt

    def equalize(self, net: Any) -> None:
        """Make equal, at the end of a unit, the buffers that differ between the ranks."""

    def forget(self) -> None:
        """Forget the parts that rank 0 has gathered to save them: training goes on."""

    def model_state(self, net: Any) -> Any:
        """Return the state of the model to save."""
        return net.state_dict()

    def optimizer_state(self, opt: Any) -> Any:
        """Return the state of the optimizer to save."""
        return opt.state_dict()

    def write(self, state: Mapping[str, Any], path: Path) -> None:
        """Write a checkpoint, or this rank's shard of it."""
        with path.open("wb") as file:  # given a path, torch would write its name into the file
            torch.save(state, file)

    def read(self, path: Path, device: Any) -> dict[str, Any]:
        """Return a checkpoint, of one worker or in shards of whichever number, as far as this rank needs it."""
        return read_checkpoint(path, device)

    def load_model(self, net: Any, state: Any) -> None:
        """Put a saved state into the model."""
        net.load_state_dict(state)

    def load_optimizer(self, opt: Any, state: Any) -> None:
        """Put a saved state into the optimizer."""
        opt.load_state_dict(state)


class Ddp(TorchStrategy):
    """Every rank has all weights and the whole state of the optimizer.

    Each trains its share of every batch. ``DistributedDataParallel`` averages their gradients, each weighted by its
    share, so that a step is that of the whole batch on one worker, within rounding.
    """

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
