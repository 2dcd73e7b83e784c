"""Fixtures of the tests of stores."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path

import pytest

from asyncsearch.store.far.store import FsspecStore


@pytest.fixture
def staged_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stage and fetch inside the test's own folder."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.fixture(params=["memory", "file"])
def fsspec_store(request: pytest.FixtureRequest, tmp_path: Path) -> FsspecStore:
    """A store without appends, and one with them."""
    url = f"memory://{uuid.uuid4().hex}" if request.param == "memory" else f"file://{tmp_path}/store"
    store = FsspecStore(url, lock_lease_s=60)
    store.prepare()
    return store
