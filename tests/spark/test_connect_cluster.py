"""A Connect server in front of a standalone cluster, whose executors are lost alone, and which tells no slots."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from asyncsearch.errors import NotEnoughSlotsError
from asyncsearch.events import WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.spark.launcher import SparkLauncher
from tests.shares import takes_long
from tests.spark.cluster import StandaloneCluster
from tests.spark.connect_server import ConnectServer
from tests.spark.test_executor_loss import executor_of
from tests.spark.test_local_session import require_whole
from tests.system.tools import Running, make_study
from tests.system.trained import Gate, make_trainable

pytest.importorskip("grpc_status")


@takes_long  # on a classic session: test_executor_loss.py
@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_executor_of_connect_costs_only_its_worker(standalone: StandaloneCluster, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        server = ConnectServer(tmp_path / "connect.log", standalone.url)
        stack.callback(server.daemon.kill)
        session = server.session()
        stack.callback(session.stop)  # first: its client waits for minutes for a server that is gone
        with pytest.raises(NotEnoughSlotsError, match="run with parallelism="):
            SparkLauncher(session).check(None)
        gate = Gate(tmp_path).make()
        study = make_study(make_trainable(gate), tmp_path / "study", backend=SparkLauncher(session))
        running = Running(study)
        _, agent = gate.pids()
        os.kill(executor_of(agent), signal.SIGKILL)
        require_whole(running.wait())
        [loss] = [r.event for r in read_records(study.store) if isinstance(r.event, WorkerLost)]
        assert loss.reason.startswith("its executor ")
