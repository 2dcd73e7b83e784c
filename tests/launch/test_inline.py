"""Trials in the main thread, with the real driver and a real store."""

from __future__ import annotations

import bdb
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import randint
from asyncsearch._version import __version__
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.driver.loop import Driver
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.events import DriverStarted, RunRequested, StopRequested
from asyncsearch.ids import WorkerId
from asyncsearch.journal.writer import Journal
from asyncsearch.launch.base_launcher import TOO_LATE
from asyncsearch.launch.bundle import pack
from asyncsearch.launch.inline import InlineLauncher
from asyncsearch.rpc.messages import Hello, WorkerMessage
from asyncsearch.schedulers.asha import ASHA
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.space import Space
from asyncsearch.store import open_store
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.driver.test_loop import call
from tests.launch import left
from tests.launch.left import BEATS, CALLS


class Search:
    """A study that is run inline, as ``asyncsearch.study.run`` would."""

    def __init__(self, folder: Path, train: Callable[[TrialContext], Any]) -> None:
        self.store = open_store(folder)
        self.store.prepare()
        scheduler = ASHA(max_resource=4, reduction_factor=2)
        searcher = RandomSearch().begin(Space.of({"x": randint(0, 100)}), 0)
        config = EngineConfig(study="inline", metric="value", mode="max")
        self.state = StudyState(config, searcher, scheduler.begin(), scheduler.max_resource)
        self.launcher = InlineLauncher()
        self.driver = Driver(
            self.state,
            self.store,
            Journal(self.store, "inline", 0),
            launch=self.launcher.launch,
            kill=self.launcher.kill,
            changed=self.launcher.wake,
        )
        self.driver.connect(self.launcher)
        self.bundle = pack(train).data
        self.launcher.start(self._config, self.driver.lost)
        self.ticks = 0

    def _config(self, worker: WorkerId, epoch: int) -> WorkerConfig:
        return WorkerConfig(
            study="inline",
            metric="value",
            bundle=self.bundle,
            store=self.store,
            endpoint=None,
            worker=worker,
            epoch=epoch,
            heartbeat_s=0.01,
        )

    def begin(self, num_trials: int) -> None:
        self.driver.post(DriverStarted(__version__))
        self.driver.post(RunRequested(num_trials, 1))

    def go_on(self) -> None:
        self.launcher.train_here(self._post, self.driver.ended.is_set, self._tick)

    def _post(self, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        if isinstance(message, Hello):
            self.driver.loop.call_soon_threadsafe(self.driver.attached, message, "inline")
        else:
            self.driver.loop.call_soon_threadsafe(self.driver.received, worker, epoch, number, message)

    def _tick(self) -> None:
        self.ticks += 1

    def states(self) -> list[TrialState]:
        return [trial.state for trial in self.state.trials]


@pytest.fixture
def search(tmp_path: Path) -> Iterator[Callable[[Callable[[TrialContext], Any]], Search]]:
    made: list[Search] = []

    def make(train: Callable[[TrialContext], Any]) -> Search:
        made.append(Search(tmp_path / "store", train))
        return made[-1]

    CALLS.clear()
    yield make
    for one in made:
        one.launcher.stop(0.0)
        one.driver.close()
        assert one.driver.failure is None


Make = Callable[[Callable[[TrialContext], Any]], Search]


def write_something(path: Path) -> None:
    path.write_text("x")


def counting(trial: TrialContext) -> None:
    from tests.launch import left

    total = [0]

    def save(path: Path) -> None:
        path.write_text(str(total[0]))

    def load(path: Path) -> None:
        total[0] = int(path.read_text())

    for _ in trial.epochs(save=save, load=load):
        total[0] += 1
        left.CALLS.append((trial.name, trial.resource, total[0], threading.current_thread().name))
        trial.report(value=trial.params["x"])


def test_whole_search_runs_in_the_calling_thread(search: Make) -> None:
    one = search(counting)
    one.begin(8)
    one.go_on()
    assert one.driver.outcome is not None
    assert one.driver.outcome.is_complete
    assert {state.is_finished or state is TrialState.PAUSED for state in one.states()} == {True}
    assert TrialState.COMPLETED in one.states()
    assert {thread for _, _, _, thread in CALLS} == {threading.current_thread().name}
    assert one.ticks > len(CALLS)


def test_paused_trials_go_on_from_their_checkpoints(search: Make) -> None:
    one = search(counting)
    one.begin(8)
    one.go_on()
    assert all(done + 1 == total for _, done, total, _ in CALLS)
    assert len(CALLS) == len({(name, done) for name, done, _, _ in CALLS})


def failing(trial: TrialContext) -> None:
    for _ in trial.epochs(save=write_something, load=lambda path: None):
        broken = [1, 2, 3]
        broken[7]


def test_exception_shows_the_users_frames_and_is_left_to_the_debugger(
    search: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    one = search(failing)
    one.begin(1)
    one.go_on()
    assert one.states() == [TrialState.FAILED]
    assert one.state.trials[0].reason == "IndexError: list index out of range"
    shown = capsys.readouterr().err
    assert "broken[7]" in shown
    assert "launch/inline" not in shown
    frame = sys.last_traceback
    assert frame is not None
    assert frame.tb_frame.f_locals["broken"] == [1, 2, 3]


def interrupted_once(trial: TrialContext) -> None:
    from tests.launch import left

    for _ in trial.epochs(save=write_something, load=lambda path: None):
        left.CALLS.append(trial.name)
        if len(left.CALLS) == 2:
            raise left.INTERRUPT
        trial.report(value=1.0)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), bdb.BdbQuit()], ids=["ctrl-c", "debugger"])
