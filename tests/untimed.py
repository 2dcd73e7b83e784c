"""Messages without what they measured, so that they can be compared."""

from __future__ import annotations

from typing import Any

import msgspec


def untimed(message: Any) -> Any:
    default = {field.name: field.default for field in msgspec.structs.fields(message)}
    return msgspec.structs.replace(message, spent=default["spent"])
