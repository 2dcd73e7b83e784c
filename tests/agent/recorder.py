"""A trial's world in memory, with checkpoints on disk."""

from __future__ import annotations

from pathlib import Path

from asyncsearch.runner.protocol import Amendment
from asyncsearch.runner.stopwatch import Stopwatch


class Recorder:
    """A link that keeps what it is told."""

    def __init__(self, folder: Path) -> None:
        self.reports: list[tuple[int, dict[str, float]]] = []
        self.saves: list[tuple[int, int]] = []
        self.failed: list[tuple[int, int, str]] = []
        self.ended_at: int | None = None
        """Resource of the checkpoint that was said to be the last one."""
        self.coming: list[Amendment] = []
        """Sent by the driver; the trial has not looked yet."""
        self.reason: str | None = None
        self.told_at: int | None = None
        """Resource at whose report the stop arrives."""
        self._folder = folder
        self.stopwatch = Stopwatch()

    def await_verdict(self, resource: int, timeout_s: float) -> int | None:
        """Wait for nothing: nobody decides."""

    def report(self, resource: int, metrics: dict[str, float], *, is_awaited: bool = False) -> None:
        self.reports.append((resource, metrics))
        if resource == self.told_at:
            self.reason = "rank 7 of 20"

    def stop_reason(self) -> str | None:
        return self.reason

    def folder(self, stage: int, resource: int, *, is_needed: bool = False, failed: str = "") -> Path:
        return self._folder / f"{stage}-{resource}"

    def amendments(self) -> list[Amendment]:
        came, self.coming = self.coming, []
        return came

    def saved(self, stage: int, resource: int, *, is_last: bool) -> None:
        assert self.folder(stage, resource).exists()
        self.saves.append((stage, resource))
        if is_last:
            self.ended_at = resource

    def close(self, refusal: str) -> None:
        del refusal

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        self.failed.append((stage, resource, str(error)))

    @property
    def resources(self) -> list[int]:
        return [resource for resource, _ in self.reports]
