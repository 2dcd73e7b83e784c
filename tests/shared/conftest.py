"""Shared folders on each kind of file system."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from asyncsearch.shared.folder import SharedFolder
from tests.shared.tools import plan_at


@pytest.fixture(params=["disk", "file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    places = {"disk": f"{tmp_path}/plan", "file": f"file://{tmp_path}/plan", "memory": f"memory://{uuid.uuid4().hex}"}
    return places[request.param]


@pytest.fixture
def plan(url: str) -> SharedFolder:
    return plan_at(url)
