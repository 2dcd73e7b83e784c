"""Connect servers in processes of their own, which are lost, or stand before executors that are."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from asyncsearch import Study, TrialContext, WorkerOptions, choice
from asyncsearch.errors import NotEnoughSlotsError, WorkersLostError
from asyncsearch.events import WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.spark.connect import ConnectSpark
from asyncsearch.launch.spark.launcher import SparkLauncher
from tests.shares import takes_long
from tests.spark.cluster import StandaloneCluster
from tests.spark.connect_server import ConnectServer
from tests.spark.test_executor_loss import executor_of
from tests.system.tools import PATIENCE_S, Running, make_study, require_whole
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


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> WorkerOptions:
    """Let a search notice soon that its workers died with their server."""
    monkeypatch.setattr("asyncsearch.launch.spark.supervisor.CANCEL_AGAIN_S", 0.1)
    return WorkerOptions(lease_timeout=5.0)


def left_by_its_server(stack: contextlib.ExitStack, tmp_path: Path, workers: WorkerOptions) -> tuple[Running, str]:
    """Return a run whose server was killed while its trial waited, and the port of that server."""
    server = ConnectServer(tmp_path / "connect.log", "local[2]")
    stack.callback(server.daemon.kill)
    session, gate = server.session(), Gate(tmp_path).make()
    backend = SparkLauncher(session)
    running = Running(make_study(make_trainable(gate), tmp_path / "study", backend=backend, workers=workers))
    gate.pids()
    server.daemon.kill()
    return running, server.port


@takes_long  # without a server: test_supervisor.py
@pytest.mark.spark
def test_a_run_outlasts_a_server_of_connect_that_starts_again(
    short_leases: WorkerOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.supervisor.SILENT_FOR_S", PATIENCE_S)  # on a busy machine
    with contextlib.ExitStack() as stack:
        running, port = left_by_its_server(stack, tmp_path, short_leases)
        again = ConnectServer(tmp_path / "again.log", "local[2]", spark__connect__grpc__binding__port=port)
        stack.callback(again.daemon.kill)
        require_whole(running.wait())


@takes_long  # without a server: test_supervisor.py
@pytest.mark.spark
def test_a_server_of_connect_that_stays_away_ends_the_run_in_words(
    short_leases: WorkerOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.supervisor.SILENT_FOR_S", 3.0)
    with contextlib.ExitStack() as stack:
        running, _ = left_by_its_server(stack, tmp_path, short_leases)
        with pytest.raises(WorkersLostError, match=r"the Spark Connect server at 127\.0\.0\.1:\d+ does not answer"):
            running.wait()


@takes_long  # without a server: tests/launch/threads
@pytest.mark.spark
def test_trials_in_threads_that_wait_for_a_gone_server_end_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.threads.launcher.SILENT_FOR_S", 0.0)
    monkeypatch.setattr("asyncsearch.launch.threads.launcher._LOOK_S", 0.1)
    with contextlib.ExitStack() as stack:
        server = ConnectServer(tmp_path / "connect.log", "local[2]")
        stack.callback(server.daemon.kill)
        session = server.session()
        type(session)._set_default_and_active_session(session)

        def train(trial: TrialContext) -> float:
            server.daemon.kill()
            return float(session.range(3).count())  # Spark's client tries this for minutes

        study = Study(
            train, space={"x": choice(0)}, metric="value", mode="max", store=tmp_path / "study", backend="threads"
        )
        with pytest.raises(WorkersLostError, match=r"the Spark Connect server at 127\.0\.0\.1:\d+ does not answer"):
            study.run(num_trials=1, parallelism=1, display="none")


@takes_long  # without a cluster: test_supervisor.py
@pytest.mark.spark
def test_a_cluster_of_connect_that_refuses_barriers_untold_trains(
    standalone: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.ExitStack() as stack:
        allocation = {
            "spark__dynamicAllocation__enabled": "true",
            "spark__dynamicAllocation__shuffleTracking__enabled": "true",
        }
        server = ConnectServer(tmp_path / "connect.log", standalone.url, **allocation)
        stack.callback(server.daemon.kill)
        session = server.session()
        stack.callback(session.stop)
        monkeypatch.setattr(ConnectSpark, "has_dynamic_allocation", False)
        study = make_study(
            make_trainable(Gate(tmp_path), trial_id=-1), tmp_path / "study", backend=SparkLauncher(session)
        )
        require_whole(study.run(parallelism=2, display="none"))
        assert [record.message for record in caplog.records if "refuses barrier stages" in record.message]
        assert not [r.event for r in read_records(study.store) if isinstance(r.event, WorkerLost)]
