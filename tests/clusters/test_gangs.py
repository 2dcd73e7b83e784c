"""Trials on two workers each, on two Workers of a standalone cluster, with checkpoints on HDFS."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.gang_search import KILLED, UNITS, make_study
from tests.clusters.tools import SMALL, TWO_EXECUTORS, Machine

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEARCH = Path(__file__).with_name("gang_search.py")


def test_gangs_of_two_executors_reach_what_one_worker_does_and_outlive_a_rank(
    machine: Machine, two_workers: str, hdfs: str, tmp_path: Path
) -> None:
    alone = make_study(tmp_path, str(tmp_path / "alone"), 1, "processes").run(parallelism=1, display="none")
    options = (*SMALL, *TWO_EXECUTORS)
    store = f"{hdfs}/{tmp_path.name}"
    with machine.submit("submit_standalone.sh", tmp_path, *options, SEARCH, tmp_path, store) as search:
        search.finish()
    assert all((tmp_path / f"killed-{trial}").exists() for trial in KILLED)
    rows = [line.split() for line in (tmp_path / "results").read_text().splitlines()]
    for (units, loss, failures), expected in zip(rows, alone.trials, strict=True):
        assert int(units) == UNITS
        assert float(loss) == pytest.approx(expected.value, abs=1e-12, rel=1e-9)
        assert failures == "0"
