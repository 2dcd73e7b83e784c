"""What users describe in one call answers a call that does not fit, and is otherwise an ordinary class."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from asyncsearch import ASHA, PBT, SHA, Checkpoints, GridSearch, Hyperband, Sharing, WorkerOptions
from asyncsearch.errors import UsageError
from asyncsearch.schedulers.base_scheduler import Scheduler

DESCRIPTIONS = [
    ASHA(max_resource=9),
    SHA(max_resource=9, bracket_size=3),
    PBT(max_resource=8, perturbation_interval=2),
    GridSearch(points=3),
    Sharing(shared="plan", quota_bytes=3),
    WorkerOptions(recycle_after=3),
    Checkpoints(keep_checkpoints=3),
]


@pytest.mark.parametrize("made", DESCRIPTIONS, ids=lambda made: type(made).__name__)
def test_a_description_with_required_arguments_can_be_pickled_and_copied(made: Any) -> None:
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)


@pytest.mark.parametrize("kind", [type(made) for made in DESCRIPTIONS])
def test_help_and_completion_see_the_arguments(kind: type[Any]) -> None:
    names = list(inspect.signature(kind).parameters)
    assert names == list(inspect.signature(kind.__init__).parameters)[1:]
    assert names
    assert not {"args", "kwargs", "self"} & set(names)


def test_a_scheduler_of_ones_own_answers_too() -> None:
    class Mine(Scheduler):
        def __init__(self, factor: int) -> None:
            self.factor = factor

    with pytest.raises(UsageError, match=r"Mine\(\) needs factor=: write Mine\(factor=\.\.\.\)"):
        Mine()  # type: ignore[call-arg, abstract]
    Scheduler.kinds.pop(Mine.kind())


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (PBT, {"max_resource": 9, "interval": 3}, "write perturbation_interval=3."),
        (Hyperband, {"resource": 9}, "write max_resource=... or min_resource=..."),
    ],
)
def test_a_part_of_a_name_is_answered_by_the_names_that_have_it(kind: Any, arguments: Any, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        kind(**arguments)
    assert str(raised.value).endswith(words)
