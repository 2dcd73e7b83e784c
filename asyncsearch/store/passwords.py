"""URLs and options without their passwords and keys, for messages and for files that other people can read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_HIDDEN = "***"
_KEY = re.compile(r"pass|secret|token|key|credential|auth|sas|connection_string", re.IGNORECASE)
"""Parts of the names of options that are for nobody else."""
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


def with_user_alone(url: str) -> str:
    """Return a URL that can be opened where a password is not needed, or comes from elsewhere: ``sftp://ann@host``."""
    return _PASSWORD.sub(r"\1@", url, count=1)


def without_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a file system, at any depth, without passwords, keys and tokens."""
    return {
        name: without_keys(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if _KEY.search(name) is None
    }
