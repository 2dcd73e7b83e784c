"""Trials in threads of the driver's process, without Spark."""

from __future__ import annotations

import itertools
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Study, Trainer, WorkerOptions, uniform
from asyncsearch.errors import UsageError, WorkersLostError
from asyncsearch.launch.threads import held
from asyncsearch.launch.threads.launcher import ThreadLauncher
from asyncsearch.launch.threads.trial_thread import Unread
from asyncsearch.launch.trial_jobs import TrialJobs
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.launch.tools import PATIENCE_S, Ends, config_for

SPACE = {"x": uniform(0, 1)}
QUICK = WorkerOptions(stop_grace=0.1)


def study_of(train: Any, store: Path, **options: Any) -> Study:
    given = {"space": SPACE, "metric": "value", "mode": "max", "backend": "threads", "workers": QUICK}
    return Study(train, store=store, **{**given, **options})


def search_threads() -> list[str]:
    """Return the threads of trials that run now."""
    return [thread.name for thread in threading.enumerate() if "trial-" in thread.name]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert search_threads() == []


def test_search_in_threads_is_promoted_resumed_and_logged(tmp_path: Path) -> None:
    """Two trials meet before any goes on, and what they share cannot be pickled; a second run finishes the rung."""
    met = threading.Barrier(2, timeout=120)
    seen: list[str] = []

    def train(trial: TrialContext) -> None:
        done = [0]

        def save(path: Path) -> None:
            path.write_text(str(done[0]))

        def load(path: Path) -> None:
            done[0] = int(path.read_text())

        if len(seen) < 2:
            seen.append(trial.name)
            met.wait()
        for epoch in trial.epochs(save=save, load=load):
            done[0] += 1
            assert done[0] == epoch
            sys.stdout.write(f"{trial.name} at {epoch}\n")
            trial.report(value=trial.params["x"])
        (trial.dir / "end").write_text(trial.name)

    scheduler = ASHA(max_resource=4, reduction_factor=2)
    study = study_of(train, tmp_path, scheduler=scheduler).run(num_trials=4, parallelism=2, display="none")
    assert [trial.state for trial in study.trials].count(TrialState.FAILED) == 0
    again = study_of(train, tmp_path, scheduler=scheduler, resume=True)
    again.run(num_trials=8, parallelism=2, display="none")
    assert len(again.trials) == 8
    assert again.best_trial.trained == 4
    for trial in again.trials:
        lines = list(again.logs(trial))
        assert any(f"{trial.name} at 1" in line for line in lines)
        assert not any("trial-" in line and f"{trial.name} " not in line for line in lines if " at " in line)
    spent = again.time_spent()
    assert sum(account.total for account in spent.by_worker.values()) == spent.total.total
    assert spent.total.unmeasured == 0
    assert "worker-" in again.explain(again.best_trial)
    with again.trial_dir(again.best_trial) as folder:
        assert (folder / "end").read_text() == again.best_trial.name


UNWOUND: list[str] = []


def endless(trial: TrialContext) -> None:
    try:
        trial.report(value=1.0, resource=1)
        while True:
            time.sleep(0.005)
    finally:
        UNWOUND.append(trial.name)


def test_a_trial_that_reports_no_more_is_stopped_in_its_thread(tmp_path: Path) -> None:
    UNWOUND.clear()
    study = study_of(endless, tmp_path).run(num_trials=2, parallelism=2, timeout=1, display="none")
    assert [trial.state for trial in study.trials if trial.state is TrialState.FAILED] == []
    assert set(UNWOUND) == {trial.name for trial in study.trials}


def test_ctrl_c_ends_all_threads_and_keeps_the_reports(tmp_path: Path) -> None:
    pressed, main = threading.Lock(), threading.get_ident()

    def train(trial: TrialContext) -> None:
        trial.report(value=1.0, resource=1)
        if pressed.acquire(blocking=False):
            signal.pthread_kill(main, signal.SIGINT)
        while True:
            time.sleep(0.005)

    study = study_of(train, tmp_path)
    with pytest.raises(KeyboardInterrupt, match="the search was interrupted"):
        study.run(num_trials=4, parallelism=2, display="none")
    assert {trial.state for trial in study.trials} <= {TrialState.WAITING, TrialState.STOPPED, TrialState.PAUSED}
    assert study.trials[0].value == 1.0


def test_a_thread_that_waits_in_compiled_code_is_left_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    goes_on = threading.Event()

    def train(trial: TrialContext) -> None:
        trial.report(value=1.0, resource=1)
        goes_on.wait()  # no exception of another thread comes through it

    with caplog.at_level(logging.WARNING):
        study = study_of(train, tmp_path).run(num_trials=1, timeout=1, display="none")
    goes_on.set()
    deadline = time.monotonic() + 60
    while search_threads():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert study.trials[0].state is not TrialState.FAILED
    assert "trial-0: It did not heed its stop (its timeout of 1 s has passed)." in caplog.text
    assert "threading.py, line" in caplog.text


def failing(trial: TrialContext) -> None:
    trial.report(value=1.0, resource=1)
    raise SystemExit(3)


def test_a_thread_that_prints_faster_than_anybody_reads_waits() -> None:
    unread, printed, read = Unread(), list[str](), 0
    text, enough = "x" * 1_000, 3_000

    def flood() -> None:
        while len(printed) < enough and unread.add(text):
            printed.append(text)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    while thread.is_alive() and read < enough:
        waiting = len(printed) - read
        assert waiting <= (1 << 20) // len(text) + 1
        if waiting > 0:
            unread.read(text)
            read += 1
        else:
            thread.join(0.001)
    thread.join(60)
    assert len(printed) == enough
    for _ in range(enough - read):
        unread.read(text)
    while unread.add(text) and len(printed) < enough + 1_000:
        printed.append(text)
    unread.close()
    assert not unread.add(text), "of a thread that was left nobody reads, and it waits no more"


