"""A search in torch that trains once what its trials share gives every trial what it gives when each trains alone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from tests.trainers.digits import EPOCHS, TRIALS, UNIQUE, schedules
from tests.trainers.digits_torch import TorchDigits  # needs torch
from tests.trainers.merged import require_told_apart, searched, seen


@pytest.mark.slow
def test_merged_and_unmerged_trials_report_the_same_bits_in_torch(tmp_path: Path) -> None:
    merged = searched(TorchDigits, schedules(), EPOCHS, tmp_path / "merged")
    unmerged = searched(TorchDigits, schedules(), EPOCHS, tmp_path / "unmerged", share=False)
    assert len(merged.trials) == TRIALS
    assert seen(merged) == seen(unmerged)
    require_told_apart(merged, EPOCHS)
    assert sum(trial.trained for trial in unmerged.trials) == TRIALS * EPOCHS
    assert sum(trial.trained for trial in merged.trials) == UNIQUE
