"""``python -m asyncsearch.runner.template SOCKET``: forks runners, each in a tenth of the time of a start.

A message with four descriptors (channel, lifeline, output, errors) asks for a runner and is answered by its process id;
one with a process id asks for the exit status of that runner, which is not reaped before, and for its ``ru_maxrss``.
One with three (a socket as this one, a lifeline, a file of ``Preload``) asks for a further template, which imports it,
says by ``Preloaded`` what came of it, and serves in turn; this one goes on, whatever happens there. It has one thread,
imports what a runner imports, and ends with the process that holds the other end of the socket.

What a runner has started ends with it, even in a session of its own: this process adopts the orphans, and kills them
when no runner is left, and at its own end.

A process with one thread, and without gRPC, may call ``main_in_fork`` in a child that it forks instead.
"""

from __future__ import annotations

import atexit
import faulthandler
import itertools
import os
import select
import signal
import socket
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import msgspec

from asyncsearch.runner import runner
from asyncsearch.runner.process.lifeline import (
    adopt_orphans,
    end_with_agent,
    fork_in_session,
    kill_children,
    reap_ended,
)
from asyncsearch.runner.process.preloading import WANTED, preload
from asyncsearch.runner.process.signals import let_through


def main(descriptor: int, serve: Callable[[list[int], int], None] | None = None, idle_s: float | None = None) -> None:
    """Serve until the other end is closed.

    Args:
        descriptor: of the socket.
        serve: what a forked process does, with the descriptors of its request and this process's id. None means it is a
            runner, or a further template.
        idle_s: how long to serve without a runner; None for ever.
    """
    let_through()
    os.set_inheritable(descriptor, False)
    control, (woken, wake) = socket.socket(fileno=descriptor), os.pipe()
    mine, children = os.getpid(), Children(set(), set())
    adopt_orphans()
    _watch_children(wake)
    while data := _next_request(control, woken, children, idle_s):
        request, descriptors = data
        if not descriptors:
            answer = children.status_of(int(request))
        else:
            try:
                pid = fork_in_session()
            except OSError:  # no further process is allowed; those that are there live on
                pid = -1
            if pid == 0:
                _forget_children()
                control.detach()
                (serve or _serve_forked)(descriptors, mine)
                return
            if pid > 0:
                (children.templates if request == b"template" else children.runners).add(pid)
            answer = str(pid) if pid > 0 else ""
            for one in descriptors:
                os.close(one)
        control.send(answer.encode())
    kill_children()


_OF_RUNNER = ("channel", "lifeline", "output", "errors")
"""The descriptors with which a runner is asked for; with fewer, a template is."""


class Children(NamedTuple):
    """The living children of a template, by their process ids."""

    runners: set[int]
    templates: set[int]
    """Those that have imported modules, and have runners of their own."""

    def status_of(self, runner: int) -> str:
        """Wait for the end of a runner, and return its exit status with its ``ru_maxrss``."""
        _, status, usage = os.wait4(runner, 0)
        self.runners.discard(runner)
        if not self.runners:  # whose an orphan is cannot be told: only now is none that of a runner that lives
            kill_children(self.templates)
        return f"{status} {usage.ru_maxrss}"

    def reap(self) -> None:
        """Reap those that have ended, the runners apart: their exit status is still to be asked for."""
        self.templates.difference_update(reap_ended(self.runners))


def _next_request(
    control: socket.socket, woken: int, children: Children, idle_s: float | None
) -> tuple[bytes, list[int]] | None:
    """Return the next request with its descriptors, None at the end; reap meanwhile the orphans of runners."""
    poll = select.poll()
    for one in (control.fileno(), woken):
        poll.register(one, select.POLLIN)
    while True:
        is_idle = idle_s is not None and not children.runners
        ready = [one for one, _ in poll.poll(1_000 * idle_s if is_idle and idle_s is not None else None)]
        if not ready:
            return None
        if woken in ready:
            os.read(woken, 65_536)
            children.reap()
        if control.fileno() in ready:
            try:
                data, descriptors, _, _ = socket.recv_fds(control, 64, 4)
            except ConnectionError:
                return None
            return (data, descriptors) if data else None


def _serve_forked(descriptors: list[int], parent: int) -> None:
    """Be a runner, or a template that imports modules first."""
    channel, lifeline, *others = descriptors
    if len(descriptors) < len(_OF_RUNNER):
        serve_preloaded(channel, lifeline, others[0], parent)
    else:
        serve(channel, lifeline, parent, *others)


def serve_preloaded(control: int, lifeline: int, wanted: int, parent: int) -> None:
    """Be a template whose runners have imported what the file ``wanted`` names; end if none could be forked then."""
    mine = os.getpid()
    try:
        _keep_only(control, lifeline, wanted)
        end_with_agent(lifeline, parent)  # also in an import that never ends
        adopt_orphans()  # a server that an import starts is then seen, though it has left its parent
        os.lseek(wanted, 0, os.SEEK_SET)
        with open(wanted, "rb") as file:
            answer = preload(WANTED.decode(file.read()))
        with socket.socket(fileno=os.dup(control)) as agent:
            agent.send(msgspec.json.encode(answer))
            if answer.spoiled_by:
                agent.recv(1)  # until it has read that: it could not take hold of a process that has ended already
        if not answer.spoiled_by:
            main(control)
    finally:
        # A runner returns from here, and ends as an interpreter does. A template has run no code of the user's, and
        # must wait for no thread that an import has started.
        if os.getpid() == mine:
            os._exit(0)


def _watch_children(wake: int) -> None:
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)  # so that ``wake`` is written to


def _forget_children() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


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


def serve(control: int, lifeline: int, parent: int, out: int, err: int) -> None:
    """Be a runner, with none of the descriptors of the process that it was forked from by ``fork_in_session``.

    Args:
        control: its end of the channel to its agent.
        lifeline: see ``lifeline``.
        parent: process id of its parent.
        out: becomes its standard output.
        err: becomes its standard error.
    """
    os.dup2(out, 1)
    os.dup2(err, 2)
    _keep_only(control, lifeline)
    _draw_anew()
    faulthandler.enable()
    # The user's script is put into __main__, where names of the other program must not be in its way.
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = [sys.executable]
    runner.main(control, lifeline, parent)


def _keep_only(*kept: int) -> None:
    """Close all descriptors besides some and the standard ones."""
    ends = [2, *sorted(kept), os.sysconf("SC_OPEN_MAX")]
    for before, after in itertools.pairwise(ends):
        if before + 1 < after:  # an empty range can close everything
            os.closerange(before + 1, after)


def _draw_anew() -> None:
    """Seed numpy's generator, if it is imported, as its import does: all forks would draw the same numbers."""
    generators = sys.modules.get("numpy.random")
    if generators is not None:
        generators.seed()


if __name__ == "__main__":
    main(int(sys.argv[1]))
