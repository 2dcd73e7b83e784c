"""Copies of the states of trials that have paused, written by a thread while the next trial trains.

So a pause costs a copy in memory in place of a write. One copy is written at a time: the next pause waits for it, and
its memory is free then. A process that dies before it is written takes the pause along, as if it had died before: the
agent says that there is no checkpoint.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from asyncsearch.files.plain import is_folder
from asyncsearch.files.trees import remove_tree
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.process.kernel_files import rooms
from asyncsearch.runner.protocol import CopyWaits, CopyWritten, Unwritten
from asyncsearch.runner.saving import DOUBTS, is_doubtful, refusal_of
from asyncsearch.trainable import SaveFunction, Trainer, TrialStopped

LEAST_BYTES = 1_000_000
"""A smaller state is written as soon as it is handed over."""
MEMORY_SHARE = 0.5
"""The most that a copy may take of the memory that is free: the next trial needs some, too."""
_LOOK_S = 0.05
"""Time between two looks for a stop, while another copy is being written."""
_TRY_AGAIN_S = 1.0
"""Time between two tries where the disk takes no checkpoint."""


class StateCopy(NamedTuple):
    """A state as it was at a pause."""

    write: SaveFunction
    size_bytes: int


class StateWriter:
    """Makes the copies of one process, and writes them one after the other."""

    def __init__(self, send: Callable[[CopyWaits | CopyWritten], None]) -> None:
        """Begin with none; ``send`` tells the agent, from the writing thread."""
        self._send = send
        self._is_free = threading.Event()
        """Set while no copy is held or written."""
        self._is_free.set()
        self._held: tuple[StateCopy, Path] | None = None
        """The copy of a training that ends now, and where to write it."""

    def copy_of(self, save: SaveFunction, stop_reason: Callable[[], str | None]) -> StateCopy | None:
        """Return a copy of the state that ``save`` would write. None if ``save`` is to be called.

        Args:
            save: the function that saves a trial.
            stop_reason: tells why the trial is to stop, while this waits for the copy before. None if it is not.

        Raises:
            TrialStopped: it was stopped meanwhile.
        """
        trainer, size = getattr(save, "__self__", None), 0
        if not isinstance(trainer, Trainer) or save != trainer.save:
            return None

        def may_take(size_bytes: int) -> bool:
            nonlocal size
            size = size_bytes
            if size_bytes < LEAST_BYTES:
                return False
            self._await_free(stop_reason)
            room, _ = min(rooms(), default=(0, ""))  # where nobody tells it, nothing is copied
            return size_bytes <= MEMORY_SHARE * room

        try:
            write = trainer.copied_state(may_take)
        except (MemoryError, RuntimeError):  # the state itself is there: it is written where it lies
            return None
        return None if write is None else StateCopy(write, size)

    def hold(self, copy: StateCopy, path: Path, stage: int, resource: int) -> Unwritten:
        """Keep a copy until its training has ended, and return what the agent is to know of it."""
        self._is_free.clear()
        self._held = copy, path
        return Unwritten(stage, resource, copy.size_bytes)

    def begin(self) -> None:
        """Begin to write the copy that is held: the agent knows that its training has ended."""
        assert self._held is not None
        held, self._held = [self._held], None
        threading.Thread(target=self._write, args=(held,), name="state-writer", daemon=True).start()

    def finish(self) -> None:
        """Wait until nothing is to be written any more: the process is to end."""
        if self._held is None:
            self._is_free.wait()

    def _await_free(self, stop_reason: Callable[[], str | None]) -> None:
        while not self._is_free.wait(_LOOK_S):
            if (reason := stop_reason()) is not None:
                raise TrialStopped(reason)

    def _write(self, held: list[tuple[StateCopy, Path]]) -> None:
        error = ""
        copy, path = held.pop()  # a thread keeps its arguments until it has ended
        try:
            self._write_until_done(copy, path)
        except BaseException as raised:  # whatever it is: the agent waits for an answer, and the next pause for this
            error = exception_text(raised)
        del copy  # its memory is free before the next one is made
        self._send(CopyWritten(error))
        self._is_free.set()

    def _write_until_done(self, copy: StateCopy, path: Path) -> None:
        """Write a copy, again and again where the disk could not take it, as ``saving.write`` does."""
        doubts = 0
        while True:
            try:
                copy.write(path)
            except Exception as error:
                refused = refusal_of(path.parent, error)
                doubts = doubts + 1 if refused and is_doubtful(path.parent, error) else 0
                # Without its folder nobody waits for it any more: the agent has given it up.
                if not refused or doubts == DOUBTS or not is_folder(path.parent):
                    raise
                _clear(path)
                self._send(CopyWaits(refused))
                threading.Event().wait(_TRY_AGAIN_S)
            else:
                return


def _clear(path: Path) -> None:
    """Remove what was written of a checkpoint."""
    with contextlib.suppress(OSError):
        if is_folder(path):
            remove_tree(path)
        else:
            path.unlink()