def test_interrupt_reaches_the_caller_and_the_trial_can_be_resumed(
    search: Make, interrupt: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left, "INTERRUPT", interrupt)
    one = search(interrupted_once)
    one.begin(4)
    with pytest.raises(KeyboardInterrupt):
        one.go_on()
    assert len(CALLS) == 2
    one.driver.post(StopRequested("it was interrupted"))
    one.go_on()
    assert len(CALLS) == 2
    assert one.driver.outcome is not None
    assert not one.driver.outcome.is_complete
    assert TrialState.WAITING in one.states()
    assert TrialState.FAILED not in one.states()


def patient(trial: TrialContext) -> None:
    from tests.launch import left

    for _ in trial.epochs(save=write_something, load=lambda path: None):
        left.BEATS.wait(60)
        trial.report(value=1.0)


def test_worker_lives_while_its_trial_stands_at_a_breakpoint(search: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial goes on only after the driver has heard heartbeats in the middle of it."""
    BEATS.clear()
    heard: list[int] = []
    one = search(patient)
    post = one._post

    def listening(worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        heard.append(number)
        if heard.count(0) == 4:
            BEATS.set()
        post(worker, epoch, number, message)

    monkeypatch.setattr(one, "_post", listening)
    one.begin(1)
    one.go_on()
    assert BEATS.is_set()
    assert one.states() == [TrialState.PAUSED]


def test_trainable_that_cannot_be_loaded_fails_each_trial(search: Make) -> None:
    one = search(counting)
    one.bundle = b"no pickle"
    one.begin(2)
    one.go_on()
    assert one.states() == [TrialState.FAILED, TrialState.FAILED]
    assert "The trainable could not be loaded" in one.state.trials[0].reason


def test_worker_that_attaches_after_its_launch_is_ignored_without_alarm(
    search: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = search(counting)
    one.driver.receive(WorkerId(0), 9, 0, Hello(WorkerId(0), 9, "id", "host", 1))
    assert call(one.driver, lambda state: list(state.pool.alive())) == []
    assert caplog.messages == []


def test_what_comes_after_stop_is_told_and_reaches_no_later_run(search: Make) -> None:
    one, told = search(counting), []
    one.launcher.start(one._config, lambda *end: told.append(end))
    one.launcher.launch(WorkerId(0), 1)
    one.launcher.stop(0.0)
    one.launcher.launch(WorkerId(0), 2)
    assert told == [(WorkerId(0), 2, TOO_LATE)]
    one.launcher.start(one._config, one.driver.lost)
    one.begin(1)
    one.go_on()
    assert one.states() == [TrialState.PAUSED]


def test_parallelism_is_not_heeded_and_that_is_said() -> None:
    assert InlineLauncher().check(None).warnings == ()
    preflight = InlineLauncher().check(4)
    assert preflight.parallelism == 1
    assert preflight.warnings == ("Inline, one trial runs after the other: parallelism=4 is ignored.",)


def tripled(x: int) -> int:
    return 3 * x


def with_a_pool(trial: TrialContext) -> None:
    for _ in trial.epochs(state={}):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            trial.report(value=sum(pool.map_async(tripled, range(3)).get(timeout=60)))


def test_functions_of_the_user_go_to_a_pool_in_a_trial(search: Make) -> None:
    one = search(with_a_pool)
    one.begin(1)
    one.go_on()
    assert [trial.value for trial in one.state.trials] == [9.0]
