"""A trial on several workers has the results that it has on one, within rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch import ASHA, Study
from asyncsearch.actions import Promote
from asyncsearch.journal.opening import read_records
from asyncsearch.store.base_store import Store
from tests.gangs.searches import digits, grid, linear, results

SIZES = [2, 4]


def promotions(study: Study) -> set[tuple[int, int]]:
    records = read_records(study.store)
    return {(one.trial, one.to_resource) for record in records for one in record.actions if isinstance(one, Promote)}


def weights(store: Store) -> dict[Any, dict[str, torch.Tensor]]:
    """Return the weights of every checkpoint of a store."""
    found = {}
    for checkpoint in store.checkpoints():
        with store.fetch(checkpoint) as folder:
            found[checkpoint] = torch.load(folder / "checkpoint", weights_only=True)["model"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_function_fits_the_same_line_on_every_number_of_workers(tmp_path: Path, size: int) -> None:
    alone = grid(linear(), tmp_path / "alone", None).run(parallelism=1, display="none")
    together = grid(linear(), tmp_path / "together", size).run(parallelism=size, display="none")
    for (units, loss), (expected_units, expected) in zip(results(together), results(alone), strict=True):
        assert units == expected_units
        assert loss == pytest.approx(expected, abs=1e-12, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_trainer_reaches_the_same_weights_and_promotions_on_every_number_of_workers(
    tmp_path: Path, size: int
) -> None:
    scheduler = ASHA(max_resource=9, reduction_factor=3)
    alone = digits(tmp_path / "alone", None, scheduler=scheduler).run(9, parallelism=1, display="none")
    together = digits(tmp_path / "together", size, scheduler=scheduler).run(9, parallelism=size, display="none")
    assert promotions(together) == promotions(alone)
    expected, found = weights(alone.store), weights(together.store)
    assert found.keys() == expected.keys()
    for checkpoint, tensors in found.items():
        for name, tensor in tensors.items():
            torch.testing.assert_close(tensor, expected[checkpoint][name], rtol=0.0, atol=1e-9)
    for one, other in zip(together.trials, alone.trials, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-9)


@pytest.mark.slow
def test_a_configuration_that_is_evaluated_trains_on_as_many_workers(tmp_path: Path) -> None:
    study = digits(tmp_path / "s", 2, scheduler=ASHA(max_resource=9)).run(3, parallelism=2, display="none")
    params = study.trials[0].params
    alone = digits(tmp_path / "alone", None, scheduler=ASHA(max_resource=9)).run(3, parallelism=1, display="none")
    assert study.eval(params, 3)["loss"] == pytest.approx(alone.eval(params, 3)["loss"], abs=1e-9)
