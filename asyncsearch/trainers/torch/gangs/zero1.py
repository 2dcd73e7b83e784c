"""``strategy="zero1"``: every rank has all weights, and the optimizer's state of its part of them (ZeRO, stage 1).

In a step each rank updates the parameters that it owns, and sends them to the others. Outside a step the optimizer has
all parameters, so that norms, scalers and changed values see what they see on one worker. torch's
``ZeroRedundancyOptimizer`` makes the optimizer itself, of a class and arguments, and sends pickles between ranks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from asyncsearch.errors import UsageError
from asyncsearch.trainers.torch.gangs.strategy import Ddp


class Zero1(Ddp):
    """The optimizer's state is divided among the ranks."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        self._rank: int = trainer.trial.rank
        self._size: int = trainer.trial.world_size
        self._owners: dict[Any, int] = {}
        self._whole: list[list[Any]] = []
        """The parameters of each group of the optimizer, while it makes a step with those of this rank."""
        self._gathered: tuple[Any, Any] | None = None
        """In rank 0, the states of model and optimizer since the last ``gather``."""
        trainer.trial.gang.before_saving(lambda: self.gather(trainer.net, trainer.opt))

    def attach(self, opt: Any) -> Any:
        if not hasattr(opt, "register_step_post_hook"):
            raise UsageError(
                f"strategy='zero1' needs an optimizer of torch.optim.Optimizer's kind, and optimizer() returned "
                f"{type(opt).__name__}: derive it from that class, or write strategy='ddp'."
            )
        if isinstance(opt, torch.optim.LBFGS):
            raise UsageError(
                "strategy='zero1' divides the optimizer's state by parameters, and LBFGS has one of all of them: write "
                "strategy='ddp'."
            )
        self._owners = owners(_parameters(opt), self._size)
        opt.register_step_pre_hook(lambda opt, *_: self._narrow(opt))
        opt.register_step_post_hook(lambda opt, *_: self._spread(opt))
        return opt

    def forget(self) -> None:
        self._gathered = None

    def model_state(self, net: Any) -> Any:
        return self._saved()[0]

    def optimizer_state(self, opt: Any) -> Any:
        return self._saved()[1]

    def _saved(self) -> tuple[Any, Any]:
        if self._gathered is None:
            raise UsageError(
                "The parts of this model are on several workers, which bring them together where the search saves: "
                "leave save() to trial.epochs(), or train with strategy='ddp'."
            )
        return self._gathered

    def gather(self, net: Any, opt: Any) -> None:
        """Gather the parts of all ranks in rank 0, which saves next; every rank calls it."""
        state = opt.state_dict()
        if self._rank:
            send_state(self._owned(opt, state["state"]), 0, self._group, self._device)
            return
        found = self._owned(opt, state["state"])
        for rank in range(1, self._size):
            found |= receive_state(rank, self._group, self._device)
        self._gathered = net.state_dict(), {**state, "state": dict(sorted(found.items()))}

    def load_optimizer(self, opt: Any, state: Any) -> None:
        opt.load_state_dict(state)
        for parameter in [one for one in opt.state if not self._is_mine(one)]:
            del opt.state[parameter]

    def _owned(self, opt: Any, state: dict[int, Any]) -> dict[int, Any]:
        numbers = enumerate(_parameters(opt))
        return {number: state[number] for number, one in numbers if number in state and self._is_mine(one)}

    def _narrow(self, opt: Any) -> None:
        self._whole = [group["params"] for group in opt.param_groups]
        for group in opt.param_groups:
            group["params"] = list(filter(self._is_mine, group["params"]))

    def _spread(self, opt: Any) -> None:
        for group, whole in zip(opt.param_groups, self._whole, strict=True):
            group["params"] = whole
        parameters = _parameters(opt)
        for rank in range(self._size):
            self._send([one.data for one in parameters if self._owners.get(one, 0) == rank], rank)

    def _send(self, tensors: list[torch.Tensor], rank: int) -> None:
        """Send tensors from one rank to all others, those of a type at once."""
        for kind in dict.fromkeys(one.dtype for one in tensors):
            alike = [one for one in tensors if one.dtype == kind]
            flat = torch.cat([one.reshape(-1) for one in alike])
            dist.broadcast(flat, rank, group=self._group)
            if rank != self._rank:
                _put(alike, flat)

    def _is_mine(self, parameter: Any) -> bool:
        return self._rank == self._owners.get(parameter, 0)


def owners(parameters: Iterable[Any], size: int) -> dict[Any, int]:
    """Return which rank owns each parameter: the largest first, each to the rank that has least."""
    loads, found = [0] * size, {}
    for parameter in sorted(parameters, key=lambda one: -int(one.numel())):
        found[parameter] = loads.index(min(loads))
        loads[found[parameter]] += parameter.numel()
    return found


def _parameters(opt: Any) -> list[Any]:
    return [one for group in opt.param_groups for one in group["params"]]


def _put(tensors: list[torch.Tensor], flat: torch.Tensor) -> None:
    parts = flat.split([one.numel() for one in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view(tensor.shape))


State = dict[int, dict[str, Any]]
"""Number of a parameter -> name -> a tensor or a plain value."""
_PLAIN = (int, float, bool, str, type(None))


def send_state(state: Mapping[int, Mapping[str, Any]], to: int, group: Any, device: torch.device) -> None:
    """Send a state to a rank, which calls ``receive_state``.

    Raises:
        UsageError: it holds something that is neither a tensor nor a plain value.
    """
    named = [(number, name, value) for number, values in state.items() for name, value in values.items()]
    text = json.dumps([[number, name, *_described(name, value)] for number, name, value in named]).encode()
    dist.send(torch.tensor([len(text)], dtype=torch.int64, device=device), to, group=group)
    dist.send(torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device), to, group=group)
    for _, _, value in named:
        if isinstance(value, torch.Tensor) and value.numel():
            dist.send(value.detach().to(device).contiguous(), to, group=group)


def receive_state(rank: int, group: Any, device: torch.device) -> State:
    """Return the state that a rank sends, on the CPU."""
    length = torch.zeros(1, dtype=torch.int64, device=device)
    dist.recv(length, rank, group=group)
    text = torch.empty(int(length), dtype=torch.uint8, device=device)
    dist.recv(text, rank, group=group)
    found: State = {}
    for number, name, kind, value in json.loads(text.cpu().numpy().tobytes()):
        found.setdefault(number, {})[name] = _received(kind, value, rank, group, device) if kind else value
    return found


def _described(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, torch.Tensor):
        return str(value.dtype).removeprefix("torch."), list(value.shape)
    if isinstance(value, _PLAIN):
        return "", value
    raise UsageError(
        f"The optimizer keeps a {type(value).__name__} as {name!r}, and its state is on several workers, which bring "
        "together tensors and numbers only: write strategy='ddp'."
    )


def _received(kind: str, shape: list[int], rank: int, group: Any, device: torch.device) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=getattr(torch, kind), device=device)
    if tensor.numel():
        dist.recv(tensor, rank, group=group)
    return tensor.cpu()
