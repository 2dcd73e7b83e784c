"""Code of a user that is called once for all members of a stack: a step that is not that of each is refused."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from asyncsearch.errors import UsageError
from asyncsearch.packing.member import Member
from asyncsearch.packing.step_failures import StepWatch
from asyncsearch.packing.unit_generators import outside_states


def watch_of(model: nn.Module) -> StepWatch:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return StepWatch(model, [Member(model, optimizer, lambda model, batch: model(batch).sum())])


@pytest.mark.parametrize("draws", [random.random, np.random.random], ids=["python", "numpy"])
def test_a_step_that_draws_outside_torch_is_refused_and_draws_nothing(draws: Callable[[], float]) -> None:
    watch, before = watch_of(nn.Linear(2, 1)), outside_states()
    with pytest.raises(UsageError, match="draws from the generator"), watch.watching():
        draws()
    assert outside_states() == before
    assert watch.is_spoiled


def test_a_step_that_changes_the_shared_models_attribute_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU())
    watch = watch_of(model)
    with pytest.raises(UsageError, match=r"1\.inplace"), watch.watching():
        model[1].inplace = True
    assert watch.is_spoiled


def test_a_step_that_fails_leaves_the_generators_as_they_were() -> None:
    watch, before = watch_of(nn.Linear(2, 1)), outside_states()
    with pytest.raises(ZeroDivisionError), watch.watching():
        _ = random.random() / 0
    assert outside_states() == before


def test_a_step_that_computes_only_is_not_refused() -> None:
    model = nn.Linear(2, 1)
    watch = watch_of(model)
    with watch.watching():
        model(torch.ones(1, 2)).sum().backward()
    assert not watch.is_spoiled
