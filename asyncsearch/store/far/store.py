"""A store that copies files to and from this machine: all but how its journal and its logs are written."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import TypeVar

from asyncsearch.errors import StoreError
from asyncsearch.store import layout
from asyncsearch.store.far.checkpoints import FarCheckpoints

T = TypeVar("T")


class FarStore(FarCheckpoints):
    """The journal and the logs of such stores, as far as they are alike."""

    def read_segment(self, name: str) -> Iterator[bytes]:
        if name not in self.journal_segments():
            raise StoreError(
                f"There is no journal segment {layout.check_segment(name)} in the store {self._remote.shown!r}. Take"
                " its name from journal_segments()."
            )
        return self._segment_lines(name)

    @abc.abstractmethod
    def _segment_lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a segment that is there."""

    def _begin_segment(self, begin: Callable[[str], T | None]) -> tuple[str, T]:
        """Begin the next segment; return its name and its file. ``begin`` returns None where there is such a file."""
        if self._lock is not None:
            self._lock.check()
        number = max(layout.segment_numbers(self._remote.list("journal")), default=0) + 1
        while (file := begin(f"journal/{layout.segment_name(number)}")) is None:
            number += 1
        return layout.segment_name(number), file

    @property
    def log_interval_s(self) -> float:
        return 5.0
