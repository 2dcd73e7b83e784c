"""An asyncio loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


class LoopThread:
    """Runs a loop until it is closed; other threads call into it by ``loop.call_soon_threadsafe``."""

    def __init__(self, name: str) -> None:
        """Make the loop; it does nothing before ``start``."""
        self.loop = asyncio.new_event_loop()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close_after(self, last: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end, then end the thread, whatever the coroutine raises."""
        try:
            asyncio.run_coroutine_threadsafe(last, self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._ended.wait()
            self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._ended.set()
