"""A backend is stopped on every way out of a run, so that a Spark session which was made for it ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Study, run_together, uniform
from asyncsearch.errors import StoreLockedError
from asyncsearch.launch.base_launcher import Preflight
from asyncsearch.launch.spark import launcher
from asyncsearch.launch.spark.launcher import SparkLauncher


class FakeSpark:
    """A session that is made if there is none, and whether there is one."""

    is_active = False
    has_dynamic_allocation = False
    is_local = False
    is_one_process = False
    hands_over = False

    def __init__(self) -> None:
        self.is_owned = not FakeSpark.is_active
        FakeSpark.is_active = True

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def tag_note(self, tag: str) -> bytes:
        return tag.encode()

    def close(self) -> None:
        if self.is_owned:
            FakeSpark.is_active = False


class NoJobs:
    """A supervisor that cannot begin; the session is there."""

    def __init__(self, spark: FakeSpark, **how: Any) -> None:
        assert FakeSpark.is_active

    def start(self) -> None:
        raise RuntimeError("no jobs here")

    def stop(self, grace_s: float) -> None:
        pass


@pytest.fixture(autouse=True)
def spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSpark, "is_active", False)
    monkeypatch.setattr(launcher, "join", lambda session: FakeSpark())
    monkeypatch.setattr(launcher, "examine", lambda *_how, **_options: Preflight(parallelism=2))
    monkeypatch.setattr(launcher, "Supervisor", NoJobs)


def train(trial: Any) -> None:
    trial.report(loss=1.0)


def make(store: Path, backend: Any = "spark") -> Study:
    space = {"x": uniform(0.0, 1.0)}
    return Study(train, space=space, metric="loss", mode="min", scheduler=FIFO(), store=store, backend=backend)


def test_session_made_for_studies_that_run_together_ends_with_them(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no jobs here"):
        run_together([make(tmp_path / "first"), make(tmp_path / "second")], num_trials=2, display="none")
    assert not FakeSpark.is_active


def test_studies_whose_threads_cannot_begin_end_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: FakeSpark, target: Callable[[], None], name: str) -> threading.Thread:
        raise AttributeError("Spark is gone")

    monkeypatch.setattr(FakeSpark, "thread", fail)
    with pytest.raises(AttributeError, match="Spark is gone"):
        run_together([make(tmp_path / "first"), make(tmp_path / "second")], num_trials=2, display="none")
    assert not FakeSpark.is_active


def test_session_made_for_a_run_that_cannot_begin_ends_with_it(tmp_path: Path) -> None:
    study = make(tmp_path / "study")
    study.store.prepare()
    with study.store.lock(), pytest.raises(StoreLockedError):
        study.run(2, display="none")
    assert not FakeSpark.is_active


def test_a_launcher_that_was_stopped_may_be_stopped_again_and_joins_anew() -> None:
    one = SparkLauncher()
    for _ in range(2):
        one.check(None)
        assert FakeSpark.is_active
        one.stop(0.0)
        one.stop(0.0)
        assert not FakeSpark.is_active
