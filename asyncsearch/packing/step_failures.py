"""Steps of a pack that could not train some members, and those of a stack that are not the step of each member."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing.alike.member_marks import ModelMarks
from asyncsearch.packing.member import Member
from asyncsearch.packing.unit_generators import outside_states, put_outside_states


@dataclass(frozen=True)
class FailedStep:
    """Members of one group that a step could not train."""

    members: list[Any]
    error: Exception
    is_stack: bool
    """Whether they were one computation: their own models and optimizers are then as they were written last. Else a
    member has failed by itself."""

    @property
    def words(self) -> str:
        """Why it could not."""
        return in_words(self.error)


def in_words(error: Exception) -> str:
    """Return the message of an error, with its class where the message is not ours."""
    kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
    return f"{kind}{error}".rstrip(".")


class NoWatch:
    """Watches nothing: no code of the user runs."""

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Do nothing."""
        yield


class StepWatch(NoWatch):
    """Watches the steps of one stack: its model, what its loss reads, and the generators outside torch.

    ``vmap`` itself refuses draws of torch, and Python code that depends on what differs between members.
    """

    def __init__(self, template: Any, members: Sequence[Member]) -> None:
        """Look at the model that is called for all members."""
        self._marks = ModelMarks(template, has_rates=True)
        self._members = members
        self._is_spoiled = False

    @property
    def is_spoiled(self) -> bool:
        """Whether the model that is called for all members may be another than theirs."""
        return self._is_spoiled

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Look whether a step is that of each member.

        Raises:
            UsageError: it is not.
        """
        before, is_spoiled, self._is_spoiled = outside_states(), self._is_spoiled, True
        try:
            yield
            if outside_states() != before:
                raise UsageError(
                    "its model or loss draws from the generator of Python or of numpy: draw such numbers in data()"
                )
        finally:
            put_outside_states(before)
        changed = self._marks.change()
        if changed:
            raise UsageError(f"training changes what members would share, {changed}: make it a buffer")
        watch = self._members[0].watch
        if watch is not None:
            watch.check([member.watch for member in self._members if member.watch is not None])
        self._is_spoiled = is_spoiled


NO_WATCH = NoWatch()


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


def vmap_words(error: RuntimeError) -> str | None:
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
