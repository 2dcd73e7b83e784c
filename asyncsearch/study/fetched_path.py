"""The path of a checkpoint or of a trial's folder, which is there for the time of a ``with`` block."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from asyncsearch.errors import UsageError


class FetchedPath(AbstractContextManager[Path]):
    """Gives the path inside a ``with``; used as if it were a path itself, it says so."""

    def __init__(self, fetched: AbstractContextManager[Path], method: str = "checkpoint") -> None:
        self._fetched, self._method = fetched, method

    def __enter__(self) -> Path:
        return self._fetched.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._fetched.__exit__(kind, error, traceback)

    def __fspath__(self) -> str:
        raise UsageError(
            f"study.{self._method}(...) is fetched for the time of a with block: write "
            f"`with study.{self._method}({'' if self._method == 'checkpoint' else '0'}) as path:`, and read the path "
            "in it."
        )
