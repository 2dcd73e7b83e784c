"""Pause and resume, batches, uploads beside training, and what becomes of a store that fails."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from asyncsearch.events import CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.rpc.messages import Refused
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.manifest import PackedWith, Shards
from asyncsearch.work import Lane
from tests.agent import trials
from tests.agent.driver import NODE, FakeDriver, agent, committed, lease, make_stage

OTHER = NodeKey("1" * 32)


class SlowStore(LocalStore):
    """Commits only when it is let."""

    gate = threading.Event()

    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        assert self.gate.wait(60)
        return super().commit(checkpoint, staged, packed_with, shards)


class FarStore(LocalStore):
    """Brings a checkpoint only when it is let."""

    gate = threading.Event()
    asked = threading.Event()
    released = threading.Event()

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        self.asked.set()
        assert self.gate.wait(60)
        with super().fetch(checkpoint) as folder:
            yield folder
        self.released.set()


def metrics(driver: FakeDriver, number: int) -> list[dict[str, float | str]]:
    return [report.metrics for report in driver.of(Reported, number)]


def test_a_trial_pauses_at_its_stop_and_goes_on_from_there(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path) as driver:
        driver.train(0, stop=2, max_resource=6, save=True)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 2, checkpoint_resource=2)
        assert committed(driver, 2).lease == lease(0)
        assert committed(driver, 2).size_bytes > 0
        driver.train(1, start=2, stop=6, max_resource=6, load=CheckpointRef(NODE, 2))
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.RETURNED, 6)
    assert [m["seen"] for m in metrics(driver, 0) + metrics(driver, 1)] == [1, 2, 3, 4, 5, 6]
    assert [m["loads"] for m in metrics(driver, 1)] == [1, 1, 1, 1]


def test_a_trainer_class_pauses_too_with_a_folder_as_its_checkpoint(tmp_path: Path) -> None:
    with agent(trials.Digits, tmp_path) as driver:
        driver.train(0, stop=2, max_resource=4, save=True)
        committed(driver, 2)
        driver.train(1, start=2, stop=4, max_resource=4, load=CheckpointRef(NODE, 2))
        driver.end(1)
    assert driver.values(0) + driver.values(1) == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0)]


def test_a_batch_of_stages_is_trained_without_reloading(tmp_path: Path) -> None:
    first = make_stage(start=0, stop=2, max_resource=6, save=True)
    second = make_stage(start=2, stop=4, max_resource=6, save=True, node=OTHER, params={"lr": 0.1})
    with agent(trials.remembers, tmp_path) as driver:
        driver.assign(0, [Lane((first, second))])
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 4, checkpoint_resource=4)
        committed(driver, 2, NODE)
        committed(driver, 4, OTHER)
        assert len(driver.of(CheckpointCommitted)) == 2
        # Its other half goes on from the boundary, in another node.
        third = make_stage(start=2, stop=3, max_resource=3, node=NodeKey("2" * 32), params={"lr": 7})
        driver.assign(1, [Lane((third,), CheckpointRef(NODE, 2))])
        driver.end(1)
    assert [m["lr"] for m in metrics(driver, 0)] == [0.5, 0.5, 0.1, 0.1]
    assert [m["loads"] for m in metrics(driver, 0)] == [0, 0, 0, 0]
    assert metrics(driver, 1) == [{"accuracy": 3, "lr": 7, "seen": 3, "loads": 1}]


def test_checkpoints_on_the_way_and_at_the_end_if_wanted(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path) as driver:
        driver.train(0, stop=7, max_resource=7, save=True, save_every=3)
        end = driver.end(0)
        assert (end.outcome, end.checkpoint_resource) == (Outcome.RETURNED, 7)
        for resource in (3, 6, 7):
            committed(driver, resource)
        assert len(driver.of(CheckpointCommitted)) == 3


def test_an_end_is_told_before_its_checkpoint_is_durable(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    store.gate.clear()
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=1, max_resource=2, save=True)
        driver.end(0)
        driver.train(1, stop=1, max_resource=1)
        driver.end(1)
        assert driver.of(CheckpointCommitted) == []
        store.gate.set()
        committed(driver, 1)


def test_no_third_checkpoint_is_saved_while_two_are_on_their_way(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    store.gate.clear()
    with agent(trials.remembers, tmp_path, store=store, heartbeat_s=0.02) as driver:
        driver.train(0, stop=9, max_resource=9, save_every=1)
        driver.wait(lambda: len(driver.of(Reported)) == 3)
        beats = driver.heartbeats
        driver.wait(lambda: driver.heartbeats > beats + 10)
        assert len(driver.of(Reported)) == 3  # the third unit is trained and waits to be saved
        store.gate.set()
        assert driver.end(0).outcome is Outcome.RETURNED


def test_a_trial_that_waits_for_room_can_be_stopped(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    store.gate.clear()
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=9, max_resource=9, save_every=1)
        driver.wait(lambda: len(driver.of(Reported)) == 3)
        driver.stop(0)
        end = driver.end(0)
        assert (end.outcome, end.resource, end.checkpoint_resource) == (Outcome.STOPPED, 3, 2)
        store.gate.set()


def test_a_dismissed_agent_ends_after_its_uploads(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    store.gate.clear()
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=1, max_resource=2, save=True)
        driver.end(0)
        threading.Timer(0.2, store.gate.set).start()
    assert [m.checkpoint.resource for m in driver.of(CheckpointCommitted)] == [1]


def test_a_trial_is_stopped_while_its_checkpoint_is_on_its_way(tmp_path: Path) -> None:
    store = FarStore(tmp_path)
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=1, max_resource=2, save=True)
        committed(driver, 1)
        driver.train(1, start=1, stop=2, max_resource=2, load=CheckpointRef(NODE, 1))
        assert store.asked.wait(60)
        driver.stop(1)
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.STOPPED, 1)
        driver.train(2, stop=1, max_resource=1)
        assert driver.end(2).outcome is Outcome.RETURNED
        store.gate.set()
        assert store.released.wait(60)
    assert driver.of(Reported, 1) == []


def test_a_missing_checkpoint_fails_the_trial(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path) as driver:
        driver.train(0, start=2, stop=4, max_resource=4, load=CheckpointRef(NODE, 2))
        end = driver.end(0)
        assert (end.outcome, end.error_kind, end.resource) == (Outcome.FAILED, "checkpoint", 2)
        driver.train(1, stop=1, max_resource=1)
        assert driver.end(1).outcome is Outcome.RETURNED


def test_a_save_that_writes_nothing_fails_the_trial(tmp_path: Path) -> None:
    with agent(trials.saves_nothing, tmp_path) as driver:
        driver.train(0, stop=1, max_resource=2, save=True)
        end = driver.end(0)
        driver.train(1, stop=1, max_resource=1)  # by then what was staged for the first is swept away
        driver.end(1)
    assert (end.outcome, end.error_kind, end.checkpoint_resource) == (Outcome.FAILED, "UsageError", None)
    assert "save wrote nothing for trial-0 at resource 1" in end.error


def test_a_trial_that_cannot_be_paused_says_what_to_do(tmp_path: Path) -> None:
    with agent(trials.cannot_pause, tmp_path) as driver:
        driver.train(0, stop=3, max_resource=9, save=True)
        end = driver.end(0)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "cannot_pause")
    assert "trial.epochs(save=..., load=...)" in end.error
    assert [resource for resource, _ in driver.values(0)] == [1, 2, 3]


def test_a_pause_that_is_swallowed_is_a_pause_all_the_same(tmp_path: Path) -> None:
    with agent(trials.swallows_the_pause, tmp_path) as driver:
        driver.train(0, stop=2, max_resource=9, save=True)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 2, checkpoint_resource=2)


def test_nothing_is_told_of_the_checkpoints_of_refused_work(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    store.gate.clear()
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=1, max_resource=2, save=True)
        driver.end(0)
        driver.deliver(Refused(lease(0), "another worker has it"))
        driver.train(1, stop=1, max_resource=1)
        driver.end(1)
        store.gate.set()
    assert driver.of(CheckpointCommitted) == []
