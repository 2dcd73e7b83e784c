"""How the file systems of fsspec differ, and the forms of their paths, errors and times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import fsspec

APPENDING = {"file", "local", "sftp", "ssh"}
"""Protocols whose append costs only the added bytes. Some object stores copy the whole object at each append."""

_AZURE = {"az", "abfs", "abfss"}
OF_OBJECTS = {"s3", "s3a", "gs", "gcs", *_AZURE}
"""Protocols of object stores; others are one if they cannot rename."""

EXCLUSIVE = {"file", "local", "memory", *OF_OBJECTS}
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modification_time", "modificationTime", "created")

WITH_PIPES = {"file", "local", "sftp", "ssh", "smb"}

READ_ONLY = {"http", "https", "github", "git", "data", "reference", "libarchive", "tar"}
"""Protocols by which fsspec only reads."""

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


def file_system(protocol: str) -> type[Any]:
    """Return fsspec's class for URLs of a protocol, or what stands in for it here.

    Raises:
        ImportError, ValueError, AttributeError: a package for it is missing.
    """
    if protocol.lower() in _AZURE:
        from asyncsearch.store.far.azure import AzureBlobs

        return AzureBlobs
    found: type[Any] = fsspec.get_filesystem_class(protocol)
    return found


def modified_s(info: Mapping[str, Any]) -> float | None:
    """Return the Unix time of a file by whichever name a file system has for it; None if it does not tell."""
    for key in _TIMES:
        value = info.get(key)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                continue
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, (int, float)) and value > 0:
            return value / 1000 if value > 1e11 else float(value)  # Hadoop counts milliseconds
    return None
