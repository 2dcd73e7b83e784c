"""What the tests of Ray Tune's programs have in common: the stand-in is there for each, and gone afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import asyncsearch.ray as ours


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give ``ray.tune`` as a program imports it, in a folder of its own, with trials in this process."""
    assert "ray" not in sys.modules
    monkeypatch.chdir(tmp_path)
    ours.install()
    ours.workers(backend="inline", display="none")
    import ray.tune

    yield ray.tune
    ours.workers()
    ours.uninstall()
    assert "ray" not in sys.modules
