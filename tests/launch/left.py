"""Where trainables of the inline tests leave things for their tests: both run in one process."""

from __future__ import annotations

import threading
from typing import Any

CALLS: list[Any] = []
BEATS = threading.Event()
INTERRUPT: BaseException = KeyboardInterrupt()
