"""Which checkpoints of finished trials stay: tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.retention import BestTrials, CheckpointSizes, PausedTrials, checkpoint_to_spare

A, B, C, D = (CheckpointRef(NodeKey(name), 3) for name in "abcd")


def given_up(kept: list[CheckpointRef | None], references: dict[CheckpointRef, int]) -> list[CheckpointRef]:
    """Return what is given up, one after another, until nothing is left that may be."""
    keeping = dict(enumerate(kept))
    gone: list[CheckpointRef] = []
    while (
        checkpoint := checkpoint_to_spare([TrialId(n) for n in keeping], keeping.__getitem__, references)
    ) is not None:
        gone.append(checkpoint)
        keeping |= {trial: None for trial, one in keeping.items() if one == checkpoint}
    return gone


@pytest.mark.parametrize(
    ("kept", "references", "expected"),
    [
        pytest.param([], {}, [], id="nobody is there"),
        pytest.param([A], {A: 1}, [], id="the best one keeps its own"),
        pytest.param([A, B, C], {A: 1, B: 1, C: 1}, [C, B], id="the worst gives up first"),
        pytest.param([A, B, C], {A: 1, B: 1, C: 2}, [B], id="one that somebody else would go on from stays"),
        pytest.param([A, B, A], {A: 2, B: 1}, [B], id="one that the best one has too stays"),
        pytest.param([A, B, C, B], {A: 1, B: 2, C: 1}, [B, C], id="one that two finished trials keep goes with both"),
        pytest.param([None, B, C], {B: 1, C: 1}, [C, B], id="the best one's was damaged"),
    ],
)
def test_the_worst_finished_trials_give_up_what_nobody_else_needs(
    kept: list[CheckpointRef | None], references: dict[CheckpointRef, int], expected: list[CheckpointRef]
) -> None:
    assert given_up(kept, references) == expected


def test_a_stock_weighs_durable_content_once_and_is_over_beyond_its_quota() -> None:
    stock = CheckpointSizes(100)
    stock.put(A, 60)
    stock.put(B, 40)
    assert not stock.is_over
    stock.put(B, 41)
    assert (stock.total_bytes, stock.is_over) == (101, True)
    stock.take(A)
    stock.take(A)
    assert (stock.total_bytes, stock.sizes) == (41, {B: 41})
    again = CheckpointSizes(100)
    again.restore(stock.sizes)
    assert again.total_bytes == 41


def test_without_a_quota_no_size_is_too_much() -> None:
    stock = CheckpointSizes(None)
    stock.put(A, 10**12)
    assert (stock.sizes, stock.is_over) == ({A: 10**12}, False)


def test_the_worst_paused_trial_of_the_lowest_resource_is_asked_first() -> None:
    paused = PausedTrials()
    for number, (resource, score) in enumerate([(3, 0.9), (1, 0.2), (1, 0.8), (1, 0.8), (1, None)]):
        paused.add(TrialId(number), resource, score)
    there = set(range(5))

    def given_up() -> Iterator[int]:
        while (found := paused.first(lambda trial, _: trial in there, lambda trial: trial != 1)) is not None:
            there.remove(found)
            yield found

    assert list(given_up()) == [4, 3, 2, 0]


def test_of_thousands_of_paused_trials_a_few_are_asked() -> None:
    paused = PausedTrials()
    asked: list[TrialId] = []

    def may_go(trial: TrialId) -> bool:
        asked.append(trial)
        return False

    for number in range(10_000):
        paused.add(TrialId(number), 3 ** (number % 5), float(number))
    for _ in range(3):
        asked.clear()
        assert paused.first(lambda *_: True, may_go) is None
        assert len(asked) <= 5 * 8


def test_a_trial_that_gave_its_checkpoint_up_leaves_its_place_to_others() -> None:
    best = BestTrials(2)
    for trial, score in enumerate([0.1, 0.2]):
        assert best.offer(TrialId(trial), score) is None
    best.remove({TrialId(1)})
    assert best.offer(TrialId(2), 0.3) is None
    assert best.trials() == [0, 2]
