"""Tests of trials on several workers, and the searches on one worker with which they compare. They need torch."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from asyncsearch import ASHA, Study
from tests.gangs.searches import NUMBERS, digits, grid, linear


@pytest.fixture(scope="module", autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    """Fork the ranks with their framework imported, where no test looks for processes by their variables."""
    if request.path.name != "test_lost_ranks.py":
        request.getfixturevalue("keras_workers" if request.path.name == "test_keras.py" else "torch_workers")


@pytest.fixture(scope="session")
def line_alone(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The function ``linear`` of ``NUMBERS`` numbers, each trained to the end."""
    made = grid(linear(), tmp_path_factory.mktemp("line"), None, NUMBERS, backend="inline")
    return made.run(display="none")


@pytest.fixture(scope="session")
def promoted_lines_alone(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Six numbers of the function ``linear``, of which ASHA promotes some."""
    made = grid(linear(), tmp_path_factory.mktemp("lines"), None, 6, backend="inline", scheduler=ASHA(max_resource=9))
    return made.run(display="none")


@pytest.fixture(scope="session")
def digits_alone(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Nine trials of the trainer ``Digits``, of which ASHA promotes some."""
    made = digits(tmp_path_factory.mktemp("digits"), None, backend="inline", scheduler=ASHA(max_resource=9))
    return made.run(9, display="none")


@pytest.fixture(scope="session")
def keras_digits_alone(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Three trials of the trainer ``KerasDigits``."""
    from tests.gangs.keras_searches import keras_alone, keras_study

    scheduler = ASHA(max_resource=4, reduction_factor=2)
    return keras_alone(keras_study(tmp_path_factory.mktemp("keras"), None, scheduler=scheduler, backend="inline"), 3)
