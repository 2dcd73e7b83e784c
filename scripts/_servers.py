"""Servers of the test clusters: processes on 127.0.0.1 that outlive the command that starts them.

A folder of a cluster holds ``pid/`` (one file a server), ``log/``, ``tmp/`` and ``ports.json``. What a server starts
carries the name of the folder in its environment, so that all of it can be ended, each process by its own id.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

MARK = "ASYNCSEARCH_CLUSTER"
"""Environment variable that holds the folder of the cluster to which a process belongs."""
PATIENCE_S = 180.0
_END_WITHIN_S = 15.0
_PORTS = range(12_000, 32_000)
"""Below those that systems give to clients, so that a port is still free when its server starts again."""


class ClusterError(Exception):
    """A cluster cannot do what was asked; the message says what to do."""


def cluster_folder(name: str) -> Path:
    """Return the folder of a cluster, made if it is missing: ``$ASYNCSEARCH_CLUSTER_DIR/name``."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    top = os.environ.get("ASYNCSEARCH_CLUSTER_DIR") or Path(state) / "asyncsearch" / "clusters"
    folder = Path(top).expanduser().resolve() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def say(text: str) -> None:
    """Print progress; standard output is for what other programs read."""
    print(text, file=sys.stderr, flush=True)


class Servers:
    """The servers of one cluster, by their names."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that exists."""
        self.folder = folder
        for name in ("pid", "log", "tmp"):
            (folder / name).mkdir(exist_ok=True)

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """Wait until no other command changes this cluster, and keep others out."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def names(self) -> list[str]:
        """Return the names of the servers that were started and not stopped; some may have died."""
        return sorted(path.name for path in (self.folder / "pid").iterdir())

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> bool:
        """Start a server unless it runs; return whether it was started."""
        if self.process(name) is not None:
            return False
        with self.log(name).open("ab") as log:
            started = subprocess.Popen(
                [str(part) for part in command],
                cwd=self.folder,
                env={**os.environ, **(environment or {}), MARK: str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the caller's Ctrl-C is not for it
            )
        started.returncode = 0  # Python would warn of a process that nobody waits for
        born = psutil.Process(started.pid).create_time()
        (self.folder / "pid" / name).write_text(json.dumps({"pid": started.pid, "born": born}))
        return True

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def process(self, name: str) -> psutil.Process | None:
        """Return the process of a server. None if it does not run; another process with its old id does not count."""
        try:
            noted = json.loads((self.folder / "pid" / name).read_text())
            process = psutil.Process(noted["pid"])
            is_it = abs(process.create_time() - noted["born"]) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, psutil.NoSuchProcess):
            return None
        return process if is_it else None

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a server, with SIGKILL if it does not obey."""
        process = self.process(name)
        if process is not None:
            _end(process, number)
        (self.folder / "pid" / name).unlink(missing_ok=True)

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a server.

        Raises:
            ClusterError: it does not run.
        """
        process = self.process(name)
        if process is None:
            raise ClusterError(f"{name} does not run; these do: {', '.join(self.names()) or 'none'}.")
        process.send_signal(number)

    def rename(self, old: str, new: str) -> None:
        """Give a server another name; under its old one a further server may start."""
        (self.folder / "pid" / old).rename(self.folder / "pid" / new)

    def end_all(self) -> None:
        """End all servers, those started last first, and whatever they have started."""
        path = self.folder / "pid"
        for name in sorted(self.names(), key=lambda name: (path / name).stat().st_mtime_ns, reverse=True):
            self.end(name)
        for process in self.strays():
            _end(process, signal.SIGKILL)
        for left in (self.folder / "tmp").iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def strays(self) -> list[psutil.Process]:
        """Return the processes that servers of this cluster have started, and the servers."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == str(self.folder) and process.pid != os.getpid():
                    found.append(process)
        return found

    def status(self) -> list[str]:
        """Return a line for each server: its process id and memory, or that it is dead."""
        lines = []
        for name in self.names():
            process = self.process(name)
            if process is None:
                lines.append(f"{name}: dead, see {self.log(name)}")
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                lines.append(f"{name}: pid {process.pid}, {process.memory_info().rss / 1e6:.0f} MB")
        return lines

    def wait(self, what: str, is_ready: Callable[[], bool], may_end: str = "-") -> None:
        """Wait until the servers are ready.

        Args:
            may_end: beginning of the names of servers that may end meanwhile.

        Raises:
            ClusterError: a server died, or it takes too long; the message has the last lines of its log.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not is_ready():
            dead = [name for name in self.names() if self.process(name) is None and not name.startswith(may_end)]
            if dead or time.monotonic() > deadline:
                name = (dead or self.names())[0]
                lines = self.log(name).read_text(errors="replace").splitlines()[-5:]
                reason = f"{name} died" if dead else f"it took more than {PATIENCE_S:.0f} s"
                raise ClusterError(f"{what} is not ready: {reason}. The end of {self.log(name)}:\n" + "\n".join(lines))
            time.sleep(0.1)

    def ports(self, *names: str) -> dict[str, int]:
        """Return a port for each name, the same in every call, chosen when it is first asked for."""
        path = self.folder / "ports.json"
        ports: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        for name in names:
            if name not in ports:
                ports[name] = _free_port(set(ports.values()))
        path.write_text(json.dumps(ports))
        return {name: ports[name] for name in names}


def _end(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a stopped process would not see SIGTERM
        if _has_ended(process):
            return
        process.kill()
        _has_ended(process)


def _has_ended(process: psutil.Process) -> bool:
    deadline = time.monotonic() + _END_WITHIN_S
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _free_port(taken: set[int]) -> int:
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if port in taken:
            continue
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
            probe.bind(("127.0.0.1", port))
            return port
    raise ClusterError(f"No port from {_PORTS.start} to {_PORTS.stop} is free on 127.0.0.1.")
