"""What the tests of sweeps have in common: a folder of their own, no lines, and the workers of before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.wandb import workers


@pytest.fixture(autouse=True)
def _quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    workers(1, backend="inline", store=str(tmp_path / "kept"), display="none")
    yield
    workers()
