"""A worker whose store fails: it tries again, says so, and blames no trial."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Checkpoints, Study, uniform
from asyncsearch.driver.timeouts import STOP_S
from asyncsearch.errors import CheckpointError, StoreError
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef
from asyncsearch.rpc.messages import StoreOutage
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.manifest import PackedWith, Shards
from asyncsearch.trainable import TrialContext
from tests.agent import trials
from tests.agent.driver import NODE, FakeDriver, agent, committed, lease

FULL = StoreError("the disk is full")


class AwayStore(LocalStore):
    """Fails in the named operations, as long as there are failures left."""

    def __init__(self, root: Path, **failures: float) -> None:
        super().__init__(root)
        self.failures = failures
        self.raised: Exception = FULL

    def _fail(self, operation: str) -> None:
        if self.failures.get(operation, 0) > 0:
            self.failures[operation] -= 1
            raise self.raised

    def stage(self, checkpoint: CheckpointRef) -> Path:
        self._fail("stage")
        return super().stage(checkpoint)

    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        self._fail("commit")
        return super().commit(checkpoint, staged, packed_with, shards)

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        self._fail("fetch")
        with super().fetch(checkpoint) as folder:
            yield folder


FOREVER = float("inf")


def outages(driver: FakeDriver) -> list[str]:
    return [message.error for message in driver.sent if isinstance(message, StoreOutage)]


def train_two_units(driver: FakeDriver, number: int = 0, **changes: Any) -> None:
    driver.train(number, **{"stop": 2, "max_resource": 4, "save": True} | changes)


def test_a_failed_commit_is_retried_and_the_driver_learns_of_the_outage(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=AwayStore(tmp_path, commit=2)) as driver:
        train_two_units(driver)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 2, checkpoint_resource=2)
        committed(driver, 2)
        driver.wait(lambda: outages(driver) == ["the disk is full", ""])
    assert driver.of(CheckpointFailed) == []


def test_training_goes_on_while_a_commit_waits(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=AwayStore(tmp_path, commit=FOREVER)) as driver:
        train_two_units(driver)
        driver.wait(lambda: outages(driver) == ["the disk is full"])
        driver.train(1, stop=3, max_resource=3)
        assert driver.end(1).outcome is Outcome.RETURNED
        assert len(driver.of(Reported, 1)) == 3


def test_a_stop_ends_the_wait_of_an_ended_training_and_blames_nobody(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=AwayStore(tmp_path, commit=FOREVER)) as driver:
        train_two_units(driver)
        driver.end(0)
        driver.wait(lambda: bool(outages(driver)))
        driver.stop(0)
        failed = driver.first(CheckpointFailed)
        assert failed == CheckpointFailed(lease(0), CheckpointRef(NODE, 2), "the disk is full", error_kind="store")
        driver.wait(lambda: outages(driver)[-1] == "")
    assert list((tmp_path / "tmp").rglob("checkpoint")) == []


def test_a_dismissed_agent_does_not_wait_for_its_store(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=AwayStore(tmp_path, commit=FOREVER)) as driver:
        train_two_units(driver)
        driver.end(0)
        driver.wait(lambda: bool(outages(driver)))
    assert [failed.error_kind for failed in driver.of(CheckpointFailed)] == ["store"]


def test_an_impossible_checkpoint_is_reported_at_once_as_the_trials_fault(tmp_path: Path) -> None:
    def saves_a_pipe(trial: TrialContext) -> None:
        def save(path: Path) -> None:
            path.mkdir()
            os.mkfifo(path / "pipe")

        for _ in trial.epochs(save=save, load=lambda path: None):
            trial.report(accuracy=1.0)

    with agent(saves_a_pipe, tmp_path) as driver:
        train_two_units(driver)
        failed = driver.first(CheckpointFailed)
    assert failed.error_kind == ""
    assert "cannot be part of a checkpoint" in failed.error
    assert outages(driver) == []


def test_a_trial_waits_for_a_place_for_the_checkpoint_that_it_needs(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=AwayStore(tmp_path, stage=2)) as driver:
        train_two_units(driver)
        committed(driver, 2)
        driver.wait(lambda: len(outages(driver)) == 2)
    assert outages(driver) == ["There is no place for a checkpoint on this worker: the disk is full", ""]


def test_a_trial_that_waits_for_a_place_can_be_stopped(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=AwayStore(tmp_path, stage=FOREVER)) as driver:
        train_two_units(driver)
        driver.wait(lambda: bool(outages(driver)))
        driver.stop(0)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.STOPPED, 2)
        driver.wait(lambda: outages(driver)[-1] == "")


def test_a_trial_trains_on_without_a_checkpoint_that_it_does_not_need(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path, store=AwayStore(tmp_path, stage=1)) as driver:
        driver.train(0, stop=4, max_resource=4, save_every=2)
        failed = driver.first(CheckpointFailed)
        assert (failed.checkpoint.resource, failed.error_kind) == (2, "store")
        assert driver.end(0).outcome is Outcome.RETURNED
    assert len(driver.of(Reported)) == 4


def test_a_save_that_its_disk_refuses_is_done_again(tmp_path: Path) -> None:
    refusals = tmp_path / "refusals"

    def saves_at_the_third_try(trial: TrialContext) -> None:
        def save(path: Path) -> None:
            path.write_text("half of it")
            if not refusals.exists() or len(refusals.read_text()) < 2:
                with open(refusals, "a") as file:
                    file.write(".")
                raise OSError(28, "No space left on device")
            path.write_text("all")

        for _ in trial.epochs(save=save, load=lambda path: None):
            trial.report(accuracy=1.0)

    with agent(saves_at_the_third_try, tmp_path / "store") as driver:
        train_two_units(driver)
        committed(driver, 2)
        driver.wait(lambda: outages(driver)[-1:] == [""])
    assert "No space left on device" in outages(driver)[0]
    assert refusals.read_text() == ".."
    assert driver.of(CheckpointFailed) == []


def test_a_checkpoint_that_cannot_be_read_now_is_fetched_later(tmp_path: Path) -> None:
    store = AwayStore(tmp_path)
    with agent(trials.remembers, tmp_path, store=store) as driver:
        train_two_units(driver)
        committed(driver, 2)
        store.failures["fetch"] = 2
        train_two_units(driver, 1, start=2, stop=4, load=CheckpointRef(NODE, 2))
        assert driver.end(1).outcome is Outcome.RETURNED
    assert outages(driver) == ["the disk is full", ""]


def test_a_damaged_checkpoint_is_told_at_once(tmp_path: Path) -> None:
    store = AwayStore(tmp_path)
    with agent(trials.remembers, tmp_path, store=store) as driver:
        train_two_units(driver)
        committed(driver, 2)
        store.raised, store.failures["fetch"] = CheckpointError("it is damaged"), FOREVER
        train_two_units(driver, 1, start=2, stop=4, load=CheckpointRef(NODE, 2))
        end = driver.end(1)
    assert (end.outcome, end.error_kind, end.error) == (Outcome.FAILED, "checkpoint", "it is damaged")
    assert outages(driver) == []


def test_a_stop_ends_the_wait_for_a_checkpoint_that_cannot_be_read(tmp_path: Path) -> None:
    store = AwayStore(tmp_path)
    with agent(trials.remembers, tmp_path, store=store) as driver:
        train_two_units(driver)
        committed(driver, 2)
        store.failures["fetch"] = FOREVER
        train_two_units(driver, 1, start=2, stop=4, load=CheckpointRef(NODE, 2))
        driver.wait(lambda: bool(outages(driver)))
        driver.stop(1)
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.STOPPED, 2)
        driver.train(2, stop=1, max_resource=1)
        assert driver.end(2).outcome is Outcome.RETURNED
    assert len(driver.of(CheckpointCommitted)) == 1


class WithoutFolders(LocalStore):
    """Takes no folders of trials, as a disk whose owner has closed a part of it."""

    def child(self, name: str) -> LocalStore:
        return AwayStore(self._root / name, stage=FOREVER)


def writes(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        (trial.dir / "notes").write_text("x")
        trial.report(loss=1.0)


def search(store: LocalStore, backend: str) -> Study:
    checkpoints = Checkpoints(store_timeout=1, at_rungs=True)  # a save waits for a folder that cannot be stored
    options: dict[str, Any] = {"metric": "loss", "mode": "min", "checkpoints": checkpoints, "backend": backend}
    return Study(writes, space={"x": uniform(0, 1)}, scheduler=FIFO(max_resource=2), store=store, **options)


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_run_whose_store_takes_no_folder_of_a_trial_ends_in_time(tmp_path: Path, backend: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(StoreError, match="the store could not be used for 1 s: the disk is full"):
        search(WithoutFolders(tmp_path / "store"), backend).run(3, parallelism=1, display="none")
    assert time.monotonic() - began_s < STOP_S


def test_what_no_wait_mends_is_not_waited_for_with_a_trials_folder(tmp_path: Path) -> None:
    study = search(LocalStore(tmp_path / "store"), "inline")
    study.run(1, display="none")
    shutil.rmtree(tmp_path / "store/dirs")
    (tmp_path / "store/dirs").write_text("no folder")
    study.run(2, display="none")
    assert [trial.state.value for trial in study.trials] == ["COMPLETED", "COMPLETED"]
