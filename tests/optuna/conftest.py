"""What the tests of Optuna's programs have in common: a folder of their own, no lines, and the workers of before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

import asyncsearch.optuna as ours  # noqa: E402  # needs optuna


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    yield
    ours.workers()
    optuna.logging.set_verbosity(before)
