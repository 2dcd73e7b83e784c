"""Whatever the hooks of a Keras trainer draw, read and change, it trains packed, alone and resumed as one training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from tests.shares import takes_long  # noqa: E402  # after the check for tensorflow
from tests.trainers.keras_pack_trainers import begin_unit, difference, gap, trainer  # noqa: E402  # needs tensorflow
from tests.trainers.random_keras_trainers import random_trainer  # noqa: E402
from tests.trainers.tools import Run, Trial, stir  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_precision")
FEW, MANY = range(1), range(1, 60)
SMALL = 1e-9


@pytest.mark.parametrize("seed", FEW)
def test_random_trainers_train_together_as_alone_and_resumed(seed: int, tmp_path: Path) -> None:
    require_one_training(seed, tmp_path / str(seed))


@takes_long
@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_more_random_trainers_train_together_as_alone_and_resumed(seed: int, tmp_path: Path) -> None:
    require_one_training(seed, tmp_path / str(seed))


def require_one_training(seed: int, folder: Path) -> None:
    kind, members = random_trainer(seed)
    folder.mkdir()
    words = f"seed {seed}, {dict(kind.choices)}"
    stir()
    packed = [trainer(kind, *units) for units in members]
    for one in packed:
        with one._own_generators():
            pass
    reports = [together(packed, folder / f"packed-{unit}") for unit in range(len(members[0]))]
    for row, units in enumerate(members):
        alone = Alone(kind, units, folder / f"alone-{row}")
        for unit, report in enumerate(reports):
            found = alone.train()
            assert gap(found, report[row]) < SMALL, f"{words}: member {row} at unit {unit}: {found} and {report[row]}"
        assert difference(alone.trainer, packed[row]) < SMALL, f"{words}: member {row}"
    if kind.choices["update"] != "draws":  # between two units, which are seeded, as the page on trainers says
        require_resumable(kind, members[-1], folder, words)


def together(trainers: list[Any], folder: Path) -> list[Mapping[str, Any]]:
    """Train a unit as a packed work does."""
    kind = type(trainers[0])
    for one in trainers:
        with one._own_generators():
            begin_unit(one)
    kind.train_pack(trainers)
    found = list(kind.evaluate_pack(trainers))
    folder.mkdir()
    for row, one in enumerate(trainers):
        one.trial.resource += 1
        with one._own_generators():
            one.save(folder / str(row))
    return found


class Alone:
    """A trainer alone, without traces: what it computes is what is written."""

    def __init__(self, kind: type[Any], units: list[dict[str, Any]], folder: Path) -> None:
        stir()
        self.trainer, self._folder = trainer(kind, *units), folder
        folder.mkdir()

    def train(self) -> Mapping[str, Any]:
        one = self.trainer
        tf.config.run_functions_eagerly(True)
        try:
            begin_unit(one)
            one.train()
            found: Mapping[str, Any] = one.evaluate()
            one.trial.resource += 1
            one.save(self._folder / str(one.trial.resource))
        finally:
            tf.config.run_functions_eagerly(False)
        return found


def require_resumable(kind: type[Any], units: list[dict[str, Any]], folder: Path, words: str) -> None:
    whole = Run(kind, Trial(units)).train(1)
    whole.save(folder / "cut")
    whole.train(3)
    resumed = Run(kind, Trial(units), 1, folder / "cut").train(3)
    assert whole.reports[1:] == resumed.reports, f"{words}: resumed"
