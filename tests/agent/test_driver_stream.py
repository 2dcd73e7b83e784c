"""The agent over a real stream: a server in this process, an agent in a thread, real runners."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.actions import Assign, DismissWorker, StopTraining
from asyncsearch.agent.agent import run_agent
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.rpc.messages import Endpoint
from asyncsearch.work import Lane, Work
from tests.agent import trials
from tests.agent.driver import WORKER, lease, make_config, make_stage
from tests.rpc.proxy import PATIENCE_S, Proxy
from tests.rpc.tools import Driver


class AgentThread:
    """An agent in a thread."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self.result = ""
        config = make_config(trials.reports_every_millisecond, folder, endpoint=endpoint)
        self.thread = threading.Thread(target=lambda: setattr(self, "result", run_agent(config)))
        self.thread.start()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.stop()


@pytest.fixture
def proxy(driver: Driver) -> Iterator[Proxy]:
    proxy = Proxy(driver.port)
    yield proxy
    proxy.close()


def attached(driver: Driver, times: int = 1) -> None:
    driver.handler.told.wait(lambda told: sum(what[0] == "attached" for what in told) >= times)


def reported(driver: Driver, resource: int) -> None:
    driver.handler.messages.wait(
        lambda items: any(isinstance(m, Reported) and m.resource >= resource for *_, m in items)
    )


def ended(driver: Driver) -> TrainingEnded:
    items = driver.handler.messages.wait(lambda items: any(isinstance(m, TrainingEnded) for *_, m in items))
    return next(m for *_, m in items if isinstance(m, TrainingEnded))


def test_a_broken_stream_loses_and_doubles_no_report(tmp_path: Path, driver: Driver, proxy: Proxy) -> None:
    endpoint = driver.identity.endpoint(proxy.address)
    agent = AgentThread(tmp_path, endpoint)
    attached(driver)
    driver.send(Assign(Work(lease(0), (Lane((make_stage(),)),))), WORKER)
    for cut in range(3):
        reported(driver, 50 * (cut + 1))
        proxy.cut()
        attached(driver, cut + 2)
    driver.send(StopTraining(lease(0), "enough"), WORKER)
    end = ended(driver)
    assert end.outcome is Outcome.STOPPED
    reports = [m.resource for *_, m in driver.handler.messages.all if isinstance(m, Reported)]
    assert reports == list(range(1, end.resource + 1))
    driver.send(DismissWorker(WORKER, 1, "nothing is left"), WORKER)
    agent.thread.join(PATIENCE_S)
    assert agent.result == "dismissed: nothing is left"


def test_an_agent_ends_when_its_driver_stops(tmp_path: Path, driver: Driver) -> None:
    agent = AgentThread(tmp_path, driver.endpoint)
    attached(driver)
    driver.send(Assign(Work(lease(0), (Lane((make_stage(),)),))), WORKER)
    reported(driver, 1)
    driver.stop()
    agent.thread.join(PATIENCE_S)
    assert agent.result == "disconnected"
