"""A running driver, and agents that are closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asyncsearch.rpc.messages import Hello
from tests.rpc.proxy import Proxy
from tests.rpc.tools import Agent, Driver, hello


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


@pytest.fixture
def attach(driver: Driver) -> Iterator[Callable[..., Agent]]:
    """Attach an agent, through a proxy if one is given."""
    agents = []

    def make(greeting: Hello | None = None, proxy: Proxy | None = None, **options: Any) -> Agent:
        endpoint = driver.identity.endpoint(proxy.address) if proxy else driver.endpoint
        agent = Agent(endpoint, greeting or hello(), **options)
        agents.append(agent)
        agent.connection.open()
        return agent

    yield make
    for agent in agents:
        agent.connection.close()
