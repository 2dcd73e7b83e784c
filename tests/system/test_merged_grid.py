"""The 448 trials of notes/stages.md, section 3, through server, agents and runners."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, GridSearch, Study, Trainer
from asyncsearch.plan.keys import canonical
from asyncsearch.testing.recording import Histories
from asyncsearch.trial import TrialState
from tests.sequences.spaces import RESNET56_EPOCHS, RESNET56_TRIALS, RESNET56_UNIQUE, resnet56_space
from tests.shares import takes_long


def counting(note: Path) -> type[Trainer]:
    """Return a trainer whose state is the history of its values; each unit of each trial is a byte in a file."""

    class Counting(Trainer):
        def setup(self, hp: Mapping[str, Any]) -> None:
            self.hp, self.digest = dict(hp), b""

        def update(self, hp: Mapping[str, Any]) -> None:
            self.hp.update(hp)

        def train(self) -> None:
            self.digest = hashlib.blake2b(self.digest + canonical(self.hp).encode(), digest_size=8).digest()
            file = os.open(note, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, b".")
            os.close(file)

        def evaluate(self) -> dict[str, float]:
            return {"loss": int.from_bytes(self.digest, "big") / 2**64}

        def save(self, path: Path) -> None:
            path.write_bytes(self.digest)

        def load(self, path: Path) -> None:
            self.digest = path.read_bytes()

    return Counting


@takes_long
@pytest.mark.slow
def test_the_grid_of_448_trials_trains_each_distinct_unit_once_end_to_end(tmp_path: Path) -> None:
    study = Study(
        counting(tmp_path / "units"),
        space=resnet56_space(),
        metric="loss",
        mode="min",
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=RESNET56_EPOCHS),
        store=tmp_path / "study",
        backend="processes",
    )
    study.run(parallelism=2, display="none")
    trials = study.trials
    assert (tmp_path / "units").stat().st_size == RESNET56_UNIQUE
    assert [trial.state for trial in trials] == [TrialState.COMPLETED] * RESNET56_TRIALS
    assert sum(trial.trained for trial in trials) == RESNET56_UNIQUE
    assert sum(trial.resource for trial in trials) == RESNET56_TRIALS * RESNET56_EPOCHS
    expected = Histories()
    for trial in trials:
        assert trial.value == expected.value(trial.id, trial.params, RESNET56_EPOCHS)
