"""The companions of the user's code: its lines, which tracebacks of a worker show, and the script's command line.

A worker on another machine has no such file, no worker has the cells of a notebook, and the file of a study that is
resumed may have been edited since.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.runner.process.own_modules import is_for_trials
from asyncsearch.trainable import Pickled

_received: dict[str, str] = {}


class WithSources:
    """A pickled trainable, the text of the files that its code is from, and the script's command line.

    Unpickled, it is the trainable.
    """

    def __init__(self, trainable: bytes, files: Mapping[str, str], arguments: Sequence[str]) -> None:
        self._trainable = trainable
        self._files = dict(files)
        self._arguments = list(arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        # A module of the user's own may read the command line while it is unpickled.
        return _restored, (_CommandLine(self._arguments), self._files, Pickled(self._trainable))


class _CommandLine:
    """The arguments of the script, which become those of the process that unpickles them for trials."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _take_over, (self._arguments,)


def _take_over(arguments: list[str]) -> None:
    if is_for_trials():
        sys.argv[:] = arguments


def _restored(first: Any, files: dict[str, str], trainable: Any = None) -> Any:
    """Return the trainable, which earlier versions pickled first."""
    _received.update(files)
    return first if trainable is None else trainable


def show_received_sources() -> None:
    """Have tracebacks of this process show the lines that were unpickled; in a runner alone, which has no other code.

    An entry without a time is never compared with the disk (``linecache.checkcache``).
    """
    for file, text in _received.items():
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
