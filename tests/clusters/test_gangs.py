"""Trials on two workers each, on two executors of a standalone cluster and of YARN, with checkpoints on HDFS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.launch.spark.launcher import SparkLauncher
from tests.clusters.gang_search import KILLED, UNITS, make_study, write_results
from tests.clusters.tools import ELASTIC, SMALL, TWO_EXECUTORS, Machine, Submitted
from tests.spark.connect_server import ConnectServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEARCH = Path(__file__).with_name("gang_search.py")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The same trials on one worker each, without a cluster."""
    folder = tmp_path_factory.mktemp("alone")
    return make_study(folder, str(folder / "store"), 1, "processes").run(parallelism=1, display="none")


def require_what_one_worker_reaches(search: Submitted, folder: Path, alone: Study) -> None:
    with search:
        search.finish()
    require_results(folder, alone)


def require_results(folder: Path, alone: Study) -> None:
    assert all((folder / f"killed-{trial}").exists() for trial in KILLED)
    rows = [line.split() for line in (folder / "results").read_text().splitlines()]
    for (units, loss, failures), expected in zip(rows, alone.trials, strict=True):
        assert int(units) == UNITS
        assert float(loss) == pytest.approx(expected.value, abs=1e-12, rel=1e-9)
        assert failures == "0"


@pytest.mark.parametrize("allocation", [TWO_EXECUTORS, ELASTIC], ids=["fixed", "dynamic allocation"])
def test_gangs_of_two_executors_equal_one_worker_and_survive_a_lost_rank(
    machine: Machine, two_workers: str, hdfs: str, tmp_path: Path, alone: Study, allocation: Sequence[str]
) -> None:
    options = (*SMALL, *allocation)
    store = f"{hdfs}/{tmp_path.name}"
    search = machine.submit("submit_standalone.sh", tmp_path, *options, SEARCH, tmp_path, store)
    require_what_one_worker_reaches(search, tmp_path, alone)


def test_so_do_gangs_of_two_containers_of_yarn(
    machine: Machine, yarn: str, hdfs: str, tmp_path: Path, alone: Study
) -> None:
    options = (*SMALL, "--conf", "spark.ui.enabled=false", "--deploy-mode", "client")
    store = f"{hdfs}/{tmp_path.name}"
    search = machine.submit("submit_yarn.sh", tmp_path, *options, SEARCH, tmp_path, store)
    require_what_one_worker_reaches(search, tmp_path, alone)


def test_so_do_gangs_with_their_driver_in_the_cluster(
    server: ConnectServer, hdfs: str, tmp_path: Path, alone: Study
) -> None:
    """Three barrier tasks: the driver, and the two workers of each trial."""
    session = server.session()
    launcher = SparkLauncher(session, remote_driver=True)
    study = make_study(tmp_path, f"{hdfs}/{tmp_path.name}", 2, launcher)
    write_results(tmp_path, study.run(parallelism=2, display="none"))
    require_results(tmp_path, alone)
    session.stop()
