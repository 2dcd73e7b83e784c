"""A trial on several workers has the results that it has on one, within rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch import ASHA
from asyncsearch.store.base_store import Store
from asyncsearch.trainers.torch_shards import read_checkpoint
from tests.gangs.searches import digits, grid, linear, require_same, results

SIZES = [2, 4]


def weights(store: Store) -> dict[Any, dict[str, torch.Tensor]]:
    """Return the weights of every checkpoint of a store."""
    found = {}
    for checkpoint in store.checkpoints():
        with store.fetch(checkpoint) as folder:
            found[checkpoint] = read_checkpoint(folder / "checkpoint")["model"]
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
    require_same(together, alone, weights)


@pytest.mark.slow
def test_a_configuration_that_is_evaluated_trains_on_as_many_workers(tmp_path: Path) -> None:
    study = digits(tmp_path / "s", 2, scheduler=ASHA(max_resource=9)).run(3, parallelism=2, display="none")
    params = study.trials[0].params
    alone = digits(tmp_path / "alone", None, scheduler=ASHA(max_resource=9)).run(3, parallelism=1, display="none")
    assert study.eval(params, 3)["loss"] == pytest.approx(alone.eval(params, 3)["loss"], abs=1e-9)
