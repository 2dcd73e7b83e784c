"""Sends the state of an optimizer from one rank to another, as a description in JSON and plain tensors.

Nothing is pickled: what comes from the network is never unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from asyncsearch.errors import UsageError

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
