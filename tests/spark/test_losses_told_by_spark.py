"""A cluster with dynamic allocation, where the loss of an executor ends no job: Spark's own news tell of it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from asyncsearch.events import WorkerLost
from asyncsearch.journal.opening import read_records
from tests.shares import takes_long
from tests.spark.cluster import StandaloneCluster, spark_session
from tests.spark.test_executor_loss import executor_of
from tests.system.tools import Running, make_study, require_whole
from tests.system.trained import Gate, make_trainable


@takes_long  # without a cluster: test_departures.py
@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_executor_is_lost_by_news_and_not_by_the_lease(standalone: StandaloneCluster, tmp_path: Path) -> None:
    allocation = {
        "spark__dynamicAllocation__enabled": "true",
        "spark__dynamicAllocation__shuffleTracking__enabled": "true",
        "spark__dynamicAllocation__maxExecutors": "2",
        "spark__executor__cores": "1",
    }
    with spark_session(standalone.url, **allocation):
        gate = Gate(tmp_path).make()
        running = Running(make_study(make_trainable(gate), tmp_path / "study", backend="spark"))
        _, agent = gate.pids()
        os.kill(executor_of(agent), signal.SIGKILL)
        require_whole(study := running.wait())
        [loss] = [r.event for r in read_records(study.store) if isinstance(r.event, WorkerLost)]
        assert re.fullmatch(r"its executor \d+ was lost", loss.reason)
