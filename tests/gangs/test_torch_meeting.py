"""PyTorch's process groups: how ranks meet and agree, which errors say that one is gone, which backends there are."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from asyncsearch import FIFO
from asyncsearch.errors import RankLostError, UsageError
from asyncsearch.trainable import TrialStopped
from asyncsearch.trainers.ranks import PROOF_BYTES, secret_of
from asyncsearch.trainers.torch.gangs import meeting
from asyncsearch.trainers.torch.gangs.connection import GroupConnection, is_lost_rank, open_group, open_lone_group
from asyncsearch.trainers.torch.gangs.meeting import GangStore, require_members
from tests.gangs.ranks import Rank, Seat, in_threads, ranks_of
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


class NoGang:
    """A gang of which nothing may be asked before the backend is known to be possible; ranks 0 and 1 are to meet."""

    def connected(self, kind: type[Any], connect: Callable[[], Any]) -> Any:
        return connect()

    def __getattr__(self, name: str) -> Any:
        if name == "seat":
            return Seat(0, 2)
        raise AssertionError(f"{name} was used")


@pytest.mark.parametrize(("backend", "words"), [("nccl", "needs a GPU, and this worker sees none"), ("mpi", "unknown")])
def test_a_backend_that_cannot_be_is_refused_before_the_ranks_meet(
    monkeypatch: pytest.MonkeyPatch, backend: str, words: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=words):
        open_group(NoGang(), backend)
    with pytest.raises(UsageError, match=words):
        open_lone_group(backend, keep=lambda connection: None)
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


def group_of(rank: Rank, store: dist.Store | None = None) -> Any:
    """Return a process group of gloo, whose ranks may be threads: the default group is one of the process."""
    store = GangStore(rank) if store is None else store
    group = dist.ProcessGroup(dist.PrefixStore("group", store), rank.seat.rank, rank.seat.size)
    made = dist.ProcessGroupGloo(store, rank.seat.rank, rank.seat.size, datetime.timedelta(seconds=60))
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, made)
    return group


def met(rank: Rank) -> GroupConnection:
    secret, group = secret_of(rank), group_of(rank)
    require_members(rank, secret, group)
    return GroupConnection(group, "gloo")


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_meet_through_the_driver_and_listen_on_no_port_of_a_store(size: int) -> None:
    ranks = ranks_of(size)
    groups = [one.result().group for one in in_threads([functools.partial(met, rank) for rank in ranks])]
    sums = [torch.tensor([1.0 + rank.seat.rank]) for rank in ranks]
    for work in [group.allreduce([one]) for group, one in zip(groups, sums, strict=True)]:
        work.wait()
    assert {float(one) for one in sums} == {sum(range(1, size + 1))}
    assert {key for _, key in ranks[0]._board.told} >= {"gang secret"}


@pytest.mark.parametrize("data", [b"", b"stop", bytes(range(256)) * 1000], ids=len)
def test_all_ranks_get_the_bytes_of_rank_0(data: bytes) -> None:
    ranks: Any = ranks_of(3)
    connections = [one.result() for one in in_threads([functools.partial(met, rank) for rank in ranks])]
    calls = [
        functools.partial(connection.pass_on, b"" if number else data) for number, connection in enumerate(connections)
    ]
    assert [one.result() for one in in_threads(calls)] == [data] * 3


@pytest.mark.parametrize("sends", [bytes(PROOF_BYTES), None], ids=["something else", "nothing"])
def test_a_stranger_in_the_place_of_a_rank_is_found_out(monkeypatch: pytest.MonkeyPatch, sends: bytes | None) -> None:
    if sends is None:
        monkeypatch.setattr(meeting, "PATIENCE_S", 0.5)
    member, stranger = ranks_of(2)

    def pretend() -> Any:
        group = group_of(stranger)
        if sends is not None:
            group.send([torch.frombuffer(bytearray(sends), dtype=torch.uint8)], 0, 0).wait()
        return group

    ends = in_threads([functools.partial(met, member), pretend])
    with pytest.raises(RankLostError, match="in the place of rank 1" if sends else "has not proved itself"):
        ends[0].result()


def test_a_rank_that_waits_for_the_others_to_meet_is_stopped_with_its_gang() -> None:
    class Ended(Rank):
        def await_value(self, rank: int | None, key: str) -> str:
            raise TrialStopped("the training of its gang has ended")

    with pytest.raises(TrialStopped, match="has ended"):
        group_of(Ended(ranks_of(2)[0]._board, Seat(0, 2)))


def test_what_torch_would_count_in_the_store_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="leave out TORCH_DIST_INIT_BARRIER"):
        GangStore(ranks_of(2)[0]).add("barrier", 1)
