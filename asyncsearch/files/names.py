"""Names that people give, as the name of one file or folder: never a way to another one."""

from __future__ import annotations

import hashlib
import re

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
