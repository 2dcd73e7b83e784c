"""The trainables of studies that are searched in threads: kept as they are, for nothing is sent.

A worker is given bytes whatever its backend; here they only name what this process holds. If the trainable can be
pickled they are its pickle, with which another process can go on.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from asyncsearch.ablation.left_out import SentWith
from asyncsearch.errors import NotPicklableError, UsageError
from asyncsearch.launch.bundle import pack, with_sources
from asyncsearch.trainable import WithFunctions

_NOT_SENT = b"asyncsearch: held by the process that searched, "

_held: dict[bytes, object] = {}


def hold(trainable: object) -> bytes:
    """Keep a trainable for the threads of this process, and return the bytes by which they ask for it."""
    try:
        data = with_sources(pack(trainable))
    except NotPicklableError:  # it uses what only this process has, such as a session of Spark
        data = _NOT_SENT + uuid.uuid4().hex.encode()
    _held[_key(data)] = _unpacked(trainable)
    return data


def held(data: bytes) -> Any:
    """Return the trainable of these bytes. None if this process holds none."""
    return _held.get(_key(data))


def require_sendable(data: bytes, store: str, *, in_threads: bool) -> None:
    """Check that the workers of a study can have its trainable.

    Args:
        data: what they are given.
        store: of the study, for the message.
        in_threads: whether they are threads of this process.

    Raises:
        UsageError: it uses what only the process that made the study had.
    """
    if not data.startswith(_NOT_SENT):
        return
    if not in_threads and held(data) is not None:
        raise UsageError(
            f"The function of the study in {store} uses what cannot be sent to workers, such as a session of Spark: "
            "go on with it by backend='threads'."
        )
    if held(data) is None:
        raise UsageError(
            f"The function of the study in {store} uses what cannot be stored, such as a session of Spark: it is in "
            "the program that made the study. Run that again, with Study(..., resume=True)."
        )


def _unpacked(value: object) -> object:
    """Return the trainable that unpickling would make of one that is packed with functions."""
    if not isinstance(value, WithFunctions | SentWith):
        return value
    make, parts = value.__reduce__()
    restored: object = make(*map(_unpacked, parts))
    return restored


def _key(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
