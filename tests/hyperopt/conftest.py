"""What the tests of Hyperopt's programs have in common: a folder of their own, and the workers of before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("hyperopt")

import asyncsearch.hyperopt as ours  # needs hyperopt
from asyncsearch.programs.waiting_run import let_go


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    let_go()
    ours.workers()
