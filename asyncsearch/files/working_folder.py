"""The working directory of this process, which somebody may have removed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Sequence

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


def import_path(entries: Sequence[str]) -> str:
    """Return entries of ``sys.path`` as ``PYTHONPATH``; the working directory, an empty one, in full if it exists."""
    found = []
    for entry in entries:
        try:
            found.append(entry or os.getcwd())
        except OSError:
            continue  # nothing can be imported from it
    return os.pathsep.join(found)
