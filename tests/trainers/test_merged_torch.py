"""A search in torch that trains once what its trials share gives every trial what it gives when each trains alone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from asyncsearch.space import Space
from tests.shares import takes_long
from tests.trainers.digits import EPOCHS, TRIALS, UNIQUE, few_schedules, schedules
from tests.trainers.digits_torch import TorchDigits  # needs torch
from tests.trainers.merged import require_told_apart, searched, seen

pytestmark = pytest.mark.usefixtures("torch_workers")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "trials", "epochs", "unique"),
    [
        pytest.param(few_schedules(), 8, 5, 18, id="few"),
        pytest.param(schedules(), TRIALS, EPOCHS, UNIQUE, id="all", marks=takes_long),
    ],
)
def test_merged_and_unmerged_trials_report_the_same_bits_in_torch(
    space: Space, trials: int, epochs: int, unique: int, tmp_path: Path
) -> None:
    merged = searched(TorchDigits, space, epochs, tmp_path / "merged")
    unmerged = searched(TorchDigits, space, epochs, tmp_path / "unmerged", share=False)
    assert len(merged.trials) == trials
    assert seen(merged) == seen(unmerged)
    require_told_apart(merged, epochs)
    assert sum(trial.trained for trial in unmerged.trials) == trials * epochs
    assert sum(trial.trained for trial in merged.trials) == unique
