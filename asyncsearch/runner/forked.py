"""A runner in a process that was forked, made equal to one that was started as ``python -m asyncsearch.runner``."""

from __future__ import annotations

import faulthandler
import os
import sys
import types

from asyncsearch.runner.runner import main


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
    low, high = sorted((control, lifeline))
    for first, end in ((3, low), (low + 1, high), (high + 1, os.sysconf("SC_OPEN_MAX"))):
        if first < end:  # an empty range can close everything
            os.closerange(first, end)
    faulthandler.enable()
    # The user's script is put into __main__, where names of the other program must not be in its way.
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = [sys.executable]
    main(control, lifeline, parent)
