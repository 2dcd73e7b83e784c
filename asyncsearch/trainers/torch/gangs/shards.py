"""Checkpoints of torch in shards, one file of each rank: tensors, and an index in JSON of what part of which each is.

``torch.distributed.checkpoint`` is not used: its ranks send each other pickles, and its index is a pickle, which runs
code where it is read. Its writer of safetensors needs a package more, and sends the same pickles.

A shard is a file of ``torch.save``::

    tensors   key -> the part of a tensor that its rank holds
    index     JSON: ranks, and key -> [shape of the whole tensor, where the part begins]
    rest      of rank 0 alone: all that is not divided, as a checkpoint of one worker has it

A key is the path to the value in a checkpoint of one worker, as a list in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from asyncsearch.errors import CheckpointError
from asyncsearch.trainers.state.torch_state import load_without_code

_FILE = re.compile(r"shard-(\d+)-of-(\d+)")


class TensorPart(NamedTuple):
    """A part of a tensor, which stands in a file until it is used."""

    offsets: tuple[int, ...]
    """Where it begins in each dimension of the whole."""
    values: torch.Tensor


class SavedTensor:
    """A tensor of which several ranks have saved parts."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        """Begin without parts; ``name`` is for messages."""
        self.shape = torch.Size(shape)
        self._parts: list[TensorPart] = []
        self._name = name

    def add(self, offsets: Sequence[int], values: torch.Tensor) -> None:
        """Add the part of a rank."""
        self._parts.append(TensorPart(tuple(offsets), values))

    def whole(self) -> torch.Tensor:
        """Return the whole tensor, on the CPU."""
        return self._box([0] * len(self.shape), self.shape)

    def part_like(self, now: Any) -> Any:
        """Return what a rank keeps of it, divided as a present ``DTensor`` is, and on its device."""
        from torch.distributed.tensor import DTensor

        [chunk] = now.__create_chunk_list__()
        local = self._box(chunk.offsets, chunk.sizes).to(now.device)
        return DTensor.from_local(
            local, now.device_mesh, now.placements, run_check=False, shape=now.shape, stride=now.stride()
        )

    def _box(self, offsets: Sequence[int], sizes: Sequence[int]) -> torch.Tensor:
        """Return a box of it, which begins at some offsets and has some sizes."""
        box = torch.empty(tuple(sizes), dtype=self._parts[0].values.dtype)
        if (filled := sum(_fill(box, offsets, part) for part in self._parts)) != box.numel():
            raise CheckpointError(
                f"Of {box.numel()} numbers of {self._name} the shards have {filled}: the checkpoint is not whole."
                " Delete it and resume the study: what is missing is trained again."
            )
        return box


def shard_file(rank: int, ranks: int) -> str:
    """Return the name of the file of a rank."""
    return f"shard-{rank}-of-{ranks}"


def write_shard(state: Mapping[str, Any], path: Path, *, with_rest: bool) -> None:
    """Write what this rank holds of a state.

    Args:
        state: as one worker saves it, with tensors that are divided.
        path: of the file, whose name is that of ``shard_file``.
        with_rest: whether to write what is not divided, too.
    """
    tensors: dict[str, torch.Tensor] = {}
    index: dict[str, tuple[list[int], list[int]]] = {}
    rest = _without_divided(state, (), tensors, index)
    shard = {"tensors": tensors, "index": json.dumps(index), **({"rest": rest} if with_rest else {})}
    with path.open("wb") as file:
        torch.save(shard, file)


def read_checkpoint(path: Path, device: Any = "cpu", *, in_parts: bool = False) -> dict[str, Any]:
    """Return what a ``TorchTrainer`` has saved, on one worker or in shards.

    Args:
        path: a file, or a folder with a shard of each rank.
        device: where to put tensors.
        in_parts: whether to leave them in the files: those in shards as ``SavedTensor``, of which a rank reads what it
            keeps, and others on the CPU.

    Raises:
        CheckpointError: a shard is missing.
        UsageError: this version of torch could run code from a file.
    """
    if not path.is_dir():
        found: dict[str, Any] = load_without_code(path, device, maps=in_parts)
        return found
    shards = [load_without_code(file, "cpu", maps=True) for file in _files(path)]
    state: dict[str, Any] = shards[0]["rest"]
    for key, tensor in _saved_tensors(shards).items():
        _put(state, json.loads(key), tensor if in_parts else tensor.whole().to(device))
    return state if in_parts else _moved(state, device)


def _files(folder: Path) -> list[Path]:
    """Return the shards in a folder, in the order of their ranks."""
    ranks = {int(found[2]) for one in folder.iterdir() if (found := _FILE.fullmatch(one.name))}
    count = ranks.pop() if len(ranks) == 1 else 0
    files = [folder / shard_file(rank, count) for rank in range(count)]
    missing = [file.name for file in files if not file.is_file()]
    if missing or not files:
        raise CheckpointError(
            f"{str(folder)!r} holds no whole checkpoint in shards: {', '.join(missing) or 'all of them'} missing."
        )
    return files


def _saved_tensors(shards: Sequence[Mapping[str, Any]]) -> dict[str, SavedTensor]:
    found: dict[str, SavedTensor] = {}
    for shard in shards:
        for key, (shape, offsets) in json.loads(shard["index"]).items():
            tensor = found.setdefault(key, SavedTensor(key, shape))
            tensor.add(offsets, shard["tensors"][key])
    return found


def _fill(box: torch.Tensor, offsets: Sequence[int], part: TensorPart) -> int:
    """Copy into a box what a part has of it, and return how many numbers those are."""
    sizes = zip(offsets, box.shape, part.offsets, part.values.shape, strict=True)
    ranges = [(max(at, start), min(at + size, start + length)) for at, size, start, length in sizes]
    if any(start >= stop for start, stop in ranges):
        return 0
    target = box[_within(ranges, offsets)]
    target.copy_(part.values[_within(ranges, part.offsets)])
    return int(target.numel())


def _within(ranges: Sequence[tuple[int, int]], offsets: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(start - at, stop - at) for (start, stop), at in zip(ranges, offsets, strict=True))


def _without_divided(value: Any, path: tuple[Any, ...], tensors: dict[str, Any], index: dict[str, Any]) -> Any:
    """Return a value without the tensors that are divided, whose parts are added to ``tensors`` and ``index``."""
    if isinstance(value, Mapping):
        kept = {name: _without_divided(one, (*path, name), tensors, index) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not _DIVIDED}
    if not hasattr(value, "__create_chunk_list__") or not isinstance(value, torch.Tensor):
        return value
    [chunk] = value.__create_chunk_list__()
    key = json.dumps(path)
    index[key] = list(value.shape), list(chunk.offsets)
    tensors[key] = _alone(value.to_local().detach())
    return _DIVIDED


_DIVIDED = object()


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose file does not hold what lies beside it in memory."""
    is_alone = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if is_alone else tensor.clone()


def _put(state: dict[str, Any], path: Sequence[Any], value: Any) -> None:
    *outer, name = path
    for one in outer:
        state = state.setdefault(one, {})
    state[name] = value


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return {name: _moved(one, device) for name, one in value.items()} if isinstance(value, dict) else value
