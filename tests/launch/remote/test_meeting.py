"""How tasks and a driver in the cluster meet: by a secret in the store, and with one connection for each launch."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.errors import DisconnectedError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, Preflight
from asyncsearch.launch.remote.launcher import LOST, MeetingLauncher
from asyncsearch.launch.remote.meeting import DRIVER, meet, read_place
from asyncsearch.launch.remote.worker import MetDriver
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from tests.launch.tools import TOKEN, Ends, config_for

W0, W1 = WorkerId(0), WorkerId(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = open_store(tmp_path / "study")
    made.prepare()
    return made


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def launcher(store: Store, ends: Ends, tmp_path: Path) -> Iterator[MeetingLauncher]:
    made = MeetingLauncher(store, Preflight(parallelism=2), "mine")
    made.start(lambda worker, epoch: config_for(tmp_path / "study", b"code"), ends)
    yield made
    made.stop(0.0)


def test_a_task_serves_the_launch_that_it_is_given(launcher: MeetingLauncher, store: Store, ends: Ends) -> None:
    launcher.launch(W1, 3)
    line, assigned = meet(store)
    assert (assigned.worker, assigned.epoch, assigned.is_over) == (1, 3, False)
    line.send("dismissed: nothing is left to train")
    assert ends.next() == (1, 3, "dismissed: nothing is left to train")
    line.close()


def test_the_end_of_a_task_is_noticed_by_its_connection(launcher: MeetingLauncher, store: Store, ends: Ends) -> None:
    launcher.launch(W0, 1)
    meet(store)[0].close()
    assert ends.next() == (0, 1, LOST)


def test_a_task_has_its_whole_configuration_from_the_store(launcher: MeetingLauncher, store: Store) -> None:
    launcher.launch(W0, 1)
    met = MetDriver(dumps(store))
    config = met.received()
    met.leave()
    assert config is not None
    assert config.bundle == b"code"
    assert config.endpoint is not None
    assert config.endpoint.token == TOKEN
    assert config.store.url == store.url


def test_a_stranger_is_given_no_launch(launcher: MeetingLauncher, store: Store, ends: Ends) -> None:
    launcher.launch(W0, 1)
    place = read_place(store)
    assert place is not None
    with socket.create_connection((place.host, place.port)) as stranger:
        assert len(stranger.recv(16)) == 16
        stranger.sendall(b"?" * 32)
        assert stranger.recv(1000) == b""
    assert ends.is_empty
    line, assigned = meet(store)
    assert assigned.worker == W0
    line.close()


def test_a_run_that_ends_sends_waiting_tasks_home(store: Store, ends: Ends, tmp_path: Path) -> None:
    launcher = MeetingLauncher(store, Preflight(parallelism=2), "mine")
    launcher.start(lambda worker, epoch: config_for(tmp_path), ends)
    launcher.stop(0.0)
    launcher.launch(W0, 2)
    assert ends.next() == (0, 2, TOO_LATE)
    with pytest.raises(DisconnectedError, match=r"has met no driver for 0\.1 s: the driver at 127\..*cannot be"):
        meet(store, patience_s=0.1)
    store.remove(DRIVER)
    with pytest.raises(DisconnectedError, match=r"study/remote/driver\.json is not there"):
        meet(store, patience_s=0.1)
