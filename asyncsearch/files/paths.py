"""Paths that people give: relative to a working directory that may be gone, or a name that is to be one file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable

from asyncsearch.errors import UsageError


def working_folder() -> str:
    """Return its path.

    Raises:
        UsageError: it was removed.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageError(
            f"The working directory of this process is gone ({error.strerror}): go to one that exists, `cd ...` in a "
            "shell or os.chdir(...) in Python, and start again."
        ) from None


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path in full, without ``..``.

    Raises:
        UsageError: it is relative, and the working directory was removed.
    """
    return os.path.normpath(os.path.join("" if os.path.isabs(path) else working_folder(), path))


def import_folders(entries: Iterable[object]) -> list[str]:
    """Return the entries of ``sys.path`` in which Python looks: it passes over a ``Path`` that a program has added."""
    return [entry for entry in entries if isinstance(entry, str)]


def import_path(entries: Iterable[object]) -> str:
    """Return entries of ``sys.path`` as ``PYTHONPATH``; the working directory, an empty one, in full if it exists."""
    found = []
    for entry in import_folders(entries):
        try:
            found.append(entry or os.getcwd())
        except OSError:
            continue  # nothing can be imported from it
    return os.pathsep.join(found)


_MOST_BYTES = 150
_STRANGE = re.compile(r"[/\\\x00-\x1f\x7f]|^[.~-]|^\s|[\s.]$")


def plain_part(name: str) -> str:
    """Return a name as one part of a path: unchanged if it is one, else what can be kept of it, and a hash of all.

    Names that differ give parts that differ.
    """
    if name and _STRANGE.search(name) is None and len(name.encode(errors="surrogateescape")) <= _MOST_BYTES:
        return name
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:60].strip("-.") or "study"
    return f"{readable}-{hashlib.blake2b(name.encode(errors='surrogateescape'), digest_size=4).hexdigest()}"
