"""The line of samples: each sample once an epoch, in an order that depends on seed and epoch alone."""

from __future__ import annotations

import numpy as np
import pytest

from asyncsearch.trainers.sample_order import Indices, batches, permutation

SIZE = 100


def order(epoch: int) -> Indices:
    return permutation(7, epoch, SIZE)


def line(start: int, stop: int, batch_size: int, drop_last: bool = False) -> list[int]:
    found = batches(order, SIZE, start, stop, batch_size, drop_last=drop_last)
    return [index for _, indices in found for index in indices.tolist()]


def test_the_order_of_an_epoch_never_changes_between_releases() -> None:
    assert permutation(0, 0, 10).tolist() == [8, 3, 2, 5, 4, 1, 7, 9, 0, 6]


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = {tuple(permutation(seed, epoch, SIZE)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9
    assert all(sorted(order) == list(range(SIZE)) for order in orders)


@pytest.mark.parametrize("batch_size", [1, 7, 32, 100])
def test_an_epoch_has_each_sample_once_whatever_the_batch_size(batch_size: int) -> None:
    assert line(0, SIZE, batch_size) == order(0).tolist()
    assert line(SIZE, 2 * SIZE, batch_size) == order(1).tolist()


def test_a_batch_size_changed_inside_an_epoch_keeps_permutation_and_offset() -> None:
    """Trap 4 of notes/stages.md, section 2.4."""
    assert line(0, 70, 16) + line(70, 140, 8) + line(140, 200, 32) == [*order(0).tolist(), *order(1).tolist()]


def test_a_batch_ends_where_the_epoch_ends_and_where_the_unit_ends() -> None:
    found = [(at, len(indices)) for at, indices in batches(order, SIZE, 70, 140, 16)]
    assert found == [(70, 16), (86, 14), (100, 16), (116, 16), (132, 8)]


@pytest.mark.parametrize("start", [0, 33, 57, 66, 99])
@pytest.mark.parametrize("unit", [2, 3, 33, 57, 100, 101, 201])
@pytest.mark.parametrize("batch_size", [2, 3, 4, 8, 32])
def test_no_batch_has_a_single_sample_and_each_sample_stays_at_its_place(
    start: int, unit: int, batch_size: int
) -> None:
    found = list(batches(order, SIZE, start, start + unit, batch_size))
    assert {len(indices) for _, indices in found} <= set(range(2, max(batch_size, 3) + 1))
    everything = np.concatenate([order(epoch) for epoch in range(5)])
    assert np.array_equal(np.concatenate([indices for _, indices in found]), everything[start : start + unit])
    ends = [at + len(indices) for at, indices in found]
    assert [start, *ends] == [*(at for at, _ in found), start + unit]


def test_the_last_two_batches_share_what_would_leave_one_sample() -> None:
    def sizes(start: int, stop: int, batch_size: int) -> list[int]:
        return [len(indices) for _, indices in batches(order, SIZE, start, stop, batch_size)]

    assert sizes(0, 57, 8) == [8, 8, 8, 8, 8, 8, 5, 4]
    assert sizes(99, 132, 8) == [5, 4, 8, 8, 8]  # the last sample of the epoch goes with the next epoch's first ones
    assert sizes(0, 101, 32) == [32, 32, 32, 5]
    assert sizes(0, 5, 2) == [2, 3]
    assert sizes(0, 3, 1) == [1, 1, 1]
    assert sizes(0, 1, 8) == [1]


def test_drop_last_leaves_out_the_tail_and_counts_it() -> None:
    found = [at for at, _ in batches(order, SIZE, 0, 200, 32, drop_last=True)]
    assert found == [0, 32, 64, 100, 132, 164]


def test_the_indices_are_integers_that_every_framework_takes() -> None:
    assert order(0).dtype == np.int64
