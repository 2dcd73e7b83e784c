"""``python -m asyncsearch.runner.template SOCKET``: forks runners, each in a tenth of the time in which one starts.

A message with four descriptors (channel, lifeline, output, errors) asks for a runner and is answered by its process id;
one with a process id asks for the exit status of that runner, which is not reaped before. It has one thread, imports
what a runner imports, and ends with the process that holds the other end of the socket.
"""

from __future__ import annotations

import os
import socket
import sys

from asyncsearch.runner.forked import serve
from asyncsearch.runner.session_fork import fork_in_session


def main(descriptor: int) -> None:
    """Serve until the other end is closed."""
    os.set_inheritable(descriptor, False)
    control = socket.socket(fileno=descriptor)
    mine = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 64, 4)
        if not data:
            return
        if len(descriptors) < 4:
            answer = os.waitpid(int(data), 0)[1]
        else:
            answer = fork_in_session()
            if answer == 0:
                channel, lifeline, out, err = descriptors
                control.detach()
                serve(channel, lifeline, mine, out, err)
                return
            for one in descriptors:
                os.close(one)
        control.send(str(answer).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
