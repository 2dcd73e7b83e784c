"""The ports of a server are known, and nobody else's, before it listens."""

from __future__ import annotations

import socket
import threading

import pytest

from asyncsearch.errors import ClusterError
from asyncsearch.rpc.reservation import Reservation
from asyncsearch.rpc.server import SearchServer
from tests.rpc.tools import AGENT, Agent, Driver, hello


def test_whoever_connects_to_a_reserved_port_is_refused_at_once() -> None:
    reservation = Reservation("127.0.0.1")
    for port in (reservation.port, reservation.spare_port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    reservation.close()


def test_nobody_else_gets_a_reserved_port() -> None:
    reservation = Reservation("127.0.0.1")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", reservation.port))
    reservation.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_server_listens_on_its_reserved_ports(driver: Driver, host: str) -> None:
    reservation = Reservation(host)
    server = SearchServer(driver.handler, driver.identity)
    reservation.before_listening()
    assert driver.run(server.start(host, reservation.port, reservation.spare_port)) == reservation.port
    for port in (reservation.port, server.spare_port):
        socket.create_connection(("127.0.0.1", port)).close()
    reservation.close()
    driver.run(server.stop(0.0))


def test_a_worker_before_the_server_attaches_as_soon_as_it_listens(driver: Driver) -> None:
    reservation = Reservation("127.0.0.1")
    endpoint = driver.identity.endpoint(f"127.0.0.1:{reservation.port}", reservation.spare_port)
    agent = Agent(endpoint, hello())
    opening = threading.Thread(target=agent.connection.open)
    opening.start()
    server = SearchServer(driver.handler, driver.identity)
    reservation.before_listening()
    driver.run(server.start("127.0.0.1", reservation.port, reservation.spare_port))
    driver.handler.told.wait_for(("attached", 3, 1, AGENT))
    opening.join()
    agent.connection.close()
    reservation.close()
    driver.run(server.stop(0.0))


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"cannot listen at 127.0.0.1:{port} .*the port is taken"):
            Reservation("127.0.0.1", port)


def test_an_address_of_another_machine_is_an_error_that_names_it() -> None:
    with pytest.raises(ClusterError, match=r"cannot listen at 192.0.2.1:0 .*not one of this machine"):
        Reservation("192.0.2.1")
