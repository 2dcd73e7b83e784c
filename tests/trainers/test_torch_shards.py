"""A rank gets of a checkpoint in shards what it keeps, whatever number of ranks has written it."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from asyncsearch.errors import CheckpointError
from asyncsearch.trainers.torch.gangs.shards import SavedTensor, read_checkpoint, shard_file, write_shard

WHOLE = {
    "weight": torch.arange(35.0).reshape(7, 5),
    "wide": torch.arange(24, dtype=torch.float64).reshape(2, 3, 4),
    "one": torch.tensor([3.0]),
}
DIMENSIONS = {"weight": 0, "wide": 2, "one": 0}


@contextlib.contextmanager
def mesh(rank: int, ranks: int) -> Iterator[DeviceMesh]:
    """Give the mesh of one of several ranks, of which the others are not there."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield DeviceMesh("cpu", list(range(ranks)))
    finally:
        dist.destroy_process_group()


def divided_as(name: str, at: DeviceMesh) -> DTensor:
    return distribute_tensor(WHOLE[name], at, [Shard(DIMENSIONS[name])], src_data_rank=None)


def state(model: Mapping[str, Any]) -> dict[str, Any]:
    moments = {number: {"step": torch.tensor(3.0), "exp_avg": one} for number, one in enumerate(model.values())}
    optimizer = {"state": moments, "param_groups": [{"lr": 0.1, "params": list(moments)}]}
    return {"model": {**model, "scale": torch.tensor(2.0)}, "optimizer": optimizer, "counters": "{}"}


def written(folder: Path, ranks: int) -> Path:
    """Write a checkpoint of so many ranks."""
    folder.mkdir()
    for rank in range(ranks):
        with mesh(rank, ranks) as at:
            saved = state({name: divided_as(name, at) for name in WHOLE})
            write_shard(saved, folder / shard_file(rank, ranks), with_rest=rank == 0)
    return folder


def require_equal(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            require_equal(found[name], expected[name])
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    else:
        assert found == expected


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_one_worker_reads_what_it_would_have_written(tmp_path: Path, ranks: int) -> None:
    require_equal(read_checkpoint(written(tmp_path / "c", ranks)), state(WHOLE))


@pytest.mark.parametrize(("ranks", "later"), [(2, 3), (3, 2), (2, 2), (4, 3)])
def test_a_rank_of_another_number_of_ranks_gets_its_part(tmp_path: Path, ranks: int, later: int) -> None:
    saved = read_checkpoint(written(tmp_path / "c", ranks), in_parts=True)["model"]
    for rank in range(later):
        with mesh(rank, later) as at:
            for name in WHOLE:
                now = divided_as(name, at)
                part = saved[name].part_like(now)
                torch.testing.assert_close(part.to_local(), now.to_local(), rtol=0, atol=0)
                assert (part.shape, part.stride(), part.placements) == (now.shape, now.stride(), now.placements)


def test_a_shard_holds_only_the_part_of_its_rank(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    with mesh(1, 4) as at:
        local = torch.zeros(400_000)[100_000:200_000]
        divided = DTensor.from_local(local, at, [Shard(0)], run_check=False)
        write_shard({"model": {"w": divided}}, folder / shard_file(1, 4), with_rest=False)
    assert 400_000 <= (folder / shard_file(1, 4)).stat().st_size < 450_000


def test_a_checkpoint_without_one_of_its_shards_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", 3)
    (folder / shard_file(1, 3)).unlink()
    with pytest.raises(CheckpointError, match=re.escape("shard-1-of-3 missing")):
        read_checkpoint(folder)


def test_parts_that_leave_a_gap_are_refused() -> None:
    tensor = SavedTensor("weight", (4,))
    tensor.add((0,), torch.zeros(2))
    with pytest.raises(CheckpointError, match="Of 4 numbers of weight the shards have 2"):
        tensor.whole()


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["BOMB"],)


def test_a_shard_that_holds_code_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    folder = tmp_path / "c"
    folder.mkdir()
    torch.save({"tensors": {}, "index": "{}", "rest": Bomb()}, folder / shard_file(0, 1))
    with pytest.raises(pickle.UnpicklingError):
        read_checkpoint(folder)
    assert not (tmp_path / "exploded").exists()
