"""Two applications on one standalone cluster, which dynamic allocation shares between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.tools import ELASTIC, SEARCH, SMALL, Machine, require_whole

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TWO_TRIALS = Path(__file__).with_name("two_trials.py")
SOON = ("--conf", "spark.dynamicAllocation.executorIdleTimeout=3s", "--conf", "spark.decommission.enabled=false")
"""Let idle executors leave soon; with decommissioning and the tracking of shuffles together they do so late."""


def test_an_executor_no_longer_needed_goes_to_another_application(
    machine: Machine, two_workers: str, tmp_path: Path
) -> None:
    options = (*SMALL, *ELASTIC, *SOON)
    first, second = tmp_path / "first", tmp_path / "second"
    with machine.submit("submit_standalone.sh", first, *options, TWO_TRIALS, first, first / "study") as giver:
        giver.until("both executors", lambda: len({executor for _, _, executor in giver.waiting()}) == 2)
        with machine.submit("submit_standalone.sh", second, *options, SEARCH, second, second / "study", 1) as taker:
            taker.until("that it waits for an executor", lambda: "waits for a free task slot" in taker.output())
            assert taker.waiting() == []
            (first / "free").touch()
            taker.until("an executor that was given back", lambda: len(taker.waiting()) == 1)
            taker.open()
            assert "best: 1" in taker.finish()
        giver.open()
        assert "losses: [0, 0]" in giver.finish()
    require_whole(taker, str(second / "study"))
