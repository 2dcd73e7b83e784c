"""What a search survives: every process of it may be killed, and the network may break."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch import Study, WorkerOptions
from asyncsearch.events import Reported, WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.base_launcher import ConfigFor, OnWorkerEnded
from asyncsearch.launch.processes import ProcessLauncher
from tests.rpc.proxy import Proxy
from tests.shares import first
from tests.system.tools import (
    PATIENCE_S,
    Running,
    make_study,
    require_gone,
    require_stored,
    require_whole,
    wait_for_event,
)
from tests.system.trained import Gate, make_trainable


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path).make()


@pytest.mark.parametrize("number", first([signal.SIGKILL, signal.SIGTERM]))
def test_a_runner_killed_inside_a_unit_costs_training_since_its_checkpoint(
    gate: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    study = make_study(make_trainable(gate), tmp_path / "study")
    running = Running(study, display="plain")
    runner, _ = gate.pids()
    require_stored(study, 3)
    os.kill(runner, number)
    require_whole(running.wait())
    first = study.trials[0]
    assert (first.failures, first.losses) == (0, 1), "the machine is charged, not the trial"
    assert first.trained == 9 + 1, "unit 4 was trained since the checkpoint at 3, and is trained again"
    [note] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: trial-0 lost a process")]
    assert number.name in note
    assert note.endswith("from outside. trial-0 goes on from its checkpoint at 3 units; 1 unit is trained again.")


def test_a_killed_agent_is_replaced_and_its_runner_does_not_outlive_it(
    gate: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = make_study(make_trainable(gate), tmp_path / "study")
    running = Running(study, display="plain")
    runner, agent = gate.pids()
    require_stored(study, 3)
    os.kill(agent, signal.SIGKILL)
    require_whole(running.wait())
    require_gone([runner, agent])
    assert study.trials[0].losses == 1
    assert study.trials[0].trained <= 9 + 1, "at most unit 4 was trained since the checkpoint at 3"
    [note] = [line for line in capsys.readouterr().out.splitlines() if " was lost: " in line]
    assert "SIGKILL" in note
    assert ". trial-0 goes on from its checkpoint at 3 units; " in note


class Lenient(ProcessLauncher):
    """Leaves workers that are held for lost alone, as a cluster does whose network is split."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: queue.Queue[tuple[int, int, str]] = queue.Queue()

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        def told(worker: WorkerId, epoch: int, reason: str) -> None:
            self.ends.put((worker, epoch, reason))
            ended(worker, epoch, reason)

        super().start(config_for, told)

    def kill(self, worker: WorkerId, epoch: int) -> None:
        pass


def test_a_zombie_that_wakes_up_after_its_lease_is_refused(gate: Gate, tmp_path: Path) -> None:
    launcher = Lenient()
    workers = WorkerOptions(lease_timeout=1.5)
    study = make_study(make_trainable(gate), tmp_path / "study", workers=workers, backend=launcher, name="zombie")
    running = Running(study, parallelism=1)
    runner, agent = gate.pids()
    os.kill(agent, signal.SIGSTOP)
    os.kill(runner, signal.SIGSTOP)
    wait_for_event(study, WorkerLost)
    os.kill(runner, signal.SIGCONT)  # before its agent, which ends it
    os.kill(agent, signal.SIGCONT)
    worker, epoch, reason = launcher.ends.get(timeout=PATIENCE_S)
    assert (worker, epoch) == (0, 1)
    assert "silent" in reason
    require_whole(running.wait())
    require_gone([runner, agent])
    require_each_report_once(study)


class ThroughProxies(ProcessLauncher):
    """Workers reach the driver through proxies that the test can cut."""

    def __init__(self) -> None:
        super().__init__()
        self.proxies: queue.Queue[Proxy] = queue.Queue()

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        def through_proxy(worker: WorkerId, epoch: int) -> Any:
            config = config_for(worker, epoch)
            assert config.endpoint is not None
            proxy = Proxy(int(config.endpoint.address.rpartition(":")[2]))
            self.proxies.put(proxy)
            endpoint = msgspec.structs.replace(config.endpoint, address=proxy.address)
            return msgspec.structs.replace(config, endpoint=endpoint)

        super().start(through_proxy, ended)


@pytest.fixture
def proxied() -> Iterator[ThroughProxies]:
    launcher = ThroughProxies()
    yield launcher
    while not launcher.proxies.empty():
        launcher.proxies.get().close()


def test_a_stream_cut_during_a_trial_goes_on_under_the_same_lease(
    gate: Gate, tmp_path: Path, proxied: ThroughProxies
) -> None:
    study = make_study(make_trainable(gate), tmp_path / "study", backend=proxied)
    running = Running(study, parallelism=1)
    gate.pids()
    proxy = proxied.proxies.get(timeout=PATIENCE_S)
    proxy.cut()
    gate.open()
    require_whole(running.wait())
    proxy.close()
    assert not any(isinstance(record.event, WorkerLost) for record in read_records(study.store))
    assert all(trial.losses == 0 and trial.trained == trial.resource for trial in study.trials)
    require_each_report_once(study)


def require_each_report_once(study: Study) -> None:
    seen = [
        (record.event.lease, record.event.resource)
        for record in read_records(study.store)
        if isinstance(record.event, Reported)
    ]
    assert len(seen) == len(set(seen))
    for trial in study.trials:
        assert [resource for resource, _ in study.history(trial)] == list(range(1, trial.resource + 1))
