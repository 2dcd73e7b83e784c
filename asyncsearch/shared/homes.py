"""Which stores the holds of a shared folder may lead to. Pure.

Anybody who can write into the folder can write a hold, and a hold names the store of its study. Only stores below roots
that the user has named are opened: another address could be a server of a stranger, who would learn of this user's
rights there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple

_CODED = re.compile(r"%2e|%2f|%5c", re.IGNORECASE)


_OF_THIS_MACHINE = ("file", "local")


class _Place(NamedTuple):
    server: str
    """Protocol, user, host and port. Empty means a folder of this machine."""
    parts: tuple[str, ...]


def root_of(url: str) -> str:
    """Return the folder that a store lies in: who names a store also names its neighbours."""
    start, separator, place = url.rstrip("/").rpartition("://")
    parent = place.rpartition("/")[0]
    return f"{start}{separator}{parent}" or "/"


def is_below(home: str, roots: Iterable[str]) -> bool:
    """Return whether a store lies below one of some roots, folders or URLs; an address that is not plain does not."""
    place = _place(home)
    return place is not None and any(
        root is not None and root.server == place.server and place.parts[: len(root.parts)] == root.parts
        for root in map(_place, roots)
    )


def _place(url: str) -> _Place | None:
    """Return the place that an address leads to. None if more than one thing could be meant."""
    protocol, separator, rest = url.rstrip("/").partition("://")
    if protocol.lower() in _OF_THIS_MACHINE:
        protocol, separator, url = "", "", rest or "/"
    if not separator:
        if not url.startswith("/") or "\0" in url or posixpath.normpath(url) != (url.rstrip("/") or "/"):
            return None
        return _Place("", tuple(part for part in url.split("/") if part))
    server, _, path = ("", "", rest) if protocol == "memory" else rest.partition("/")
    parts = tuple(path.split("/")) if path else ()
    is_plain = all(part not in ("", ".", "..") and "\\" not in part for part in parts)
    if not is_plain or _CODED.search(url) or not re.fullmatch(r"[A-Za-z0-9+.-]+", protocol) or "\0" in url:
        return None
    return _Place(f"{protocol.lower()}://{server}", parts)
