"""Which line of the user's code prevents something."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

_OTHERS = tuple(str(Path(one).parent) for one in (__file__, keras.__file__, tf.__file__))
"""Folders of lines that a user cannot change."""


def place_of(function: Any) -> str:
    """Return file and line of a function or method."""
    code = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user in a traceback, to follow a word; empty: there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OTHERS)]
    if not frames:
        return ""
    return f", at {Path(frames[-1].filename).name}, line {frames[-1].lineno}, `{(frames[-1].line or '').strip()}`"
