"""The workload whose optimum is known."""

from __future__ import annotations

import statistics

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId
from asyncsearch.sequences import multistep, values
from asyncsearch.simulate import NoisyQuadratic

TRIAL = TrialId(0)


def greedy(workload: NoisyQuadratic, noise: float, units: int) -> list[float]:
    rates, loss = [], 1.0
    for _ in range(units):
        rates.append(loss / (loss + noise))
        loss = (1 - rates[-1]) ** 2 * loss + rates[-1] ** 2 * noise
    return rates


@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_the_optimum_is_reached_by_the_best_schedule_and_no_constant(noise: float) -> None:
    workload = NoisyQuadratic(dimensions=0, gradient_noise=noise)
    best = values(greedy(workload, noise, 50), milestones=list(range(1, 50))).to_json()
    assert workload.loss(best, 50) == pytest.approx(workload.optimum(50))
    lr, loss = workload.best_constant(50)
    assert loss > workload.optimum(50)
    assert all(workload.loss(lr * factor, 50) > loss for factor in (0.5, 0.99, 1.01, 2.0) if lr * factor < 1)


def test_a_sequence_that_never_changes_costs_what_the_constant_does() -> None:
    workload = NoisyQuadratic(gradient_noise=0.5)
    sequence = multistep(0.1, milestones=[7], gamma=1.0).to_json()
    for resource in (1, 7, 8, 20):
        assert workload.loss(sequence, resource) == pytest.approx(workload.loss(0.1, resource))


def test_a_sequence_counts_from_the_unit_in_which_it_changes() -> None:
    workload = NoisyQuadratic(dimensions=0)
    sequence = multistep(0.5, milestones=[3], gamma=0.1).to_json()
    assert workload.loss(sequence, 3) == pytest.approx(workload.loss(0.5, 3))
    assert workload.loss(sequence, 4) > workload.loss(0.5, 4)


def test_learning_curves_cross() -> None:
    workload = NoisyQuadratic(gradient_noise=1.0)
    assert workload.loss(0.5, 2) < workload.loss(0.05, 2)
    assert workload.loss(0.5, 80) > workload.loss(0.05, 80)


def test_noise_is_that_of_a_report_and_the_same_each_time() -> None:
    quiet, noisy = NoisyQuadratic(), NoisyQuadratic(report_noise=0.1, seed=1)
    params = {"lr": 0.1, "x0": 0.5}
    found = [
        noisy.value(TrialId(trial), params, resource) - quiet.value(TRIAL, params, resource)
        for trial in range(60)
        for resource in range(1, 40)
    ]
    assert statistics.fmean(found) == pytest.approx(0.0, abs=0.01)
    assert statistics.stdev(found) == pytest.approx(0.1, rel=0.05)
    assert len(set(found)) == len(found)
    assert noisy.value(TRIAL, params, 1) == noisy.value(TRIAL, params, 1)
    assert noisy.value(TRIAL, params, 1) != NoisyQuadratic(report_noise=0.1, seed=2).value(TRIAL, params, 1)


def test_each_number_is_best_at_its_place_also_where_it_changes_on_the_way() -> None:
    workload = NoisyQuadratic(dimensions=2)
    base = workload.loss(0.1, 5)
    assert workload.value(TRIAL, {"lr": 0.1, "x0": 0.3, "x1": 0.3}, 5) == pytest.approx(base)
    changed = {"lr": 0.1, "x0": values([0.8, 0.3], milestones=[4]).to_json(), "x1": 0.3}
    assert workload.value(TRIAL, changed, 4) == pytest.approx(workload.loss(0.1, 4) + 0.25)
    assert workload.value(TRIAL, changed, 5) == pytest.approx(base)


@pytest.mark.parametrize(
    "values", [{"dimensions": -1}, {"report_noise": -0.1}, {"gradient_noise": 0.0}, {"unit_s": 0.0}]
)
def test_what_cannot_be_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(values))):
        NoisyQuadratic(**values)  # type: ignore[arg-type]
