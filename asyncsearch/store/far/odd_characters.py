"""Characters in paths at which fsspec would cut URLs off."""

from __future__ import annotations

import re

_SPECIAL = (("%", "%25"), ("?", "%3F"), ("#", "%23"), (";", "%3B"))
"""Characters at which URLs are cut off, and their codes; that of the codes themselves is first."""


def quoted(url: str) -> str:
    """Return a URL in whose path no character is special."""
    start, slash, path = re.fullmatch(r"([^/]*://[^/]*)(/?)(.*)", url, re.DOTALL).groups()  # type: ignore[union-attr]
    for plain, code in _SPECIAL:
        path = path.replace(plain, code)
    return f"{start}{slash}{path}"


def unquoted(path: str) -> str:
    """Return a path as it was before ``quoted``."""
    for plain, code in reversed(_SPECIAL):
        path = path.replace(code, plain)
    return path
