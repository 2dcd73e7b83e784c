"""Opens files without following links: where others may write, a link may lead to anything of this user's."""

from __future__ import annotations

import os
from pathlib import Path

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has none


def open_file(path: Path, flags: int) -> int:
    """Return a descriptor of a file, made with the rights of a new file if ``flags`` say so.

    Raises:
        OSError: it cannot be opened; ELOOP: it is a link.
    """
    return os.open(path, flags | _NO_FOLLOW, 0o666)
