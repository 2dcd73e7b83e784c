"""``strategy="fsdp2"``: weights, gradients and the optimizer's state are divided among the ranks, by ``fully_shard``.

Each layer is gathered for as long as it is computed with. Nothing is gathered for a checkpoint: each rank saves its
shard, and a rank that goes on reads its own part of the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from asyncsearch.errors import UsageError
from asyncsearch.trainers.torch.gangs.shards import SavedTensor, read_checkpoint, shard_file, write_shard
from asyncsearch.trainers.torch.gangs.strategy import TorchStrategy

_LISTS = (torch.nn.ModuleList, torch.nn.Sequential)


class Fsdp2(TorchStrategy):
    """Every rank has a part of each tensor of weights."""

    is_in_step = True

    def __init__(self, trainer: Any) -> None:
        self._group = trainer.trial.process_group()
        self._is_first = trainer.trial.rank == 0
        self._shard_file = shard_file(trainer.trial.rank, trainer.trial.world_size)
        trainer.trial.gang.save_in_shards(trainer.strategy, self._shard_file)
        self._device, self._options = trainer._device, dict(trainer.fsdp_options)
        self._units: Callable[[Any], Iterable[Any]] = trainer.sharded_layers

    def divide(self, net: Any) -> Any:
        mesh = DeviceMesh.from_group(self._group, self._device.type)
        for layer in [*self._units(net), net]:
            fully_shard(layer, mesh=mesh, **self._options)
        if self._device.type == "cpu":
            for module in net.modules():
                if isinstance(module, FSDPModule):
                    module.set_force_sum_reduction_for_comms(True)  # gloo has no other one
        return net

    def equalize(self, net: Any) -> None:
        for buffer in net.buffers():
            dist.broadcast(buffer, 0, group=self._group)

    def write(self, state: Mapping[str, Any], path: Path) -> None:
        path.mkdir(exist_ok=True)
        write_shard(state, path / self._shard_file, with_rest=self._is_first)

    def read(self, path: Path, device: Any) -> dict[str, Any]:
        return read_checkpoint(path, device, in_parts=True)

    def load_model(self, net: Any, state: Any) -> None:
        now = net.state_dict()
        for name in state.keys() & now.keys():
            state[name] = _part(now[name], state[name])
        net.load_state_dict(state)

    def load_optimizer(self, opt: Any, state: Any) -> None:
        parameters = [one for group in opt.param_groups for one in group["params"]]
        parts = {number: _parts(parameters[number], values) for number, values in state["state"].items()}
        opt.load_state_dict({**state, "state": parts})


def layers_to_shard(net: Any) -> list[Any]:
    """Return the layers that are gathered one at a time, the inner ones first: those in lists and sequences.

    They are none where two of them share a weight, which no two can gather.
    """
    inside = [child for module in net.modules() if isinstance(module, _LISTS) for child in module.children()]
    found = [
        one for one in dict.fromkeys(inside) if not isinstance(one, _LISTS) and any(True for _ in one.parameters())
    ]
    return [] if _share_weights(net) else found[::-1]


def _share_weights(net: Any) -> bool:
    names = [id(one) for _, one in net.named_parameters(remove_duplicate=False)]
    return len(names) != len(set(names))


def _part(now: Any, saved: Any) -> Any:
    """Return a copy of this rank's part of a saved tensor, of all of it if the present one is not divided."""
    if isinstance(saved, SavedTensor):
        return saved.part_like(now) if isinstance(now, DTensor) else saved.whole()
    if not isinstance(now, DTensor):
        return saved.clone() if isinstance(saved, torch.Tensor) else saved
    return distribute_tensor(saved.to(now.device), now.device_mesh, now.placements, src_data_rank=None).clone()


def _parts(parameter: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _part_of_state(parameter, name, value) for name, value in values.items()}


def _part_of_state(parameter: Any, name: str, value: Any) -> Any:
    if not isinstance(value, torch.Tensor | SavedTensor) or not value.shape:
        return _part(None, value)
    if value.shape != parameter.shape:
        raise UsageError(
            f"The optimizer keeps {name!r} of shape {tuple(value.shape)} for weights of shape "
            f"{tuple(parameter.shape)}, which strategy='fsdp2' cannot divide: go on with strategy='ddp'."
        )
    return _part(parameter, value)
