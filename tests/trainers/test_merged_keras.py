"""A search in Keras that trains once what its trials share gives every trial what it gives when each trains alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
pytest.importorskip("tensorflow")
pytest.importorskip("keras")
pytest.importorskip("sklearn")

from tests.shares import takes_long
from tests.trainers.digits import few_schedules
from tests.trainers.digits_keras import KerasDigits  # needs tensorflow
from tests.trainers.merged import require_told_apart, searched, seen

EPOCHS, TRIALS = 5, 8


@takes_long
@pytest.mark.slow
def test_merged_and_unmerged_trials_report_the_same_bits_in_keras(tmp_path: Path) -> None:
    merged = searched(KerasDigits, few_schedules(), EPOCHS, tmp_path / "merged")
    unmerged = searched(KerasDigits, few_schedules(), EPOCHS, tmp_path / "unmerged", share=False)
    assert len(merged.trials) == TRIALS
    assert seen(merged) == seen(unmerged)
    require_told_apart(merged, EPOCHS)
    assert sum(trial.trained for trial in merged.trials) < sum(trial.trained for trial in unmerged.trials)
