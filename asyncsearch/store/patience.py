"""Waiting, at the start of a run, for a store that answers and cannot be used for the moment.

A machine that dies takes a DataNode with it, and for a while the NameNode sends those who write to it. A search that
runs waits for that (``asyncsearch.driver.store_waits``); so does one that begins. A store that has not answered at all
is not waited for: its address may be wrong.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from asyncsearch.errors import ContentAwayError, StoreAwayError, StoreError
from asyncsearch.store.base_store import Store
from asyncsearch.store.blocks import begun

TIMEOUT_S = 600.0
"""For who reads a study before its own setting is known."""
CONTENT_S = 120.0
"""For content that no server has: it may be lost for good, where a machine does not come back."""
_FIRST_S, _LONGEST_S = 0.5, 5.0
SLOW_S = 5.0
"""Time after which a call without an answer is told of: a client tries its servers by itself for some 15 to 30 s."""


class Patient:
    """The files of a store, whose calls are repeated while the store is away, until ``end``."""

    def __init__(
        self,
        files: Any,
        timeout_s: float,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin.

        Args:
            files: whose ``list`` tells whether the store answers.
            timeout_s: for how long a store that is away is waited for.
            say: takes sentences for the user.
            clock: seconds.
            sleep: waits for so many.
        """
        self.files = files
        self._timeout_s, self._say, self._clock, self._sleep = timeout_s, say, clock, sleep
        self._has_answered = self._is_over = False

    def end(self) -> None:
        """Repeat no call any more: who holds these files sees errors at once."""
        self._is_over = True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.files, name)
        return functools.partial(self._call, found) if callable(found) and not self._is_over else found

    def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        began_s: float | None = None
        delay_s = _FIRST_S
        while True:
            called_s = self._clock()
            try:
                found = self._answered(function, arguments, named, is_first=began_s is None)
            except StoreAwayError as error:
                now = self._clock()
                limit_s = min(self._timeout_s, CONTENT_S) if isinstance(error, ContentAwayError) else self._timeout_s
                if self._is_over or not self._answers() or (began_s is not None and now - began_s > limit_s):
                    raise
                if began_s is None:
                    began_s = called_s  # the client has waited by itself since then
                    self._say(
                        f"The store cannot be used yet: {error} It is tried again for {limit_s:g} s"
                        " (checkpoints=Checkpoints(store_timeout=...)), then the run is given up."
                    )
                self._sleep(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_S)
            else:
                self._has_answered = True
                waited_s = self._clock() - (called_s if began_s is None else began_s)
                if began_s is not None or waited_s > SLOW_S:
                    self._say(f"The store can be used again, after {waited_s:.0f} s.")
                return found

    def _answered(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], *, is_first: bool
    ) -> Any:
        """Call a function, and say so if it has not answered for a while."""
        watch = threading.Timer(SLOW_S, self._say, [f"The store has not answered for {SLOW_S:g} s: waiting for it."])
        watch.daemon = True
        if is_first:
            watch.start()
        try:
            return _begun(function(*arguments, **named))
        finally:
            watch.cancel()

    def _answers(self) -> bool:
        """Return whether the store has answered anything since the start."""
        if not self._has_answered:
            with contextlib.suppress(StoreError):
                self.files.list("")
                self._has_answered = True
        return self._has_answered


def inner(files: Any) -> Any:
    """Return files without the patience that they may have."""
    return files.files if isinstance(files, Patient) else files


def impatient(files: Any) -> Any:
    """Return files without patience, and end what they had: the lock may still hold them."""
    if isinstance(files, Patient):
        files.end()
    return inner(files)


def _begun(found: Any) -> Any:
    """Return the result of a call; blocks of a file with the first one read, which is where it fails."""
    return begun(found) if isinstance(found, Iterator) else found


@contextlib.contextmanager
def waiting(timeout_s: float, say: Callable[[str], None], *stores: Store | None) -> Iterator[None]:
    """Let stores wait, inside the ``with``, while they cannot be used for the moment; see ``Store.begin_to_wait``."""
    try:
        for store in stores:
            if store is not None:
                store.begin_to_wait(timeout_s, say)
        yield
    finally:
        for store in stores:
            if store is not None:
                store.wait_no_longer()
