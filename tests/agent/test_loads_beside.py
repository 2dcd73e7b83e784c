"""A checkpoint is fetched and compared while the trial that goes on from it is set up, and loaded after that."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asyncsearch.errors import CheckpointError
from asyncsearch.events import CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef
from asyncsearch.store.local.store import LocalStore
from asyncsearch.trainable import TrainFunction, TrialContext
from tests.agent.driver import DEADLINE_S, NODE, FakeDriver, agent, committed
from tests.agent.test_packs import lane_of, node
from tests.agent.trials import Packed

SAVED = CheckpointRef(NODE, 2)


class SlowStore(LocalStore):
    """A store that has read a checkpoint once the trial that goes on from it is set up, or once a test says so."""

    def __init__(self, root: Path, error: str = "") -> None:
        super().__init__(root)
        self.error = error
        self.is_let_go = threading.Event()

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        until = time.monotonic() + DEADLINE_S
        while not (self.is_let_go.is_set() or (self._root / "is set up").exists()):
            assert time.monotonic() < until, "the trial is not set up before its checkpoint is here"
            self.is_let_go.wait(0.01)
        if self.error:
            raise CheckpointError(self.error)
        with super().fetch(checkpoint) as folder:
            yield folder


def counting(root: Path, *, is_stubborn: bool = False, says: str = "is set up") -> TrainFunction:
    """Make a function that counts its units; a stubborn one goes on whatever is raised."""
    place, ignored = str(root / says), Exception if is_stubborn else ZeroDivisionError

    def train(trial: TrialContext) -> float | None:
        count = [0]

        def save(path: Path) -> None:
            path.write_text(str(count[0]))

        is_resumed = trial.resource > 0
        if is_resumed:
            Path(place).touch()
        with contextlib.suppress(ignored):
            for _ in trial.epochs(
                save=save,
                load=lambda path: count.append(int(path.read_text())),
            ):
                count[:] = [sum(count) + 1]
                trial.report(accuracy=float(count[0]))
        if is_stubborn and is_resumed:
            with contextlib.suppress(Exception):
                trial.report(accuracy=0.5, resource=3)
            return 0.25
        return None

    return train


@contextlib.contextmanager
def resumed(root: Path, store: SlowStore, function: TrainFunction) -> Iterator[FakeDriver]:
    """An agent whose work goes on from a checkpoint."""
    with agent(function, root, store=store) as driver:
        driver.train(0, stop=2, save=True)
        committed(driver, 2)
        driver.train(1, start=2, stop=4, save=True, load=SAVED)
        yield driver


def test_a_trial_is_set_up_while_its_checkpoint_is_read(tmp_path: Path) -> None:
    with resumed(tmp_path, SlowStore(tmp_path), counting(tmp_path)) as driver:
        assert driver.end(1).outcome is Outcome.REACHED
        committed(driver, 4)
        assert driver.values(1) == [(3, 3.0), (4, 4.0)]


def test_of_a_damaged_checkpoint_nothing_is_reported_and_nothing_saved(tmp_path: Path) -> None:
    store = SlowStore(tmp_path, "its checksum differs")
    with resumed(tmp_path, store, counting(tmp_path, is_stubborn=True)) as driver:
        end = driver.end(1)
        assert (end.outcome, end.error_kind) == (Outcome.FAILED, "checkpoint")
        assert "its checksum differs" in end.error
        assert (driver.of(Reported, 1), driver.of(CheckpointCommitted, 1)) == ([], [])


def test_a_trial_that_waits_for_its_checkpoint_heeds_a_stop(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    with resumed(tmp_path, store, counting(tmp_path, says="waits")) as driver:
        until = time.monotonic() + DEADLINE_S
        while not (tmp_path / "waits").exists():
            assert time.monotonic() < until
        driver.stop(1)
        assert driver.end(1).outcome is Outcome.STOPPED
        store.is_let_go.set()
        driver.train(2, stop=1)
        assert driver.end(2).outcome is Outcome.REACHED
        assert driver.values(2) == [(1, 1.0)]


class SetUp(Packed):
    """Says that it is set up where its parameters say so."""

    def setup(self, hp: dict[str, Any]) -> None:
        super().setup(hp)
        if "says" in hp:
            Path(hp["says"]).touch()


@contextlib.contextmanager
def resumed_pack(root: Path, store: SlowStore) -> Iterator[FakeDriver]:
    """An agent with two lanes, of which the second one goes on from a checkpoint."""
    with agent(SetUp, root, store=store) as driver:
        driver.assign(0, [lane_of(1, stop=2, save=True)])
        committed(driver, 2, node(1))
        says = {"says": str(root / "is set up")}
        driver.assign(1, [lane_of(0), lane_of(1, CheckpointRef(node(1), 2), says, start=2)])
        driver.wait(lambda: len(driver.of(TrainingEnded, 1)) == 2)
        yield driver


def test_a_pack_is_set_up_while_its_checkpoints_are_read(tmp_path: Path) -> None:
    with resumed_pack(tmp_path, SlowStore(tmp_path)) as driver:
        found = [(one.lane, one.resource, one.metrics["accuracy"]) for one in driver.of(Reported, 1)]
        assert sorted(found) == [(0, 1, 0.5), (0, 2, 1.0), (0, 3, 1.5), (1, 3, 3.0)]


def test_a_damaged_checkpoint_costs_a_pack_its_lane_alone(tmp_path: Path) -> None:
    with resumed_pack(tmp_path, SlowStore(tmp_path, "its checksum differs")) as driver:
        ends = {end.lane: end for end in driver.of(TrainingEnded, 1)}
        assert ends[0].outcome is Outcome.RETURNED
        assert (ends[1].outcome, ends[1].error_kind) == (Outcome.FAILED, "checkpoint")
        assert {one.lane for one in driver.of(Reported, 1)} == {0}
