"""Searches in processes whose import path, environment or output hold what Python itself passes over."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch import Study, choice

Change = Callable[[pytest.MonkeyPatch, Path], None]


class WriteOnly:
    """An output of a program's own."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)


def has_other_entries(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(sys, "path", [folder, None, os.fsencode(folder), *sys.path])


def has_bytes_in_variables(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    monkeypatch.setenv(os.fsdecode(b"A_\xff"), "1")
    monkeypatch.setenv("A_VARIABLE", os.fsdecode(b"Andr\xe9"))


def can_only_write(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    monkeypatch.setattr(sys, "stdout", WriteOnly())


@pytest.mark.parametrize("change", [has_other_entries, has_bytes_in_variables, can_only_write])
def test_a_search_runs_in_an_odd_process(change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, tmp_path)
    variable = os.environ.get("A_VARIABLE")
    study = Study(
        lambda trial: trial.params["x"] if os.environ.get("A_VARIABLE") == variable else 0,
        space={"x": choice(1, 2)},
        searcher="grid",
        metric="y",
        mode="min",
        store=tmp_path / "study",
        backend="processes",
    ).run(parallelism=1, display="plain")
    assert [trial.value for trial in study.trials] == [1, 2]
    if isinstance(sys.stdout, WriteOnly):
        assert "trial-1" in sys.stdout.text
