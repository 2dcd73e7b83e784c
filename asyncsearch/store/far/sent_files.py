"""The files of a worker that are sent to a far store: readable before, and as they were afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from asyncsearch.errors import CheckpointError
from asyncsearch.files.contents import Content, content_of
from asyncsearch.files.plain import open_to_read
from asyncsearch.store.manifest import its_own_doing, listed


def require_readable(folder: Path, names: Iterable[str]) -> None:
    """Check that the files which a worker has written can be read, else raise as ``its_own_doing`` does."""
    with its_own_doing(folder):
        for name in names:
            open_to_read(folder / name).close()


def require_unchanged(folder: Path, names: Iterable[str], contents: Iterable[Content]) -> None:
    """Check that files which a worker has written are as they were when they were sent.

    Raises:
        CheckpointError: somebody still writes to one of them.
    """
    with its_own_doing(folder):
        for name, content in zip(names, contents, strict=True):
            if content_of(folder / name, content.size_bytes) != content:
                raise CheckpointError(
                    f"{str(folder / name)!r} cannot be part of a checkpoint: it has changed while it was stored. Let"
                    " save() close its files, and nothing write to them later."
                )


def listed_readable(folder: Path) -> tuple[list[str], list[str]]:
    """Return what a worker has written, as ``listed`` does, once all of it was found readable."""
    names, folders = listed(folder)
    require_readable(folder, names)
    return names, folders
