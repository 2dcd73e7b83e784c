"""What the agent's handles of forked runners have in common with ``subprocess.Popen``."""

from __future__ import annotations

import socket
from typing import IO


class ForkedProcess:
    """A forked runner, with its ends of the channel, the lifeline and the outputs that the agent holds."""

    def __init__(self, pid: int, channel: socket.socket, lifeline: int, out: int, err: int) -> None:
        self.pid = pid
        self.channel = channel
        """The agent's end."""
        self.lifeline = lifeline
        """The write end of the pipe whose end is the runner's end."""
        self.stdout: IO[bytes] = open(out, "rb", buffering=0)  # noqa: SIM115 - RunnerProcess closes it
        self.stderr: IO[bytes] = open(err, "rb", buffering=0)  # noqa: SIM115
        self.returncode: int | None = None
