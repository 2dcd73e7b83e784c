"""Tokens for workers, as long as a run lasts: asked for before the first launch, and again before they run out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from asyncsearch.launch.base_launcher import Launcher, Tokens
from asyncsearch.store.hdfs import tokens

_AGAIN_S = 60.0
"""When to ask again where there were none to be had."""


class TokenRenewal:
    """Asks a launcher for tokens, and passes them on; does nothing where workers need none."""

    def __init__(
        self, launcher: Launcher, url: str, grant: Callable[[bytes], None], warn: Callable[[str], None]
    ) -> None:
        """Make it, without asking yet.

        Args:
            url: of the store.
            grant: called with each new file of tokens, from any thread.
            warn: called with a sentence for people when tokens could not be renewed.
        """
        self._launcher, self._url = launcher, url
        self._grant, self._warn = grant, warn
        self._file = b""
        self._is_over = threading.Event()

    def start(self) -> None:
        """Ask for the first tokens and pass them on."""
        due_s = self._ask()
        if due_s is not None:
            self._launcher.thread(lambda: self._run(due_s), "asyncsearch-tokens").start()

    def stop(self) -> None:
        """Ask no more."""
        self._is_over.set()

    def _run(self, due_s: float) -> None:
        while not self._is_over.wait(due_s):
            due_s = self._ask() or _AGAIN_S

    def _ask(self) -> float | None:
        """Return after how many seconds to ask again. None if workers need no tokens."""
        try:
            found = self._launcher.tokens_for(self._url)
        except Exception as error:  # of Java: each version has others
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            self._warn(
                f"There are no new delegation tokens for {self._url!r}: {reason}. Workers go on with those they have as"
                " long as these are valid. See whether the driver has a valid ticket (klist), or give Spark a keytab."
            )
            return _AGAIN_S
        if found is None:
            return None
        if found.file != self._file:
            self._pass_on(found)
        return found.renew_in_s

    def _pass_on(self, found: Tokens) -> None:
        self._file = found.file
        if tokens.LOCATION in os.environ:  # this process, too, lives on tokens, as in a container of YARN
            tokens.use(found.file)
        self._grant(found.file)
