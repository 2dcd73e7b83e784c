"""Schedulers as JSON values: what is written beside a study, so that it can be looked at without unpickling."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler, from_options, options_of


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
