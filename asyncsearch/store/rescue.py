"""The rescue file of a study whose store was removed in the middle of a run.

A driver holds the files of its study open, so it can still read them when their names are gone. It writes them into a
zip file beside the store, ``digits.rescued-20261122-143000.zip``, laid out as the store is: journal, description and
bundle, without checkpoints and logs. ``Study.resume`` of that file writes it back to where the store was.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from asyncsearch.errors import StoreError, StoreLostError
from asyncsearch.files import UNDECODABLE
from asyncsearch.files.plain import open_file, open_to_read
from asyncsearch.files.trees import walk
from asyncsearch.store.disk import explained
from asyncsearch.store.syncing import sync_folder

_FOLDERS = ("journal", "functions")
_LEFT_OUT = ("lock", "driver.json")
_BLOCK = 1 << 20


class Origin(msgspec.Struct, frozen=True):
    """The comment of a rescue file."""

    rescued_from: str
    """Folder of the store."""


_ORIGIN = msgspec.json.Decoder(Origin)


class Rescue:
    """The files of a store without which a study cannot go on, held open while a driver writes its journal."""

    def __init__(self, root: Path, may_be_removed: Callable[[], bool] = lambda: False) -> None:
        """Open the files.

        Args:
            root: folder of the store.
            may_be_removed: tells whether nobody misses it where it is removed now.
        """
        self._root, self.may_be_removed = root, may_be_removed
        self._files: dict[str, int] = {}
        self._left_out: list[str] = []
        """Names of the files that could not be opened; they are missed only if the store is lost."""
        for path in _files_of(root):
            name = path.relative_to(root).as_posix()
            try:
                self._files[name] = open_file(path, os.O_RDONLY)
            except OSError:
                self._left_out.append(name)

    def lost(self, gone: Path) -> StoreLostError:
        """Write the rescue file, and return the error that names it and what is gone."""
        what = next((folder for folder in (self._root, gone.parent) if not folder.is_dir()), gone)
        words = f"{str(what)!r} was removed, moved or replaced while process {os.getpid()} wrote the journal in it."
        if self.may_be_removed():
            return StoreLostError(words, is_missed=False)
        try:
            file = self.write()
        except (OSError, StoreError) as error:
            return StoreLostError(
                f"{words} It could not be written anywhere else either ({error}), so what this run has found is lost."
                " Restore the folder from a backup, or start the study again in a new store=."
            )
        but = f"{', '.join(self._left_out)}, " if self._left_out else ""
        return StoreLostError(
            f"{words} Everything acknowledged is in {str(file)!r}, except {but}checkpoints and logs. Go on from there:"
            f" Study.resume({str(file)!r}), or Study(..., store={str(file)!r}, resume=True)."
        )

    def write(self) -> Path:
        """Write the rescue file, and return its path once it is durable.

        Raises:
            StoreError: no folder near the store can be written.
        """
        name = f"{self._root.name}.rescued-{time.strftime('%Y%m%d-%H%M%S')}"
        error: OSError | None = None
        for folder in _places(self._root):
            try:
                return self._write(folder, name)
            except OSError as found:
                error = found
        raise StoreError(f"Cannot write a rescue file beside {str(self._root)!r}: {error}. Make room there.")

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _write(self, folder: Path, name: str) -> Path:
        path, number = folder / f"{name}.zip", 1
        while path.exists():
            number += 1
            path = folder / f"{name}-{number}.zip"
        try:
            with open(path, "xb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    archive.comment = msgspec.json.encode(Origin(str(self._root)))
                    for inside, source in self._files.items():
                        with archive.open(zipfile.ZipInfo(inside), "w", force_zip64=True) as copy:
                            for block in _blocks(source):
                                copy.write(block)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        sync_folder(folder)
        return path


def rescue_files(root: Path) -> list[Path]:
    """Return the rescue files that lie beside a store, in the order of their times."""
    found = (path for path in root.parent.glob(f"{glob.escape(root.name)}.rescued-*.zip") if is_rescue(path))
    return sorted(found)


def is_rescue(path: Path) -> bool:
    """Return whether a file calls itself a rescue file."""
    with contextlib.suppress(OSError, zipfile.BadZipFile, *UNDECODABLE):
        return bool(origin_of(path))
    return False


def origin_of(path: Path) -> Path:
    """Return the folder of the store that a rescue file was written for.

    Raises:
        OSError, zipfile.BadZipFile, ValueError: it is no rescue file.
    """
    with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
        origin = _ORIGIN.decode(archive.comment).rescued_from
    if not os.path.isabs(origin) or "\0" in origin:
        raise ValueError(f"{origin!r} is no folder of a store")
    return Path(origin)


def read_rescue(path: Path) -> dict[str, bytes]:
    """Return the files in a rescue file by their names in the store.

    Raises:
        StoreError: it is damaged.
    """
    with explained("read the rescue file", path):
        try:
            with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
                return {name: archive.read(name) for name in archive.namelist()}
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise StoreError(
                f"The rescue file {str(path)!r} is damaged: {error}. Restore it from a copy; what `unzip` can still"
                " read of it may be moved into a folder of its own."
            ) from error


def _files_of(root: Path) -> Iterator[Path]:
    """Yield the newest segment first, in case there are not descriptors for all."""
    for folder in (*(root / name for name in _FOLDERS), root):
        with contextlib.suppress(OSError):
            found = walk(folder, into=(lambda entry: False) if folder == root else (lambda entry: True), follow=True)
            for entry in reversed(list(found)):
                if entry.is_file and entry.base not in _LEFT_OUT:
                    yield folder / entry.name


def _places(root: Path) -> Iterator[Path]:
    """Yield the folders that may take a rescue file, the nearest first; none of them was removed with the store."""
    yield from (folder for folder in root.parents if folder != Path(folder.anchor))
    yield Path(tempfile.gettempdir())


def _blocks(descriptor: int) -> Iterator[bytes]:
    at = 0
    while block := os.pread(descriptor, _BLOCK, at):
        at += len(block)
        yield block
