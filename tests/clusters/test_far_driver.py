"""A driver and workers that are tasks of a cluster, and a client that has HDFS in common with them and nothing else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from asyncsearch import Study
from asyncsearch.events import DriverStarted
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.remote.meeting import read_place
from asyncsearch.store import open_store
from asyncsearch.study.remote.board import read_board
from tests.clusters.tools import ROOT, Submitted
from tests.faults.accounts import losses, require_accounted
from tests.spark.connect_server import ConnectServer
from tests.spark.test_executor_loss import executor_of
from tests.system.trained import Gate

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
pytest.importorskip("grpc_status")


@pytest.fixture
def store(hdfs: str, tmp_path: Path) -> str:
    return f"{hdfs}/{tmp_path.name}"


@pytest.fixture
def client(server: ConnectServer, store: str, tmp_path: Path) -> Callable[[], Submitted]:
    """Return what starts a client of the search, or another one that goes on with it."""
    command = [sys.executable, "-m", "tests.clusters.far_client", str(tmp_path), store, server.url]
    return lambda: Submitted(command, os.environ | {"PYTHONPATH": str(ROOT)}, tmp_path)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path).make()


def require_whole(store: str, drivers: int) -> Study:
    study = Study.open(store)
    require_accounted(study, range(1, 10), (1, 3, 9))
    assert sum(isinstance(record.event, DriverStarted) for record in read_records(study.store)) == drivers
    return study


def driver_of(store: str) -> int:
    """Return the process of a driver on this machine, which listens where it says that it is met."""
    place = read_place(open_store(store))
    assert place is not None
    [pid] = [
        found.pid
        for found in psutil.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == place.port
    ]
    assert pid is not None
    return pid


@pytest.mark.parametrize("part", ["driver", "executor"])
def test_a_killed_part_is_replaced_by_way_of_hdfs(
    client: Callable[[], Submitted], gate: Gate, store: str, part: str
) -> None:
    with client() as search:
        _, agent = gate.pids()
        os.kill(driver_of(store) if part == "driver" else executor_of(agent), signal.SIGKILL)
        search.finish()
    require_whole(store, drivers=2 if part == "driver" else 1)


def test_a_search_goes_on_to_its_end_while_its_client_is_stopped(
    client: Callable[[], Submitted], gate: Gate, store: str
) -> None:
    with client() as search:
        gate.pids()
        search.send(signal.SIGSTOP)
        gate.open()
        search.until("the end of its driver", lambda: is_over(store))
        search.send(signal.SIGCONT)
        assert "9 configurations tried" in search.finish()
    assert not losses(require_whole(store, drivers=1))


def is_over(store: str) -> bool:
    board = read_board(open_store(store))
    return board is not None and board.is_over


def test_another_client_follows_the_driver_of_one_that_was_killed(
    client: Callable[[], Submitted], gate: Gate, store: str
) -> None:
    with client():
        gate.pids()
    with client() as search:
        search.until("its driver", lambda: "A driver of this search runs in the cluster already" in search.output())
        gate.open()
        search.finish()
    assert not losses(require_whole(store, drivers=2))  # the second one finds that nothing is left


def test_ctrl_c_frees_all_slots_for_the_next_run(client: Callable[[], Submitted], gate: Gate, store: str) -> None:
    with client() as search:
        gate.pids()
        search.send(signal.SIGINT)
        assert "KeyboardInterrupt" in search.finish(-signal.SIGINT)
    with client() as search:
        search.finish()
    assert not losses(require_whole(store, drivers=2))
