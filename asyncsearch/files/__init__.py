"""Files and folders that somebody else may have made: opened, walked, copied and removed without surprises.

Here: what somebody else may have written is decoded. Whatever the bytes are, there is a value or there is none. Pure.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")

UNDECODABLE = (ValueError, RecursionError)
"""Errors of bytes that are not what a decoder expects: no JSON, other fields, no UTF-8, nested too deeply."""


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T | None:
    """Return the value of some bytes; None if they are no such value."""
    try:
        return decoder.decode(data)
    except UNDECODABLE:
        return None
