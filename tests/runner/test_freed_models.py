"""What a training has held is free when it has ended: its process trains the next one in the same memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.events import Outcome
from asyncsearch.runner.protocol import Train
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import Trainer, as_function
from tests.agent.driver import make_stage
from tests.agent.recorder import Recorder
from tests.runner.test_packed_training import NoInterrupts, Pack, Sum

BUILT: list[weakref.ref[Trainer]] = []


class Held(Sum):
    """Is known by whether it is still there."""

    def setup(self, hp: dict[str, Any]) -> None:
        super().setup(hp)
        BUILT.append(weakref.ref(self))


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """A search through all objects takes longer than a short unit, so it does not come after each training."""
    BUILT.clear()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("outcome", "changes"),
    [
        (Outcome.RETURNED, {}),
        (Outcome.REACHED, {"stop": 2, "save": True}),
        (Outcome.STOPPED, {}),
        (Outcome.FAILED, {"params": {"lr": 0.5, "breaks": "train"}}),
    ],
)
def test_a_model_is_free_without_the_garbage_collector(
    tmp_path: Path, outcome: Outcome, changes: dict[str, Any]
) -> None:
    link = Recorder(tmp_path)
    link.told_at = 2 if outcome is Outcome.STOPPED else None
    stage = make_stage(0, **{"stop": 3, "max_resource": 3, "params": {"lr": 0.5}} | changes)
    ended = run_training(as_function(Held), Train((stage,)), link, NoInterrupts(), "accuracy")
    assert ended.outcome is outcome
    assert [model() for model in BUILT] == [None]


def test_the_models_of_a_pack_are_free_when_their_lanes_have_ended(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {}, {"stop": 2, "save": True}, {})
    pack.links[2].told_at = 2
    pack.run_of(Held)
    assert pack.outcomes() == [Outcome.RETURNED, Outcome.REACHED, Outcome.STOPPED]
    assert [model() for model in BUILT] == [None] * 3
