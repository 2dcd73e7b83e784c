"""``python -m asyncsearch.runner.template SOCKET``: forks runners, each in a tenth of the time in which one starts.

A message with four descriptors (channel, lifeline, output, errors) asks for a runner and is answered by its process id;
one with a process id asks for the exit status of that runner, which is not reaped before. It has one thread, imports
what a runner imports, and ends with the process that holds the other end of the socket.

A process with one thread, and without gRPC, may call ``main_in_fork`` in a child that it forks instead.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import traceback
from typing import NoReturn

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


def main_in_fork(descriptor: int) -> NoReturn:
    """Serve in a forked process, which leads a session, and end it as an interpreter ends."""
    code = 0
    try:
        atexit._clear()  # what was registered belongs to the other process
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
        main(descriptor)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
