"""Exclusive rights among processes that share a file system: a right belongs to the file with the highest number.

    <folder>/000007.json    the seventh holder

To acquire a right, a process creates the next number and then lists the folder again: the acquisition is valid only if
its number is still the highest and all others are void. Only one process can create a number where the file system
creates files exclusively. A process that releases a right leaves its file there, so that a process with an old listing
cannot use the number again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from asyncsearch.errors import NotAFileError

AT_THIS_MOMENT = "a driver that takes it at this moment"

_NUMBERED = re.compile(r"(\d{6,})(?:-[0-9a-f]{32})?\.json")


MakesContent = Callable[[str], bytes]
"""The content of a file, given its name."""


class Files(Protocol):
    """The file operations that a right needs; every store has them."""

    @property
    def shown(self) -> str: ...
    def list(self, folder: str) -> Sequence[str]: ...
    def read(self, name: str) -> bytes | None: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def write(self, name: str, data: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


class NumberedFile(NamedTuple):
    """One of the numbered files; the highest number counts."""

    number: int
    name: str


class ExclusiveRight:
    """The right to something, held in one folder.

    Args:
        files: the file system.
        folder: the folder that is used by this right alone.
        holder: describes another process that holds the right by a file; returns None if there is none.
    """

    def __init__(self, files: Files, folder: str, holder: Callable[[NumberedFile], str | None]) -> None:
        self._files, self._folder, self._holder = files, folder, holder

    def entries(self) -> list[NumberedFile]:
        """Return the files of this right in order."""
        matches = ((match, name) for name in self._files.list(self._folder) if (match := _NUMBERED.fullmatch(name)))
        return sorted(NumberedFile(int(match[1]), f"{self._folder}/{name}") for match, name in matches)

    def holder(self) -> str | None:
        """Describe the other process that holds the right, or return None."""
        return self._first(self.entries())

    def acquire(self, content: MakesContent, released: MakesContent, suffix: str = "") -> NumberedFile | str:
        """Return the file by which we now hold the right, or a description of the other holder.

        Args:
            content: of the new file, given its name.
            released: its content, given its name, if a rival turns out to hold the right.
            suffix: of its name; distinguishes drivers where files are not created exclusively.
        """
        before = self.entries()
        who = self._first(before)
        if who is not None:
            return who
        number = max((entry.number for entry in before), default=0) + 1
        own = NumberedFile(number, f"{self._folder}/{number:06d}{suffix}.json")
        if not self._files.create(own.name, content(own.name)):
            return self._holder(own) or AT_THIS_MOMENT
        # Listed anew: two that saw the same listing find each other here, and at most one of them goes on.
        who = self.rival(own)
        if who is not None:
            self._files.write(own.name, released(own.name))
            return who
        # Only those that were listed before: a file of a later rival decides who holds the right.
        for old in before:
            with contextlib.suppress(NotAFileError):  # what somebody has put in its place is void as well
                self._files.remove(old.name)
        return own

    def rival(self, own: NumberedFile) -> str | None:
        """Describe the driver that makes our file void, or return None if the file is valid."""
        others = [entry for entry in self.entries() if entry != own]
        is_highest = all(entry.number <= own.number for entry in others)
        return self._first(others) or (None if is_highest else "a driver that took it meanwhile")

    def later(self, own: NumberedFile) -> list[NumberedFile]:
        """Return the files that make ours void, once it was valid.

        A lower number does not: a former holder that was stopped inside its last refresh may write its file again.
        """
        others = [entry for entry in self.entries() if entry.number >= own.number and entry != own]
        return [entry for entry in others if entry.number > own.number or self._holder(entry) is not None]

    def _first(self, entries: Sequence[NumberedFile]) -> str | None:
        return next((who for entry in reversed(entries) if (who := self._holder(entry)) is not None), None)
