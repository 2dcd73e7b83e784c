"""URLs without their passwords, for messages and for files that other people can read."""

from __future__ import annotations

import re

_HIDDEN = "***"
_PASSWORD = re.compile(r"(?<=//)([^/:@]*):[^/]*@")


def without_password(url: str) -> str:
    """Return a URL or path with ``***`` in place of a password: ``sftp://ann:***@host/studies``."""
    return _PASSWORD.sub(rf"\1:{_HIDDEN}@", url, count=1)


def without_password_of(url: str, text: str) -> str:
    """Return a text about a URL without that URL's password; the text may omit the protocol."""
    found = _PASSWORD.search(url)
    return text if found is None else text.replace(found[0], f"{found[1]}:{_HIDDEN}@")


def lacks_password(url: str) -> bool:
    """Return whether a password was removed from a URL, so that it cannot be opened."""
    found = _PASSWORD.search(url)
    return found is not None and found[0] == f"{found[1]}:{_HIDDEN}@"
