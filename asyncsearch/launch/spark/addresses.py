"""The name at which workers reach the driver, and the address on which it listens. Pure, except for ``machine``."""

from __future__ import annotations

import socket
from collections.abc import Callable

from asyncsearch.errors import UsageError

_WILDCARDS = ("", "0.0.0.0", "::", "[::]")
HOST_KEY = "spark.asyncsearch.driver.host"
BIND_KEY = "spark.asyncsearch.driver.bindAddress"
PORT_KEY = "spark.asyncsearch.driver.port"


def addresses(
    conf: Callable[[str], str], is_local: bool, machine: Callable[[], str] = socket.gethostname
) -> tuple[str, str]:
    """Return (host, bind).

    Args:
        conf: returns a setting of Spark, empty if it is not set.
        is_local: whether all executors are on this machine.
    """
    if is_local:
        return "127.0.0.1", "127.0.0.1"
    # On Kubernetes Spark may set the driver's host to its wildcard bind address.
    named = (conf(HOST_KEY), conf("spark.driver.host"))
    host = next((name for name in named if name not in _WILDCARDS), "") or machine()
    bind = conf(BIND_KEY) or conf("spark.driver.bindAddress")
    if not bind:
        everywhere = "::" if ":" in host else "0.0.0.0"
        bind = "127.0.0.1" if host.startswith("127.") or host == "localhost" else everywhere
    return _bracketed(host), _bracketed(bind)


def port(conf: Callable[[str], str]) -> int:
    """Return the port on which the driver must listen, 0 for any free one.

    Raises:
        UsageError: the setting is not a port.
    """
    text = conf(PORT_KEY).strip() or "0"
    if not text.isdecimal() or int(text) > 65_535:
        raise UsageError(f"{PORT_KEY}={text!r} is not a port: write a number up to 65535, or omit it for any port.")
    return int(text)


def _bracketed(address: str) -> str:
    """Return an address in a form to which a port can be appended."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
