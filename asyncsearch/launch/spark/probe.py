"""Asks every executor for its Python and its packages, before any trial is sent to it.

A session on this machine that starts this very Python, with its packages, is not asked.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from asyncsearch._version import __version__
from asyncsearch.errors import PackagesDifferError
from asyncsearch.launch.spark.job_ends import full_text, last_line_of_traceback

PACKAGE = "asyncsearch"


def has_this_environment(python: str) -> bool:
    """Return whether a Python that is started as ``python`` has this interpreter's packages, asyncsearch with them.

    A package that is on this process's path alone, such as the folder of a script, does not count.
    """
    found = shutil.which(python)
    if found is None or not _is_same(os.path.abspath(found), os.path.abspath(sys.executable)):
        return False
    return _is_on_path_of_all() or _is_installed()


def _is_same(one: str, other: str) -> bool:
    """Whether two paths start one interpreter in one environment, which the folder of the link to it decides."""
    return os.path.dirname(one) == os.path.dirname(other) and os.path.samefile(one, other)


def _is_on_path_of_all() -> bool:
    """Whether ``PYTHONPATH``, which all processes inherit, leads to the package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return False
    home = Path(spec.origin).parent.parent
    return any(path and Path(path).is_absolute() and Path(path) == home for path in _inherited())


def _inherited() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)


def _is_installed() -> bool:
    """Whether the package is installed beside msgspec, which no script carries in its folder."""
    spec = importlib.util.find_spec("msgspec")
    if spec is None or spec.origin is None:
        return False
    # Not importlib.metadata, whose import takes as long as all else that is looked at before the first launch.
    return any(Path(spec.origin).parent.parent.glob(f"{PACKAGE}-*.dist-info"))


PACKAGES = {
    "cloudpickle": "cloudpickle",
    "fsspec": "fsspec",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "psutil": "psutil",
}
"""Module that a worker imports -> package that installs it."""

Answer = tuple[str, str, str, tuple[str, ...], int, str]
"""The fields of ``ExecutorFacts``, as an executor without asyncsearch can send them."""

_SHIP = (
    "Give the executors the driver's environment: `venv-pack -o env.tar.gz` (or conda-pack), then "
    "spark.archives=env.tar.gz#environment and PYSPARK_PYTHON=./environment/bin/python; or install it on every "
    "machine. Packages with compiled code, such as grpcio, cannot be sent by addPyFile."
)
_SAME_PYTHON = (
    "Set os.environ['PYSPARK_PYTHON'] = sys.executable before the Spark session is made, or unset it and "
    "spark.pyspark.python: then this Python is used."
)


_LACKING_ARROW = re.compile(r"No module named '(pyarrow|pandas)|\] (PyArrow|Pandas) >= \S+ must be installed")


class ExecutorFacts(msgspec.Struct, frozen=True):
    """The environment of one executor."""

    host: str
    python: str
    """Path of its interpreter."""
    version: str
    """Version of asyncsearch; empty if it cannot be imported."""
    missing: tuple[str, ...]
    """Missing packages, by the names that install them."""
    parent: int = 0
    """The process that started its own: one for each executor of a machine."""
    connection_error: str = ""
    """Why it does not reach the driver; empty if it does."""


class Callback(NamedTuple):
    """The address at which a task tries to reach the driver, and the answer there, with the time."""

    host: str
    port: int
    token: bytes


CONNECTED_WITHIN_S = 4.0
"""Time that a task waits for one address of the driver."""
REACHED_WITHIN_S = 8.0
"""Time that it takes for them all, with the look for a name: a resolver that is cut off answers after half a minute."""


