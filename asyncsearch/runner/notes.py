"""Notes: short texts that a trial leaves beside its metrics. Pure.

They travel as what a trial asks the driver, and nobody answers them.
"""

from __future__ import annotations

import json
from typing import Any

from asyncsearch.arguments import as_unicode, is_unicode
from asyncsearch.errors import UsageError

_MARK = b"\0note\0"
"""How a note begins: no question of another library's program does."""
_KEY_CHARS, _TEXT_CHARS = 100, 2_000


def note_of(key: object, text: object) -> tuple[str, str]:
    """Return a note as it is kept; numbers, None and booleans become text.

    Raises:
        UsageError: the key is no name, or the text is none, or too long.
    """
    if not isinstance(key, str) or not key.strip() or not is_unicode(key) or len(key) > _KEY_CHARS:
        raise UsageError(f"note({key!r}, ...): the key is a name of at most {_KEY_CHARS} characters, such as 'device'.")
    if not isinstance(text, str | int | float | bool | None):
        raise UsageError(f"note({key!r}, {type(text).__name__}): a note is text: write note({key!r}, str(...)).")
    written = as_unicode(str(text))
    if len(written) > _TEXT_CHARS:
        raise UsageError(
            f"note({key!r}, ...): {len(written):,} characters are too many for a note, which has {_TEXT_CHARS:,} at "
            "most: write a file in trial.dir."
        )
    return key, written


def note_bytes(key: object, text: object) -> bytes:
    """Return a note as a message.

    Raises:
        UsageError: as ``note_of``.
    """
    return _MARK + json.dumps(note_of(key, text)).encode()


def note_in(content: bytes) -> tuple[str, str] | None:
    """Return the note that a message is. None if it is none."""
    if not content.startswith(_MARK):
        return None
    try:
        found: Any = json.loads(content[len(_MARK) :])
        key, text = found
        return note_of(key, text)
    except (ValueError, TypeError):  # of a worker that is not ours
        return None
