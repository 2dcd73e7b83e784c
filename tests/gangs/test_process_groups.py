"""PyTorch's process groups: which errors say that another rank is gone, and which backends there are."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from asyncsearch import FIFO
from asyncsearch.errors import UsageError
from asyncsearch.trainers.torch.gangs.process_groups import is_lost_rank, open_group, open_lone_group
from tests.gangs.searches import grid, linear


def summed(group: Any) -> None:
    group.allreduce([torch.ones(2)]).wait()


def error_of_a_rank_whose_neighbour_is_gone() -> Exception:
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as ranks:
        groups = list(ranks.map(lambda rank: dist.ProcessGroupGloo(store, rank, 2, datetime.timedelta(60)), (0, 1)))
        list(ranks.map(summed, groups))
    del groups[1]
    with pytest.raises(RuntimeError) as caught:
        summed(groups[0])
    return caught.value


def test_gloos_error_for_a_lost_rank_differs_from_a_trials_of_equal_words() -> None:
    by_gloo = error_of_a_rank_whose_neighbour_is_gone()
    assert is_lost_rank(by_gloo)
    for words in ("Connection closed by peer", "Connection reset by peer", "Broken pipe"):
        assert words in str(by_gloo) or not is_lost_rank(RuntimeError(str(by_gloo).rpartition("] ")[2]))
        assert not is_lost_rank(RuntimeError(f"the loader has ended: {words}"))
        assert not is_lost_rank(BrokenPipeError(words))


def test_so_is_what_torch_raises_where_the_ranks_meet_and_between_gpus() -> None:
    assert is_lost_rank(dist.DistNetworkError("failed to recv, got 0 bytes"))
    assert is_lost_rank(dist.DistBackendError("ncclRemoteError: a remote process exited"))
    assert not is_lost_rank(dist.DistBackendError("ncclInvalidUsage: two ranks on one GPU"))


class Alone:
    """A rank whose others never come."""

    seat: Any = SimpleNamespace(rank=0, size=2, host="127.0.0.1")

    def tell(self, key: str, value: str) -> None:
        raise AssertionError("the others were told a place")

    def await_value(self, rank: int, key: str) -> str:
        raise AssertionError("it has waited for the others")


@pytest.mark.parametrize(("backend", "words"), [("nccl", "needs a GPU, and this worker sees none"), ("mpi", "unknown")])
def test_a_backend_that_cannot_be_is_refused_before_the_ranks_meet(
    monkeypatch: pytest.MonkeyPatch, backend: str, words: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=words):
        open_group(Alone(), backend)
    with pytest.raises(UsageError, match=words):
        open_lone_group(backend)
    assert not dist.is_initialized()


def test_a_search_in_process_leaves_no_group_and_the_users_own_untouched(tmp_path: Path) -> None:
    one_unit = {"backend": "inline", "scheduler": FIFO(max_resource=1)}
    grid(linear(), tmp_path / "none", None, 2, **one_unit).run(display="none")
    assert not dist.is_initialized()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        own = dist.group.WORLD
        grid(linear(), tmp_path / "own", None, 2, **one_unit).run(display="none")
        assert dist.is_initialized()
        assert dist.group.WORLD is own
    finally:
        dist.destroy_process_group()
