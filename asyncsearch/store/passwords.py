"""URLs without their passwords: what people see, and what is written where others can read."""

from __future__ import annotations

import re

_HIDDEN = "***"
_PASSWORD = re.compile(r"(?<=//)([^/:@]*):[^/]*@")


def without_password(url: str) -> str:
    """Return a URL or path with ``***`` in place of a password: ``sftp://ann:***@host/studies``."""
    return _PASSWORD.sub(rf"\1:{_HIDDEN}@", url, count=1)


def without_password_of(url: str, text: str) -> str:
    """Return what somebody else says of a URL without the password that this one has, with or without its protocol."""
    found = _PASSWORD.search(url)
    return text if found is None else text.replace(found[0], f"{found[1]}:{_HIDDEN}@")


def lacks_password(url: str) -> bool:
    """Return whether a URL had a password that was taken out, so that nothing can be reached by it."""
    found = _PASSWORD.search(url)
    return found is not None and found[0] == f"{found[1]}:{_HIDDEN}@"
