"""States that are copied at a pause, and written while the next trial trains in the same process."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import DismissWorker
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, TrainingEnded
from asyncsearch.ids import CheckpointRef
from asyncsearch.rpc.messages import StoreOutage
from asyncsearch.store.local.store import LocalStore
from tests.agent.driver import DEADLINE_S, NODE, WORKER, FakeDriver, agent, committed, lease, make_stage
from tests.agent.test_packs import ends, lane_of, node
from tests.agent.trials import Copied, CopiedLane

AT_2 = CheckpointRef(NODE, 2)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe: whoever writes a copy waits for what comes out of it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def pause(driver: FakeDriver, number: int, **params: Any) -> None:
    """Let a trial pause at 2; its checkpoint is of a node of its own."""
    given = {"params": {"number": number, **params}, "node": NODE if number == 0 else f"{number}" * 32}
    driver.train(number, **{"stop": 2, "max_resource": 4, "save": True} | given)


def outages(driver: FakeDriver) -> list[str]:
    return [message.error for message in driver.sent if isinstance(message, StoreOutage)]


def content(folder: Path, checkpoint: CheckpointRef = AT_2) -> str:
    with LocalStore(folder).fetch(checkpoint) as found:
        return (found / "checkpoint").read_text()


def test_the_next_trial_trains_while_a_copy_is_written(tmp_path: Path, gate: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, gate=str(gate))
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 2, checkpoint_resource=2)
        driver.train(1, stop=3, max_resource=3)
        assert driver.end(1).outcome is Outcome.RETURNED
        assert driver.of(CheckpointCommitted) == []
        gate.write_text("write")
        assert committed(driver, 2).lease == lease(0)
    assert content(tmp_path) == "copied 2"


def test_a_second_copy_waits_until_the_first_one_is_written(tmp_path: Path, gate: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, gate=str(gate))
        pause(driver, 1)
        driver.wait(lambda: len(driver.values(1)) == 2)
        assert driver.of(TrainingEnded, 1) == []
        gate.write_text("write")
        assert driver.end(1).checkpoint_resource == 2
        driver.wait(lambda: [m.lease for m in driver.of(CheckpointCommitted)] == [lease(0), lease(1)])


def test_a_stop_ends_the_wait_for_the_copy_before(tmp_path: Path, gate: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, gate=str(gate))
        pause(driver, 1)
        driver.wait(lambda: len(driver.values(1)) == 2)
        driver.stop(1)
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.STOPPED, 2)
        gate.write_text("write")
        committed(driver, 2)


def test_a_dead_process_takes_the_copy_along_and_the_next_one_makes_none(tmp_path: Path, gate: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, gate=str(gate))
        driver.train(1, stop=3, max_resource=3, params={"number": 1, "exits_at": 2})
        failed = driver.first(CheckpointFailed)
        assert (failed.lease, failed.checkpoint, failed.error_kind) == (lease(0), AT_2, "killed")
        assert driver.end(1).outcome is Outcome.FAILED
        pause(driver, 2)
        ref = CheckpointRef(make_stage(node="2" * 32).node, 2)
        committed(driver, 2, ref.node)
    assert content(tmp_path, ref) == "saved 2"
    about = [type(m) for m in driver.sent if isinstance(m, TrainingEnded | CheckpointFailed) and m.lease == lease(0)]
    assert about == [TrainingEnded, CheckpointFailed]


def test_an_error_of_the_write_is_that_of_its_trial(tmp_path: Path, gate: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, gate=str(gate))
        driver.train(1, stop=3, max_resource=3)
        driver.end(1)
        gate.write_text("fail")
        failed = driver.first(CheckpointFailed)
        assert (failed.lease, failed.checkpoint, failed.error_kind) == (lease(0), AT_2, "")
        assert "ValueError: cannot be written" in failed.error
    deadline = time.monotonic() + DEADLINE_S
    while any("checkpoint" in files for _, _, files in os.walk(tmp_path / "tmp")):  # threads of the agent end after it
        assert time.monotonic() < deadline


def test_a_worn_process_writes_its_copy_before_it_ends(tmp_path: Path, gate: Path) -> None:
    with agent(Copied, tmp_path, recycle_after=1, kill_grace_s=0.0) as driver:
        pause(driver, 0, gate=str(gate))
        driver.end(0)
        gate.write_text("write")
        committed(driver, 2)
        driver.train(1, stop=1, max_resource=1)
        driver.end(1)
    assert content(tmp_path) == "copied 2"


def test_a_full_disk_is_told_and_the_copy_is_written_once_it_can_be(tmp_path: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, refusals=1)
        committed(driver, 2)
        driver.wait(lambda: [bool(error) for error in outages(driver)] == [True, False])
    assert content(tmp_path) == "copied 2"


def test_a_dismissal_gives_up_a_copy_that_the_disk_does_not_take(tmp_path: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, refusals=1_000)
        driver.wait(lambda: len(outages(driver)) == 1)
    assert [(failed.lease, failed.error_kind) for failed in driver.of(CheckpointFailed)] == [(lease(0), "store")]


def test_a_dismissed_worker_writes_its_copy_first(tmp_path: Path, gate: Path) -> None:
    with agent(Copied, tmp_path) as driver:
        pause(driver, 0, gate=str(gate))
        driver.end(0)
        driver.deliver(DismissWorker(WORKER, 1, "nothing is left to train"))
        gate.write_text("write")
    assert content(tmp_path) == "copied 2"


def test_processes_of_one_training_each_make_no_copy(tmp_path: Path) -> None:
    with agent(Copied, tmp_path, fresh_process=True) as driver:
        pause(driver, 0)
        committed(driver, 2)
    assert content(tmp_path) == "saved 2"


def test_lanes_of_a_pack_pause_with_copies_one_after_the_other(tmp_path: Path, gate: Path) -> None:
    pausing: dict[str, Any] = {"stop": 2, "max_resource": 4, "save": True}
    with agent(CopiedLane, tmp_path) as driver:
        driver.assign(0, [lane_of(0, params={"gate": str(gate)}, **pausing), lane_of(1, **pausing), lane_of(2)])
        driver.wait(lambda: len(driver.of(TrainingEnded)) == 1)
        assert driver.of(CheckpointCommitted) == []
        gate.write_text("write")
        found = ends(driver, 3)
        driver.wait(lambda: len(driver.of(CheckpointCommitted)) == 2)
        assert {lane: (end.outcome, end.checkpoint_resource) for lane, end in found.items()} == {
            0: (Outcome.REACHED, 2),
            1: (Outcome.REACHED, 2),
            2: (Outcome.RETURNED, None),
        }
        assert {m.checkpoint: m.lane for m in driver.of(CheckpointCommitted)} == {
            CheckpointRef(node(0), 2): 0,
            CheckpointRef(node(1), 2): 1,
        }
        driver.assign(3, [lane_of(1, CheckpointRef(node(1), 2), start=2)])
        assert driver.end(3).resource == 3
    assert [content(tmp_path, CheckpointRef(node(lane), 2)) for lane in (0, 1)] == ["copied 2", "copied 2"]


def test_a_pack_that_dies_takes_the_copy_of_a_lane_along(tmp_path: Path, gate: Path) -> None:
    pausing: dict[str, Any] = {"stop": 2, "max_resource": 4, "save": True}
    with agent(CopiedLane, tmp_path) as driver:
        driver.assign(0, [lane_of(0, params={"gate": str(gate)}, **pausing), lane_of(1, params={"exits_at": 3})])
        found = ends(driver, 2)
        failed = driver.first(CheckpointFailed)
        assert (failed.lane, failed.checkpoint, failed.error_kind) == (0, CheckpointRef(node(0), 2), "killed")
        assert (found[0].outcome, found[1].outcome) == (Outcome.REACHED, Outcome.FAILED)
