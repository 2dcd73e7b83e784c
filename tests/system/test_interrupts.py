"""Ctrl-C, and a display that breaks, at the moments of a run that are hardest to hit: nothing is left running."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch import FIFO, Study, WorkerOptions, run_together, uniform
from asyncsearch.report.live.display import Plain
from asyncsearch.trial import TrialState
from tests.system.tools import PATIENCE_S, family_without_template, require_gone

LONG = 100_000


def train(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"])


def make(store: Path, units: int = LONG, **options: Any) -> Study:
    settings: dict[str, Any] = {"backend": "processes", "workers": WorkerOptions(stop_grace=0.5), "save_every": 1_000}
    return Study(
        train,
        space={"x": uniform(0.0, 1.0)},
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=units),
        store=store,
        **(settings | options),
    )


_there_before: set[int] = set()
"""Children that other tests of this process left to its end: the JVM of a Spark session."""


_threads_before: set[threading.Thread] = set()
"""Threads that other tests left: an objective of Hyperopt that was cancelled in a thread cannot be ended."""


@pytest.fixture(autouse=True)
def those_before() -> None:
    _there_before.clear()
    _there_before.update(child.pid for child in psutil.Process().children(recursive=True))
    _threads_before.clear()
    _threads_before.update(threading.enumerate())


def require_nothing_left(*studies: Study) -> None:
    threads = [one for one in {*threading.enumerate()} - _threads_before if one.name.startswith("asyncsearch-")]
    threads = [one for one in threads if one.name != "asyncsearch-worker-template"]  # it stays a while for later runs
    for thread in threads:
        thread.join(PATIENCE_S / 3)
    assert [thread.name for thread in threads if thread.is_alive()] == []
    require_gone([pid for pid in family_without_template() if pid not in _there_before])
    for study in studies:
        with study.store.lock():
            pass


def interrupt_at(patch: pytest.MonkeyPatch, name: str, number: int, *, has_begun: bool) -> None:
    """Press Ctrl-C while a thread is started: the one with that number of all with that name, from 1."""
    begin, seen = threading.Thread.start, [0]

    def start(thread: threading.Thread) -> None:
        seen[0] += thread.name == name
        is_now = thread.name == name and seen[0] == number
        if is_now and not has_begun:
            signal.raise_signal(signal.SIGINT)
        begin(thread)
        if is_now and has_begun:
            signal.raise_signal(signal.SIGINT)

    patch.setattr(threading.Thread, "start", start)


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize(("number", "units"), [(1, LONG), (2, 1)], ids=["begin", "end"])
def test_ctrl_c_while_a_run_begins_or_ends_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, units: int, *, has_begun: bool
) -> None:
    study = make(tmp_path / "study", units)
    interrupt_at(monkeypatch, "asyncsearch-run", number, has_begun=has_begun)
    with pytest.raises(KeyboardInterrupt):
        study.run(2, parallelism=1, display="none")
    require_nothing_left(study)


@pytest.mark.parametrize("has_begun", [False, True])
def test_ctrl_c_while_studies_begin_together_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_begun: bool
) -> None:
    studies = [make(tmp_path / name) for name in ("first", "second")]
    interrupt_at(monkeypatch, "asyncsearch-first", 1, has_begun=has_begun)
    with pytest.raises(KeyboardInterrupt):
        run_together(studies, num_trials=2, parallelism=2, display="none")
    require_nothing_left(*studies)


SCRIPT = """
import signal
from asyncsearch.report.live.display import Plain
from tests.system.test_interrupts import make
update, pressed = Plain.update, []
def update_and_press(self, status):
    update(self, status)
    if not pressed and status.trials:
        pressed.append(True)
        signal.raise_signal(signal.SIGINT)
Plain.update = update_and_press
make({store!r}).run(60, parallelism=1, display="plain")
"""


def test_an_interrupted_script_shows_how_to_continue_and_no_traceback(tmp_path: Path) -> None:
    store = str(tmp_path / "my study")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(store=store)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == -signal.SIGINT, run.stderr
    assert "Traceback" not in run.stderr
    assert run.stderr.splitlines()[-1] == "KeyboardInterrupt: the search was interrupted; its results are kept"
    for words in (run.stdout, Study.open(store).summary()):
        assert "1 of 60 configurations begun: 1 to be continued" in words
        assert any(line.endswith(f"asyncsearch resume '{store}'") for line in words.splitlines()), "in one piece"


def break_display(patch: pytest.MonkeyPatch, at: int) -> None:
    """Let the display fail when it is to show a status, for good after so many."""
    shown = [0]

    def update(self: Plain, status: Any) -> None:
        shown[0] += 1
        if shown[0] >= at:
            raise RuntimeError("the display is broken")

    patch.setattr(Plain, "update", update)


@pytest.mark.parametrize("backend", ["processes", "inline"])
def test_a_display_that_breaks_ends_the_run_in_order_and_fails_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    study = make(tmp_path / "study", backend=backend)
    with monkeypatch.context() as patch:
        break_display(patch, 2)
        with pytest.raises(RuntimeError, match="the display is broken"):
            study.run(2, parallelism=1, display="plain")
    require_nothing_left(study)
    assert {trial.state for trial in study.trials} <= {TrialState.WAITING, TrialState.PAUSED}


def test_a_display_that_breaks_at_the_end_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = make(tmp_path / "study", 1)
    with monkeypatch.context() as patch:
        break_display(patch, 1)
        with pytest.raises(RuntimeError, match="the display is broken"):
            study.run(1, parallelism=1, display="plain")
    require_nothing_left(study)
    assert study.run(1, parallelism=1, display="none").best_trial.resource == 1
