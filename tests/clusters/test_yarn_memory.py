"""A container that YARN kills because its trials took more memory than it had asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.trial import TrialState
from tests.clusters.tools import SMALL, Machine

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def strict_yarn(machine: Machine, hdfs: str) -> Iterator[str]:
    """Return the settings of a YARN that holds containers to their memory."""
    yield machine.script("yarn.sh", "start", 1, "--memory-mb", 3072, "--memory-checks")
    machine.script("yarn.sh", "stop", "--remove")


def test_a_container_killed_for_memory_is_said_so_and_its_trial_goes_on(
    machine: Machine, strict_yarn: str, hdfs: str, tmp_path: Path
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    script = Path(__file__).with_name("hungry_search.py")
    options = (*SMALL, "--num-executors", "1", "--conf", "spark.ui.enabled=false")
    with machine.submit("submit_yarn.sh", tmp_path, *options, script, tmp_path, store) as search:
        output = search.finish()
    [note] = [line for line in output.splitlines() if " was lost: " in line]
    assert "its container was killed for memory (" in note
    assert "raise spark.executor.memoryOverhead" in note
    assert " goes on from its checkpoint at 1 unit; " in note
    study = Study.open(store)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETED] * 2
    assert [(trial.losses, trial.failures) for trial in study.trials] == [(1, 0), (0, 0)], "the machine is charged"