def test_a_trial_that_fails_or_exits_costs_itself_alone(tmp_path: Path) -> None:
    study = study_of(failing, tmp_path)
    with pytest.raises(Exception, match="SystemExit"):
        study.run(num_trials=3, display="none")
    assert TrialState.FAILED in {trial.state for trial in study.trials}


def ranked(trial: TrialContext) -> float:
    return float(trial.rank)


class Plain(Trainer):
    def train(self) -> None: ...

    def evaluate(self) -> dict[str, float]:
        return {"value": 1.0}


class Packed(Plain):
    @classmethod
    def train_pack(cls, trainers: Any) -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers_per_trial": 2}, "workers_per_trial= or autoscale=: the workers of a trial are processes"),
        ({"devices_per_trial": 1}, "devices_per_trial=1: threads of one process see the same devices"),
        ({"workers": WorkerOptions(fresh_process=True)}, "fresh_process=True.: trials in threads share one process"),
    ],
    ids=["gang", "devices", "process"],
)
def test_what_needs_a_worker_of_its_own_is_refused_at_once(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        study_of(ranked, tmp_path / "store", **options)
    assert "processes" in str(caught.value)
    assert not (tmp_path / "store").exists()


def test_packs_and_trainers_of_a_framework_are_refused(tmp_path: Path) -> None:
    from asyncsearch.trainers.base_trainer import FrameworkTrainer

    class Mine(FrameworkTrainer):
        def train(self) -> None: ...

        def evaluate(self) -> dict[str, float]:
            return {"value": 1.0}

    with pytest.raises(UsageError, match="Mine, a FrameworkTrainer: it sets the random"):
        study_of(Mine, tmp_path / "store", scheduler=FIFO(max_resource=4))
    with pytest.raises(UsageError, match="pack=: a pack is one model on one worker"):
        study_of(Packed, tmp_path / "store", scheduler=FIFO(max_resource=4), pack=2)


def test_a_function_that_cannot_be_stored_goes_on_from_its_program_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = threading.Lock()

    def train(trial: TrialContext) -> float:
        with lock:
            return float(trial.params["x"])

    study_of(train, tmp_path).run(num_trials=1, display="none")
    with pytest.raises(UsageError, match=r"cannot be sent to workers, .*: go on with it by backend='threads'"):
        Study.resume(tmp_path, backend="processes").run(num_trials=2, display="none")
    monkeypatch.setattr(held, "_held", {})
    with pytest.raises(UsageError, match=r"Run that again, with Study\(..., resume=True\)"):
        Study.resume(tmp_path)
    assert len(study_of(train, tmp_path, resume=True).run(num_trials=2, display="none").trials) == 2


class SilentJobs(TrialJobs):
    """Their cluster answers at some looks."""

    may_be_cut_off = True
    client = __name__

    def __init__(self, *looks: str) -> None:
        self._looks, self.are_over, self.has_been_asked = iter(looks), threading.Event(), threading.Event()

    def trouble(self) -> str:
        self.has_been_asked.set()
        if (found := next(self._looks, None)) is None:
            self.are_over.set()
        return found or ""


def test_each_silence_of_the_cluster_of_trials_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, launcher = SilentJobs("", "it is cut off", "it is cut off", "", "it is cut off"), ThreadLauncher()
    monkeypatch.setattr("asyncsearch.launch.threads.launcher.find_jobs", lambda: jobs)
    monkeypatch.setattr("asyncsearch.launch.threads.launcher._LOOK_S", 0.001)
    launcher.start(lambda *_: config_for(Path()), Ends())
    assert jobs.are_over.wait(PATIENCE_S)
    launcher.stop(0.0)
    words = "Trials that have asked for something wait up to 75 s: it is cut off."
    assert [record.message for record in caplog.records] == [words] * 2


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> SilentJobs:
    """Let the cluster of trials be silent for as long as is waited for it, from the first look on."""
    jobs = SilentJobs(*itertools.repeat("it is cut off", 100_000))
    monkeypatch.setattr("asyncsearch.launch.threads.launcher.find_jobs", lambda: jobs)
    monkeypatch.setattr("asyncsearch.launch.threads.launcher._LOOK_S", 0.001)
    monkeypatch.setattr("asyncsearch.launch.threads.launcher.SILENT_FOR_S", 0.0)
    return jobs


def test_a_search_whose_trials_wait_for_a_silent_cluster_ends_in_words(silent: SilentJobs, tmp_path: Path) -> None:
    begun: list[str] = []

    def train(trial: TrialContext) -> float:
        begun.append(trial.name)
        while True:  # as Spark's client does
            time.sleep(0.001)

    with pytest.raises(WorkersLostError, match="it is cut off"):
        study_of(train, tmp_path).run(num_trials=9, parallelism=2, display="none")
    assert len(begun) <= 2, "none begins only to wait"


def test_a_trial_that_waits_for_another_than_the_silent_cluster_goes_on(
    silent: SilentJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent, "client", "another")

    def train(trial: TrialContext) -> float:
        assert silent.has_been_asked.wait(PATIENCE_S)
        return float(trial.params["x"])

    assert len(study_of(train, tmp_path).run(num_trials=2, parallelism=2, display="none").trials) == 2
