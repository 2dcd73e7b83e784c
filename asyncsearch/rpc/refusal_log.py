"""How often refusals are logged: whoever can reach the port must not be able to fill the driver's log.

Rule 1: pure; time is an argument.
"""

from __future__ import annotations

EVERY_S = 60.0
MOST = 1_000
"""Different peers, and so lines, in ``EVERY_S``."""


class RefusalLog:
    """Admits one line a peer and minute, and counts those between."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}
        """Peer -> when it was last logged, and how many of its refusals were not logged since; the oldest first."""

    def __len__(self) -> int:
        return len(self._last)

    def admit(self, peer: str, now: float) -> int | None:
        """Return how many refusals of a peer were left out before this one; None: leave this one out, too.

        Args:
            now: seconds of a clock that never goes back.
        """
        self._forget(now)
        logged_s, left_out = self._last.get(peer, (None, 0))
        if logged_s is not None and now - logged_s < EVERY_S:
            self._last[peer] = (logged_s, left_out + 1)
            return None
        if logged_s is None and len(self._last) >= MOST:
            return None
        self._last.pop(peer, None)
        self._last[peer] = (now, 0)
        return left_out

    def _forget(self, now: float) -> None:
        """Forget the peers that have been quiet for two periods, the first entries."""
        while self._last:
            peer = next(iter(self._last))
            if now - self._last[peer][0] < 2 * EVERY_S:
                return
            del self._last[peer]
