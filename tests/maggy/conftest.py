"""What the tests of Maggy's programs have in common: a folder of their own, no lines, and the workers of before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import maggy


@pytest.fixture(autouse=True)
def _quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    maggy.workers(1, backend="inline", store=str(tmp_path / "kept"), display="none")
    yield
    maggy.workers()
