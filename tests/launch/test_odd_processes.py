"""Searches in processes whose import path, environment or output hold what Python itself passes over."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch import Study, choice
from asyncsearch.errors import UsageError
from asyncsearch.launch.installed_modules import is_installed
from asyncsearch.runner.process.preloading import installed_modules

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


class Unreadable(types.ModuleType):
    """A module as ``torch.classes``, of which each attribute that it has not is asked of a library."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no such class: {name}")


def has_unreadable_modules(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    monkeypatch.setitem(sys.modules, "an_unreadable_module", Unreadable("an_unreadable_module"))


@pytest.mark.parametrize("change", [has_other_entries, has_bytes_in_variables, can_only_write, has_unreadable_modules])
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


@pytest.mark.parametrize("name", ["gevent", "eventlet"])
def test_threads_that_are_none_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replacing = types.SimpleNamespace(is_module_patched="threading".__eq__, is_monkey_patched="thread".__eq__)
    monkeypatch.setitem(sys.modules, f"{name}.{'monkey' if name == 'gevent' else 'patcher'}", replacing)
    study = Study(one, space={"x": choice(1)}, metric="y", mode="min", store=tmp_path / "study", backend="inline")
    with pytest.raises(UsageError, match=f"{name} has replaced Python's threads"):
        study.run(1, display="none")


def one(_trial: object) -> float:
    return 1.0


def test_modules_that_load_at_their_first_use_stay_unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy").mkdir()
    (tmp_path / "heavy" / "__init__.py").write_text("raise SystemExit('it was loaded')")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.find_spec("heavy")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "heavy", module)
    spec.loader.exec_module(module)
    assert "heavy" not in installed_modules()
    assert not is_installed(module)
