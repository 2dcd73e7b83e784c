"""Adds to a packed trainable the lines of its code, which workers show in tracebacks, and the command line."""

from __future__ import annotations

import linecache
import os
import pickle
import sys
from pathlib import Path

from asyncsearch.launch.bundle import Bundle
from asyncsearch.launch.own_modules import is_own_source
from asyncsearch.runner.process.sent_code import WithSources

MAX_CHARS = 1_000_000
"""Of all files together; the largest ones are left out, and their tracebacks show no lines."""
_PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"


def with_sources(bundle: Bundle) -> bytes:
    """Return the pickle of the trainable with the text of its files, read now, and the arguments of this process."""
    texts = {file: "".join(linecache.getlines(file)) for file in bundle.files if _is_users(file)}
    found: dict[str, str] = {}
    room = MAX_CHARS
    for file, text in sorted(texts.items(), key=lambda one: (len(one[1]), one[0])):
        room -= len(text)
        if text and room >= 0:
            found[file] = text
    return pickle.dumps(WithSources(bundle.data, found, sys.argv))


def _is_users(file: str) -> bool:
    """Whether a worker may lack a file: also ``<ipython-input-1-...>``, whose lines IPython keeps."""
    linecache.checkcache(file)
    return not file.startswith(_PACKAGE) and (file.startswith("<") or is_own_source(file))
