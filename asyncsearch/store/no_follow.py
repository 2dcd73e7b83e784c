"""Opens files without following links: where others may write, a link may lead to anything of this user's.

A store's own folder may be reached over links. Below it, the paths that the store makes are looked at part by part
before they are used, and the last part is opened without following a link even if one is put there meanwhile.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from asyncsearch.errors import StoreError

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has none


def open_file(path: Path, flags: int, rights: int = 0o666) -> int:
    """Return a descriptor of a file, which is made with ``rights`` if ``flags`` say so.

    Raises:
        OSError: it cannot be opened; ELOOP: it is a link.
    """
    return os.open(path, flags | _NO_FOLLOW, rights)


def read_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: it cannot be read; ELOOP: it is a link.
    """
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read()


def inside(root: Path, name: str, *, is_folder: bool = False) -> Path:
    """Return the path of a file or folder below ``root``.

    Args:
        root: may be a link, or be reached over links.
        name: what lies below it, with ``/``.
        is_folder: whether the last part is a folder, which may not be a link; a file is opened by ``open_file``.

    Raises:
        StoreError: a folder on the way is a link.
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
            raise StoreError(
                f"{str(path)!r} is a link, and the store at {str(root)!r} follows none inside its folder: whoever may"
                " write there could lead it to any file of yours. Remove the link, or move what it leads to in its"
                " place; the whole store may be a link to a folder."
            )
    return root / name
