"""A Keras trial that goes on in place, one that pauses there, one that is killed and one that never stops end alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import uniform
from asyncsearch.trainable import Trainable
from tests.system.in_place import Dies, Options, require_alike
from tests.trainers.digits_keras import KerasDigits

pytestmark = pytest.mark.slow


def keras_trainer(dies: Dies) -> tuple[Trainable, Options]:
    class Mortal(KerasDigits):
        def evaluate(self) -> dict[str, Any]:
            dies(self.trial, self.trial.resource + 1, "end")
            return super().evaluate()

    return Mortal, {"space": {"lr": uniform(0.01, 0.2), "momentum": 0.9}}


def test_pausing_going_on_in_place_and_dying_end_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_alike(keras_trainer, tmp_path, monkeypatch)
