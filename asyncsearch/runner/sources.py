"""The lines of the user's code, which travel with it: tracebacks of a worker show them, whatever its disk has.

A worker on another machine has no such file, no worker has the cells of a notebook, and the file of a study that is
resumed may have been edited since.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from typing import Any

from asyncsearch.trainable import Pickled

_received: dict[str, str] = {}


class WithSources:
    """A pickled trainable and the text of the files that its code is from; unpickled, it is the trainable."""

    def __init__(self, trainable: bytes, files: Mapping[str, str]) -> None:
        self._trainable = trainable
        self._files = dict(files)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (Pickled(self._trainable), self._files)


def _restored(trainable: Any, files: dict[str, str]) -> Any:
    _received.update(files)
    return trainable


def show_received_sources() -> None:
    """Have tracebacks of this process show the lines that were unpickled; in a runner alone, which has no other code.

    An entry without a time is never compared with the disk (``linecache.checkcache``).
    """
    for file, text in _received.items():
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
