"""Which losses of a trial count together: those in a row at one resource."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from asyncsearch.engine.repeated_failures import after_loss
from asyncsearch.engine.snapshot import decode, encode, restore
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.schedulers import FIFO
from asyncsearch.simulate import Faults, Loss
from asyncsearch.simulate.workloads import Curves
from asyncsearch.trial import TrialState
from tests.engine.tools import make_state, record, replayed

TRAINED = FIFO(max_resource=15)


@pytest.mark.parametrize(
    ("resources", "counts"),
    [
        ([0], [1]),
        ([0, 0, 0], [1, 2, 3]),
        ([0, 4, 4, 5], [1, 1, 2, 1]),
        ([9, 3, 3], [1, 1, 2]),  # it went on from another trial's checkpoint
    ],
)
def test_a_loss_after_progress_counts_from_one_again(resources: list[int], counts: list[int]) -> None:
    losses = None
    counted = []
    for resource in resources:
        losses = after_loss(losses, resource)
        counted.append(losses.count)
    assert counted == counts


def preempted(times: Iterable[float]) -> tuple[StudyState, list[bytes]]:
    """One trial of 15 units of a second, whose only worker is lost at these times for a while."""
    losses = [Loss(WorkerId(0), at_s, 0.1) for at_s in times]
    recorded = record(make_state(TRAINED, max_relaunches=20), 1, 1, workload=Curves(), faults=Faults(losses=losses))
    return recorded.state, recorded.lines


def test_ten_preemptions_with_progress_between_them_fail_no_trial() -> None:
    # It has no checkpoint, so each attempt trains one unit more than the one before until it is lost.
    state, lines = preempted(itertools.accumulate(number + 1.5 for number in range(1, 11)))
    trial = state.trials[0]
    assert (trial.state, trial.resource, trial.losses) == (TrialState.COMPLETED, 15, 10)
    assert replayed(make_state(TRAINED, max_relaunches=20), lines).trials == state.trials
    assert not state.consecutive_losses, "a finished trial has none"


def test_four_losses_in_a_row_without_progress_fail_a_trial_in_words() -> None:
    state, _ = preempted([2.5, 5.1, 7.7, 10.3])
    trial = state.trials[0]
    assert (trial.state, trial.losses) == (TrialState.FAILED, 4)
    assert trial.reason.startswith("4 attempts were lost without progress beyond 2; the last one: worker-0 was lost: ")


def test_a_snapshot_goes_on_counting() -> None:
    def state() -> StudyState:
        return make_state(TRAINED)

    before, after = state(), state()
    before.consecutive_losses = {TrialId(0): after_loss(after_loss(None, 7), 7)}
    snapshot = decode(encode(before, 0))
    assert snapshot is not None
    restore(after, snapshot)
    assert after.consecutive_losses == before.consecutive_losses
