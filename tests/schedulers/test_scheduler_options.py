"""Schedulers as JSON values: what is written beside a study, so that it can be looked at without unpickling."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler, from_options, options_of

DESCRIBED: dict[str, tuple[Scheduler, Scheduler]] = {
    "FIFO(max_resource=27): every trial trains to 27": (FIFO(max_resource=27), FIFO(max_resource=28)),
    "FIFO(): every trial trains until its function returns": (FIFO(), FIFO(max_resource=1)),
    "ASHA(max_resource=81, reduction_factor=4, finish_best=True): rungs at 1, 5, 20, 81": (
        ASHA(max_resource=81, reduction_factor=4, finish_best=True),
        ASHA(max_resource=81),
    ),
    "ASHA(max_resource=9, reduction_factor=3, variant='stopping'): rungs at 1, 3, 9": (
        ASHA(max_resource=9, variant="stopping"),
        ASHA(max_resource=9),
    ),
    "SHA(max_resource=27, reduction_factor=3, bracket_size=27): rungs at 1, 3, 9, 27": (
        SHA(max_resource=27, bracket_size=27),
        SHA(max_resource=27),
    ),
    "SHA(max_resource=9, reduction_factor=3): rungs at 1, 3, 9": (SHA(max_resource=9), SHA(max_resource=27)),
    "Hyperband(max_resource=81, reduction_factor=3, brackets=(5, 4)): brackets from 1, 3 to 81": (
        Hyperband(max_resource=81, brackets=[5, 4]),
        Hyperband(max_resource=81),
    ),
    "Hyperband(max_resource=81, min_resource=9, reduction_factor=3, brackets=1, variant='rounds'): "
    "one bracket from 9 to 81": (
        Hyperband(max_resource=81, min_resource=9, brackets=1, variant="rounds"),
        Hyperband(max_resource=81, min_resource=9, brackets=1),
    ),
    "MedianStopping(max_resource=81, min_resource=1, min_trials=5, interval=3): trials are judged at 1, 4, 7, ...": (
        MedianStopping(max_resource=81, interval=3),
        MedianStopping(max_resource=81),
    ),
    "PBT(max_resource=12, perturbation_interval=4, perturb=['x'], population=8, factors=(0.5, 2)): "
    "compares every 4, up to 12": (
        PBT(max_resource=12, perturbation_interval=4, perturb=["x"], population=8, factors=[0.5, 2]),
        PBT(max_resource=12, perturbation_interval=4),
    ),
    "PBT(max_resource=12, perturbation_interval=4): compares every 4, up to 12": (
        PBT(max_resource=12, perturbation_interval=4),
        PBT(max_resource=12, perturbation_interval=3),
    ),
}
"""Description -> a scheduler, and another one."""


@pytest.mark.parametrize("words", DESCRIBED)
def test_a_scheduler_is_plain_data_that_describes_itself(words: str) -> None:
    scheduler, another = DESCRIBED[words]
    assert scheduler.describe() == words
    assert eval(repr(scheduler)) == scheduler == pickle.loads(pickle.dumps(scheduler)) != another
    assert hash(eval(repr(scheduler))) == hash(scheduler)
    with pytest.raises(AttributeError):
        scheduler.max_resource = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "scheduler",
    [
        FIFO(),
        ASHA(),
        ASHA(max_resource=81, min_resource=3, variant="stopping"),
        ASHA(max_resource=81, finish_best=True),
        SHA(max_resource=27, min_resource=3, bracket_size=9),
        Hyperband(max_resource=81, variant="synchronous"),
        Hyperband(max_resource=81, brackets=(4, 2)),
        MedianStopping(min_trials=2, interval=3),
        PBT(max_resource=9, perturbation_interval=3),
        PBT(max_resource=9, perturbation_interval=3, population=4, perturb=["lr"], factors=(0.5, 2), synchronous=True),
    ],
    ids=lambda scheduler: scheduler.describe(),
)
def test_a_scheduler_comes_back_from_its_options_as_it_was(scheduler: Scheduler) -> None:
    assert from_options(json.loads(json.dumps(options_of(scheduler)))) == scheduler


def test_numbers_of_numpy_are_written_as_plain_ones() -> None:
    scheduler = PBT(max_resource=9, perturbation_interval=3, quantile=np.float64(0.25), factors=(np.float64(0.5), 2))
    assert from_options(msgspec.json.decode(msgspec.json.encode(options_of(scheduler)))) == scheduler


class Mine(ASHA):
    """Has the options of another one, and decides otherwise."""


@dataclass(frozen=True)
class Limited(FIFO):
    """Has a limit that JSON may not be able to write."""

    limit: object = None


def test_a_scheduler_that_a_user_wrote_comes_back_with_its_own_class() -> None:
    for scheduler in (Mine(max_resource=9), Limited(max_resource=9, limit=[1, "two"])):
        made = from_options(options_of(scheduler))
        assert made == scheduler
        assert type(made) is type(scheduler)


@pytest.mark.parametrize("limit", [len, math.nan, (1, 2), {3: 4}])
def test_what_json_does_not_say_wholly_has_no_options(limit: object) -> None:
    assert options_of(Limited(limit=limit)) is None


@pytest.mark.parametrize(
    "options",
    [
        None,
        {},
        {"kind": "Mine"},
        {"kind": "ASHA", "max_resource": 0},
        {"kind": "SHA"},
        {"kind": "ASHA", "of_a_later_version": True},
    ],
)
def test_options_that_this_version_does_not_know_are_no_error(options: dict[str, Any] | None) -> None:
    assert from_options(options) is None
