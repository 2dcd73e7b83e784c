"""The path of a checkpoint, which is there for the time of a ``with`` block."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from asyncsearch.errors import UsageError


class FetchedPath(AbstractContextManager[Path]):
    """Gives the path inside a ``with``; used as if it were a path itself, it says so."""

    def __init__(self, fetched: AbstractContextManager[Path]) -> None:
        self._fetched = fetched

    def __enter__(self) -> Path:
        return self._fetched.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._fetched.__exit__(kind, error, traceback)

    def __fspath__(self) -> str:
        raise UsageError(
            "study.checkpoint(...) is fetched for the time of a with block: write `with study.checkpoint() as path:`, "
            "and read the path in it."
        )
