"""Errors of ``vmap``: why a model cannot be trained for many members by one computation, and the line to change."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

_OWN_FOLDERS = (str(Path(__file__).parent), str(Path(torch.__file__).parent))

_SHARED = "writes into a tensor that all members would share", "make it a buffer (register_buffer) or a new tensor"
_SHAPE = "makes a tensor whose shape depends on values, as a boolean mask does", "write it with torch.where"
_CAUSES = (
    ("data-dependent control flow", "decides in Python by a value of a tensor", "write it with torch.where"),
    (".item()", "takes a number out of a tensor (.item(), float(), int())", "compute with the tensor itself"),
    ("random operation", "draws random numbers", "use an nn.Dropout layer, or draw them in data()"),
    ("dynamic", *_SHAPE),
    ("nonzero", *_SHAPE),
    ("inplace", *_SHARED),
    ("broadcast shape", *_SHARED),
    ("expected scalar type", "mixes single and half precision where vmap does not", "write it with a torch.nn layer"),
    ("lstm", "calls an LSTM", "train it without packing"),
    ("gru", "calls a GRU", "train it without packing"),
    ("", "calls an operation that torch.func.vmap does not know", "replace it, or train without packing"),
)
"""Words of torch, in small letters -> the deed of the line, and its replacement."""
_MARKS = (
    *("vmap", "batching rule", "functorch", "batchedtensor", "custom_function_call", "match the broadcast shape"),
    "expected scalar type",
)


def in_words(error: RuntimeError) -> str | None:
    """Return why members cannot be trained as one and which line to change; None if the error is not about that."""
    text = str(error).lower()
    if isinstance(error, torch.OutOfMemoryError) or not any(mark in text for mark in _MARKS):
        return None
    what, instead = next((what, instead) for mark, what, instead in _CAUSES if mark in text)
    first = str(error).strip().splitlines()[0][:200]
    return f"{user_line(error)} {what}, so alike members cannot be trained as one: {instead}. (torch: {first})"


def user_line(error: BaseException) -> str:
    """Return the innermost line of the traceback that is neither torch's nor ours."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OWN_FOLDERS)
    ]
    if not frames:
        return "The model"
    frame = frames[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}, `{(frame.line or '').strip()}`,"
