"""The address at which other ranks reach a worker: that of its way to the driver, not of the name of its host."""

from __future__ import annotations

import socket

import pytest

from asyncsearch.agent.work_queue import own_address


def test_it_is_the_one_from_which_the_driver_is_reached() -> None:
    assert own_address("127.0.0.1:7077") == "127.0.0.1"
    assert own_address("localhost:7078") in ("127.0.0.1", "::1")


def test_a_driver_elsewhere_is_reached_from_an_address_that_is_no_wildcard() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 7077))
        except OSError:
            pytest.skip("this machine has no way to others")
        expected = probe.getsockname()[0]
    assert own_address("192.0.2.1:7077") == expected != "0.0.0.0"


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert own_address("[::1]:7077") == "::1"


@pytest.mark.parametrize("driver", ["", "no-port", "host.invalid:7077", "127.0.0.1:port"])
def test_without_a_way_to_the_driver_it_is_this_machine(driver: str) -> None:
    assert own_address(driver) == "127.0.0.1"
