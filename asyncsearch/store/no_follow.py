"""Paths below a store's folder, without links: where others may write, a link may lead to anything of this user's.

A store's own folder may be reached over links. Below it, the paths that the store makes are looked at part by part
before they are used; ``asyncsearch.files`` opens the last part without following a link that is put there meanwhile.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from asyncsearch.errors import NotAFileError


def inside(root: Path, name: str, *, is_folder: bool = False) -> Path:
    """Return the path of a file or folder below ``root``.

    Args:
        root: may be a link, or be reached over links.
        name: what lies below it, with ``/``.
        is_folder: whether the last part is a folder, which may not be a link; ``asyncsearch.files`` opens a file.

    Raises:
        NotAFileError: a folder on the way is a link.
    """
    *folders, last = name.split("/")
    path = root
    for part in [*folders, last] if is_folder else folders:
        path = path / part
        try:
            is_link = stat.S_ISLNK(os.lstat(path).st_mode)
        except OSError:  # whoever uses the path learns why, and can say what for
            break
        if is_link:
            raise NotAFileError(
                f"{str(path)!r} is a link, and the store at {str(root)!r} follows none inside its folder: whoever may"
                " write there could lead it to any file of yours. Remove the link, or move what it leads to in its"
                " place; the whole store may be a link to a folder."
            )
    return root / name