def probe(packages: dict[str, str], driver: Callback | None = None) -> Callable[[Iterable[Any]], list[Answer]]:
    """Return the executors' function. A nested function is sent by value, because they may lack asyncsearch.

    Args:
        packages: module -> package that installs it.
        driver: where the driver answers; None if it is not to be tried.
    """
    answers_at = None if driver is None else (*driver, CONNECTED_WITHIN_S, REACHED_WITHIN_S)

    def look(rows: Iterable[Any]) -> list[Answer]:
        import importlib
        import importlib.util
        import os
        import socket
        import sys
        import threading

        del rows

        def is_there(name: str) -> bool:
            try:
                spec = importlib.util.find_spec(name)
            except ImportError:
                return False
            # A folder counts as a namespace package: Spark's own jar, which is on the path, contains google/protobuf.
            return spec is not None and spec.origin is not None

        def why_unreached() -> str:
            if answers_at is None:
                return ""
            host, port, token, within_s, all_within_s = answers_at
            found = [f"no answer within {all_within_s:g} s"]

            def connect() -> None:
                try:
                    with socket.create_connection((host, port), timeout=within_s) as connection:
                        connection.sendall(token)
                        found.append("" if len(connection.recv(8)) == 8 else "another program listens there")
                except OSError as error:
                    found.append(str(error))

            trying = threading.Thread(target=connect, daemon=True)
            trying.start()
            trying.join(all_within_s)
            return found[-1]

        missing = [package for name, package in packages.items() if not is_there(name)]
        try:
            from asyncsearch._version import __version__ as version
        except ImportError:
            version = ""
            missing.insert(0, "asyncsearch")
        return [(socket.gethostname(), sys.executable, version, tuple(missing), os.getppid(), why_unreached())]

    return look


def require_same(found: Sequence[ExecutorFacts], is_local: bool) -> None:
    """Check the executors' environments against the needs of workers.

    Args:
        found: the executors' answers.
        is_local: whether they are on the driver's machine.

    Raises:
        PackagesDifferError: some of them lack something; names the machines.
    """
    lacking: dict[str, list[str]] = {}
    for package in ("asyncsearch", *PACKAGES.values()):
        hosts = _hosts([one for one in found if package in one.missing])
        if hosts:
            lacking.setdefault(hosts, []).append(package)
    advice = _SAME_PYTHON if is_local else _SHIP
    if lacking:
        faults = "; ".join(
            f"{', '.join(packages)} cannot be imported on {hosts}" for hosts, packages in lacking.items()
        )
        raise PackagesDifferError(f"{faults} (Python {found[0].python}). {advice}")
    others = [one for one in found if one.version != __version__]
    if others:
        raise PackagesDifferError(
            f"asyncsearch is {__version__} on the driver and {others[0].version} on {_hosts(others)}. {advice}"
        )


def why_unreached(found: Sequence[ExecutorFacts], host: str, port: int) -> str:
    """Return a sentence on executors that have not reached the driver, with the address that they tried; or nothing."""
    unreached = [one for one in found if one.connection_error]
    if not unreached:
        return ""
    return (
        f"Executors do not reach this process at {host}:{port}, where workers connect: on {_hosts(unreached)}, "
        f"{unreached[0].connection_error}."
    )


def as_packages_error(error: BaseException, is_local: bool) -> PackagesDifferError | None:
    """Return the error about the executors that a failure of the probe implies; None if it implies none."""
    text = full_text(error)
    advice = _SAME_PYTHON if is_local else _SHIP
    if "PYTHON_VERSION_MISMATCH" in text:
        line = last_line_of_traceback(text).partition("[PYTHON_VERSION_MISMATCH]")[2].strip()
        return PackagesDifferError(f"Executors run another Python than the driver: {line} {advice}")
    lacking = _LACKING_ARROW.search(text)
    if lacking:
        package = next(name for name in lacking.groups() if name).lower()
        return PackagesDifferError(
            f"{package} cannot be imported on the executors, and a worker by Spark Connect needs it there. {advice}"
        )
    if "Cannot run program" in text:
        program = text.partition("Cannot run program")[2].splitlines()[0]
        return PackagesDifferError(f"Executors do not have the Python they are told to run:{program}. {advice}")
    return None


def _hosts(found: Sequence[ExecutorFacts]) -> str:
    hosts = sorted({one.host for one in found})
    more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
    return ", ".join(hosts[:3]) + more
