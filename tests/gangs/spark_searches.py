"""The cases that are tried on each kind of Spark cluster: what trains, and on how many workers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from asyncsearch import ASHA, Study
from asyncsearch.store.base_store import Store
from tests.gangs.searches import digits, digits_weights, grid, line_weights, linear, require_same

ALIKE: dict[str, Any] = {"backend": "spark", "scheduler": ASHA(max_resource=9)}


class Case(NamedTuple):
    size: int
    """Workers of a trial; one trains at a time, so that ASHA sees the same order of reports."""
    together: Callable[[Path, int], Study]
    """Makes the study on Spark."""
    alone: str
    """The fixture with the study on one worker."""
    trials: int | None
    weights: Callable[[Store], Mapping[Any, Mapping[str, Any]]]


def keras_digits(store: Path, size: int) -> Study:
    import_keras()
    from tests.gangs.keras_searches import keras_study

    return keras_study(store, size, backend="spark", scheduler=ASHA(max_resource=4, reduction_factor=2))


def keras_weights(store: Store) -> Any:
    from tests.gangs.keras_searches import keras_weights as found

    return found(store)


def import_keras() -> None:
    """Import TensorFlow and Keras, or skip the test."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with contextlib.suppress(ImportError):
        import torch._inductor  # noqa: F401  # before TensorFlow: the other way round, its LLVM ends the process
    pytest.importorskip("tensorflow")
    pytest.importorskip("keras")


def lines(store: Path, size: int) -> Study:
    return grid(linear(), store, size, 6, **ALIKE)


def trainer(store: Path, size: int) -> Study:
    return digits(store, size, **ALIKE)


CASES = {
    "trainer on 4": Case(4, trainer, "digits_alone", 9, digits_weights),
    "trainer on 2": Case(2, trainer, "digits_alone", 9, digits_weights),
    "function on 4": Case(4, lines, "promoted_lines_alone", None, line_weights),
    "function on 2": Case(2, lines, "promoted_lines_alone", None, line_weights),
    "Keras on 2": Case(2, keras_digits, "keras_digits_alone", 3, keras_weights),
}


def require_case(name: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Run a case on the Spark session that there is, and require what one worker reaches."""
    case = CASES[name]
    expected = request.getfixturevalue(case.alone)
    study = case.together(folder / "s", case.size).run(case.trials, parallelism=case.size, display="none")
    require_same(study, expected, case.weights)
