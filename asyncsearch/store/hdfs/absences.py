"""Decides when content that no DataNode has is gone, and not only away. Pure: time is an argument.

A DataNode that is started again has what it had, so content that is away is waited for; but a block whose last copy was
lost never comes back, and a search that waited for it would never go on.
"""

from __future__ import annotations


class Absences:
    """Since when the content of each file has been away."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._since: dict[str, float] = {}

    def note(self, name: str, now: float) -> bool:
        """Note that no DataNode has the content of a file; return whether that has been so for too long."""
        return now - self._since.setdefault(name, now) >= self.patience_s

    def forget(self, name: str) -> None:
        """Note that the content is there, or that nothing could be read at all."""
        self._since.pop(name, None)
