"""torch's modules, tensors and generators. Its optimizers, schedules and scalers have ``state_dict``."""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state import StateKind


def find_torch(value: Any) -> StateKind | None:
    """Return the kind of a module, tensor or generator."""
    if isinstance(value, torch.nn.Module):
        return _MODULE
    if isinstance(value, torch.Tensor):
        return _TENSOR
    return _GENERATOR if isinstance(value, torch.Generator) else None


def write_tensors(path: Path, tensors: list[Any]) -> None:
    """Write tensors into a file."""
    with path.open("wb") as file:  # given a path, torch would write its name into the file
        torch.save([_alone(tensor.detach()) for tensor in tensors], file)


def read_tensors(path: Path) -> list[Any]:
    """Return the tensors of a file, on the CPU: the device that they were saved on may be missing here."""
    tensors: list[Any] = load_without_code(path, "cpu")
    return tensors


def named(text: str) -> Any:
    """Return a type, layout or memory format by its name, "torch.float32"."""
    return getattr(torch, text.removeprefix("torch."))


def device(text: str) -> Any:
    """Return a device by its name, "cuda:0"."""
    return torch.device(text)


def _alone(tensor: Any) -> Any:
    """Return a tensor that does not keep a larger one, which would be saved with it."""
    if tensor.layout is torch.strided and tensor.untyped_storage().nbytes() > tensor.nbytes:
        return tensor.clone()
    return tensor


def _get_module(module: Any) -> Any:
    weights = module.state_dict()
    return {
        "weights": dict(weights),
        "versions": getattr(weights, "_metadata", None),
        # state_dict() omits buffers registered with persistent=False, which may change in training.
        "buffers": {name: buffer for name, buffer in module.named_buffers() if name not in weights},
        "modes": {name: part.training for name, part in module.named_modules()},
    }


def _put_module(module: Any, state: Any) -> None:
    weights = OrderedDict(state["weights"])
    if state["versions"] is not None:
        weights._metadata = OrderedDict(state["versions"])  # type: ignore[attr-defined]
    module.load_state_dict(weights)
    buffers = dict(module.named_buffers())
    for name, saved in state["buffers"].items():
        if name not in buffers:
            raise UsageError(f"it has no buffer {name!r}, which was saved")
        _put_tensor(buffers[name], saved)
    for name, part in module.named_modules():
        part.training = state["modes"].get(name, part.training)


def _put_tensor(tensor: Any, saved: Any) -> None:
    if (tensor.shape, tensor.dtype) != (saved.shape, saved.dtype):
        raise UsageError(
            f"it is a tensor of {tensor.dtype} of shape {tuple(tensor.shape)}, and {saved.dtype} of shape "
            f"{tuple(saved.shape)} was saved"
        )
    with torch.no_grad():
        tensor.copy_(saved)


_MODULE = StateKind("torch module", _get_module, _put_module)
_TENSOR = StateKind("tensor", lambda value: value, _put_tensor)
_GENERATOR = StateKind("torch generator", lambda value: value.get_state(), lambda value, state: value.set_state(state))


_FIRST_SAFE = (2, 6)
"""Earlier versions run code from a file even with ``weights_only=True``: CVE-2025-32434."""


def load_without_code(path: Path, device: Any, *, maps: bool = False) -> Any:
    """Return the content of a file of ``torch.save``, if it is tensors and plain values.

    Args:
        path: of the file.
        device: where to put tensors.
        maps: whether to read of a tensor only what is used of it, on the CPU; it stands in the file until then.

    Raises:
        UsageError: this version of torch could run code from the file.
    """
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < _FIRST_SAFE:
        raise UsageError(
            f"torch {torch.__version__} can run code that a checkpoint holds, even with weights_only=True"
            " (CVE-2025-32434), so it loads none: pip install 'torch>=2.6'."
        )
    return torch.load(path, map_location="cpu" if maps else device, weights_only=True, mmap=maps or None)
