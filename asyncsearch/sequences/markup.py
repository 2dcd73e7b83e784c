"""Text inside SVG and HTML. Rule: all text from outside goes through ``escape``."""

from __future__ import annotations

import html
import re

_UNREADABLE = re.compile("[^\t\n\r -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(text: str) -> str:
    r"""Return text that markup may contain.

    A character that XML 1.0 forbids makes the whole picture unreadable; it is shown as Python writes it, ``\x1b``, and
    so are the other control characters, which are invisible.
    """
    return html.escape(plain(text))


def plain(text: str) -> str:
    r"""Return text in which control characters and lone surrogates are shown as Python writes them, ``\x1b``."""
    return _UNREADABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
