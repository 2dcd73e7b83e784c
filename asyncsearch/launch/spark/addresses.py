"""Under which name workers reach the driver, and where it listens. Pure, but for the machine's own name."""

from __future__ import annotations

import socket
from collections.abc import Callable

_WILDCARDS = ("", "0.0.0.0", "::", "[::]")
HOST_KEY = "spark.asyncsearch.driver.host"
BIND_KEY = "spark.asyncsearch.driver.bindAddress"
_LOOPBACK = ("localhost",)


def addresses(
    conf: Callable[[str], str], is_local: bool, machine: Callable[[], str] = socket.gethostname
) -> tuple[str, str]:
    """Return (host, bind).

    Args:
        conf: reads a setting of Spark, empty if it is not set.
        is_local: whether all executors are on this machine.
    """
    if is_local:
        return "127.0.0.1", "127.0.0.1"
    # On Kubernetes Spark may put its wildcard bind address where the driver's host belongs.
    named = (conf(HOST_KEY), conf("spark.driver.host"))
    host = next((name for name in named if name not in _WILDCARDS), "") or machine()
    bound = (conf(BIND_KEY), conf("spark.driver.bindAddress"))
    bind = next((name for name in bound if name), "")
    if not bind:
        everywhere = "::" if ":" in host else "0.0.0.0"
        bind = "127.0.0.1" if host.startswith("127.") or host in _LOOPBACK else everywhere
    return _bracketed(host), _bracketed(bind)


def _bracketed(address: str) -> str:
    """Return an address so that a port can be written behind it."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
