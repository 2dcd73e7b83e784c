"""A Spark Connect server in front of a standalone cluster: searches with the driver here, and in the cluster."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from asyncsearch import RandomSearch, Study, loguniform
from asyncsearch.errors import ClusterError
from asyncsearch.events import DriverStarted
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.spark.launcher import SparkLauncher
from tests.clusters.digits_training import read_digits
from tests.faults.accounts import losses, require_accounted
from tests.schedulers.journal_oracle import require_legal_promotions
from tests.spark.connect_server import ConnectServer
from tests.spark.test_executor_loss import executor_of
from tests.system.tools import Running, make_study
from tests.system.trained import Gate, make_trainable

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
pytest.importorskip("grpc_status")


def drivers(study: Study) -> int:
    return sum(isinstance(record.event, DriverStarted) for record in read_records(study.store))


@pytest.mark.parametrize("form", ["here", "there"])
def test_a_search_ends_with_its_driver_here_and_in_the_cluster(
    server: ConnectServer, tmp_path: Path, form: str
) -> None:
    session = server.session()
    launcher = SparkLauncher(session, remote_driver=form == "there")
    study = make_study(make_trainable(Gate(tmp_path), trial_id=-1), tmp_path / "study", backend=launcher)
    require_accounted(study.run(parallelism=2, display="none"), range(1, 10), (1, 3, 9))
    assert not losses(study)
    session.stop()


@pytest.mark.parametrize("form", ["here", "there"])
def test_digits_are_promoted_as_asha_does_in_both_forms(server: ConnectServer, tmp_path: Path, form: str) -> None:
    pytest.importorskip("sklearn")
    session = server.session()
    launcher = SparkLauncher(session, remote_driver=form == "there")
    space = {"lr": loguniform(1e-4, 1e-1)}
    study = make_study(read_digits, tmp_path / "study", backend=launcher, space=space, searcher=RandomSearch())
    study.run(12, parallelism=2, display="none")
    assert require_legal_promotions(read_records(study.store), (1, 3, 9)) >= 4
    assert (study.best_trial.value or 1.0) < 0.15
    session.stop()


@pytest.mark.parametrize("part", ["driver", "agent", "executor"])
def test_a_killed_part_of_a_search_in_the_cluster_is_replaced(server: ConnectServer, tmp_path: Path, part: str) -> None:
    session = server.session()
    gate = Gate(tmp_path).make()
    launcher = SparkLauncher(session, remote_driver=True)
    study = make_study(make_trainable(gate), tmp_path / "study", backend=launcher)
    running = Running(study)
    _, agent = gate.pids()
    driver = json.loads((tmp_path / "study" / "driver.json").read_text())["pid"]
    assert driver != os.getpid()
    os.kill({"driver": driver, "agent": agent, "executor": executor_of(agent)}[part], signal.SIGKILL)
    require_accounted(running.wait(), range(1, 10), (1, 3, 9))
    assert drivers(study) == (2 if part == "driver" else 1)
    session.stop()


def test_a_server_that_is_killed_ends_the_run_in_words(server: ConnectServer, tmp_path: Path) -> None:
    """The last one: nothing goes by this server afterwards."""
    session = server.session()
    gate = Gate(tmp_path).make()
    launcher = SparkLauncher(session, remote_driver=True)
    study = make_study(make_trainable(gate), tmp_path / "study", backend=launcher)
    running = Running(study)
    gate.pids()
    server.daemon.kill()
    with pytest.raises(
        ClusterError, match=r"driver.*was lost: the Spark Connect server at .* does not answer.*is kept"
    ):
        running.wait()
