"""What the driver wishes of a lane that is assigned: through the agent, to the runner, or dropped in between."""

from __future__ import annotations

import os
import queue
import shutil
import threading
from pathlib import Path

import pytest

from asyncsearch.actions import CutWork, SaveAt, StopTraining
from asyncsearch.agent.runner_process import RunnerProcess
from asyncsearch.errors import CheckpointError
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.rpc.messages import LogLines
from asyncsearch.runner import protocol
from asyncsearch.sequences import multistep
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.manifest import PackedWith, Shards
from asyncsearch.work import Lane, Stage
from tests.agent import trials
from tests.agent.driver import NODE, FakeDriver, agent, committed, lease, make_config, make_stage
from tests.agent.test_worker_checkpoints import FarStore
from tests.untimed import untimed

OTHER = NodeKey("1" * 32)
STEPS = multistep(0.1, [2, 4]).to_json()


class Gate:
    """Where ``trials.waits`` stands until it is let on."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "gate")
        os.mkfifo(self.path)

    def open(self, driver: FakeDriver) -> None:
        """Let it on, after the runner was told all that was delivered so far."""
        driver.assign(99, [Lane((make_stage(99),))])
        driver.stop(99)
        driver.end(99)  # the agent does one thing after the other
        Path(self.path).write_text("go")


class LetterStore(LocalStore):
    """Cannot commit at some resources; the others, only when they are let."""

    bad: tuple[int, ...] = ()
    gate = threading.Event()

    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        assert self.gate.wait(60)
        if checkpoint.resource in self.bad:
            raise CheckpointError("the disk is full")
        return super().commit(checkpoint, staged, packed_with, shards)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def two_stages(gate: Gate | None = None, at: int = 0, *, save: bool = False, end: int = 9) -> Lane:
    """0 to 3 in one node, 3 to 6 in another; it stands still in the epoch ``at``."""
    params = {"lr": STEPS, "gate": "" if gate is None else gate.path, "at": at}
    return Lane(
        (
            make_stage(params=params, node=NODE, start=0, stop=3, max_resource=end, save=save),
            make_stage(params=params, node=OTHER, start=3, stop=6, max_resource=end, save=save),
        )
    )


def commits(driver: FakeDriver) -> list[CheckpointRef]:
    return [message.checkpoint for message in driver.of(CheckpointCommitted)]


def at(driver: FakeDriver, resource: int) -> None:
    """Wait until the trial has reported there, and stands still."""
    driver.wait(lambda: any(report.resource == resource for report in driver.of(Reported)))


def test_a_running_lane_saves_where_that_is_wished_and_goes_on(tmp_path: Path, gate: Gate) -> None:
    with agent(trials.waits, tmp_path) as driver:
        driver.assign(0, [two_stages(gate, at=4)])
        at(driver, 4)
        for node, resource in ((NODE, 2), (OTHER, 4), (OTHER, 5), (NODE, 5)):
            driver.deliver(SaveAt(lease(0), node, resource))
        gate.open(driver)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 6, checkpoint_resource=5)
        committed(driver, 5, OTHER)
    assert commits(driver) == [CheckpointRef(OTHER, 4), CheckpointRef(OTHER, 5)]
    assert [m.metrics["lr"] for m in driver.of(Reported, 0)] == [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]


def test_a_running_lane_that_is_cut_ends_there(tmp_path: Path, gate: Gate) -> None:
    with agent(trials.waits, tmp_path) as driver:
        driver.assign(0, [two_stages(gate, at=2)])
        at(driver, 2)
        driver.deliver(CutWork(lease(0), 5))
        gate.open(driver)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 5, checkpoint_resource=5)
        committed(driver, 5, OTHER)


def test_a_running_lane_past_its_cut_ends_after_its_unit_and_says_where(tmp_path: Path, gate: Gate) -> None:
    with agent(trials.waits, tmp_path) as driver:
        driver.assign(0, [two_stages(gate, at=3)])
        at(driver, 3)
        driver.deliver(CutWork(lease(0), 1))
        gate.open(driver)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 3, checkpoint_resource=3)
        committed(driver, 3, NODE)
        driver.train(1, stop=2, max_resource=2, params={"lr": 1, "at": 0})
        assert driver.end(1).outcome is Outcome.RETURNED


def test_a_request_to_a_lane_that_waits_for_its_checkpoint_is_kept(tmp_path: Path) -> None:
    store = FarStore(tmp_path)
    store.gate.clear()
    store.asked.clear()
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.train(0, stop=1, max_resource=9, save=True)
        committed(driver, 1)
        driver.train(1, start=1, stop=6, max_resource=9, load=CheckpointRef(NODE, 1))
        assert store.asked.wait(60)
        driver.deliver(SaveAt(lease(1), NODE, 2))
        driver.deliver(CutWork(lease(1), 4))
        store.gate.set()
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.REACHED, 4, checkpoint_resource=4)
        committed(driver, 4)
    assert [checkpoint.resource for checkpoint in commits(driver)] == [1, 2, 4]


def test_what_is_wished_of_another_lane_or_lease_changes_nothing(tmp_path: Path, gate: Gate) -> None:
    with agent(trials.waits, tmp_path) as driver:
        driver.assign(0, [two_stages(gate, at=1), two_stages()])
        at(driver, 1)
        driver.deliver(CutWork(lease(0), 2, lane=1))
        driver.deliver(CutWork(lease(7), 2))
        driver.deliver(SaveAt(lease(0), NODE, 1, lane=5))
        gate.open(driver)
        driver.wait(lambda: len(driver.of(TrainingEnded, 0)) == 2)
        committed(driver, 2)
    assert [(end.lane, end.resource) for end in driver.of(TrainingEnded, 0)] == [(0, 6), (1, 2)]
    assert commits(driver) == [CheckpointRef(NODE, 2)]


def test_what_crosses_the_end_of_a_lane_is_dropped(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path) as driver:
        driver.train(0, stop=2, max_resource=2)
        driver.end(0)
        driver.deliver(SaveAt(lease(0), NODE, 1))
        driver.deliver(CutWork(lease(0), 1))
        driver.train(1, stop=3, max_resource=3)
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.RETURNED, 3)
    assert commits(driver) == []


def test_a_runner_drops_what_crossed_its_end(tmp_path: Path) -> None:
    """It was sent before the agent had read the end, so it comes before the next training."""
    ended: queue.SimpleQueue[RunnerProcess] = queue.SimpleQueue()
    runner = RunnerProcess(make_config(trials.remembers, tmp_path), ended.put)
    stage = make_stage(stop=2, max_resource=2)
    try:
        for _ in range(2):
            runner.channel.send(protocol.Train((stage,)))
            while not isinstance(said := runner.channel.receive(), protocol.Ended):
                assert isinstance(said, protocol.RunnerReady | protocol.LaneReported)
            assert untimed(said) == protocol.Ended(Outcome.RETURNED, 2)
            for crossing in (
                protocol.Folder("x"),
                SaveAt(lease(0), NODE, 1),
                CutWork(lease(0), 1),
                StopTraining(lease(0), "no"),
            ):
                runner.channel.send(crossing)
    finally:
        runner.close()
    ended.get(timeout=60)


def test_reports_come_before_their_checkpoints_and_before_the_end(tmp_path: Path) -> None:
    """Trap 2.4.10: a batch commits stage by stage."""
    with agent(trials.remembers, tmp_path) as driver:
        driver.assign(0, [two_stages(save=True)])
        driver.end(0)
        committed(driver, 6, OTHER)
        said = [message for message in driver.sent if not isinstance(message, LogLines)]
    reported = {m.resource: n for n, m in enumerate(said) if isinstance(m, Reported)}
    durable = {m.checkpoint.resource: n for n, m in enumerate(said) if isinstance(m, CheckpointCommitted)}
    end = next(n for n, m in enumerate(said) if isinstance(m, TrainingEnded))
    assert reported[3] < durable[3]
    assert max(reported.values()) < min(end, durable[6])


def test_training_goes_on_while_checkpoints_of_its_lane_are_on_their_way(tmp_path: Path) -> None:
    store = LetterStore(tmp_path)
    store.gate.clear()
    with agent(trials.remembers, tmp_path, store=store) as driver:
        driver.assign(0, [two_stages(save=True)])
        assert driver.end(0).checkpoint_resource == 6
        assert commits(driver) == []
        store.gate.set()
        committed(driver, 6, OTHER)
    assert commits(driver) == [CheckpointRef(NODE, 3), CheckpointRef(OTHER, 6)]


def test_a_save_that_fails_on_the_way_is_told_and_training_goes_on(tmp_path: Path) -> None:
    with agent(trials.saves_the_last, tmp_path) as driver:
        driver.assign(0, [two_stages(save=True)])
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 6, checkpoint_resource=6)
        committed(driver, 6, OTHER)
        (failed,) = driver.of(CheckpointFailed)
    assert (failed.lease, failed.checkpoint) == (lease(0), CheckpointRef(NODE, 3))
    assert failed.error.splitlines()[-1] == "OSError: no space left in this test"
    assert "in save_the_last" in failed.error
    assert "asyncsearch: there is no checkpoint at 3, and training goes on." in driver.text(0)
    assert commits(driver) == [CheckpointRef(OTHER, 6)]
    assert list((tmp_path / "tmp").rglob("checkpoint")) == []


def test_a_commit_that_fails_on_the_way_is_told_and_training_goes_on(tmp_path: Path, gate: Gate) -> None:
    store = LetterStore(tmp_path)
    store.bad = (3,)
    store.gate.set()
    with agent(trials.waits, tmp_path, store=store) as driver:
        driver.assign(0, [two_stages(gate, at=4, save=True)])
        failed = driver.first(CheckpointFailed)
        driver.deliver(CutWork(lease(0), 4))
        gate.open(driver)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.REACHED, 4, checkpoint_resource=4)
        committed(driver, 4, OTHER)
    assert failed == CheckpointFailed(lease(0), CheckpointRef(NODE, 3), "the disk is full")


def test_an_end_names_no_checkpoint_whose_commit_had_failed(tmp_path: Path, gate: Gate) -> None:
    store = LetterStore(tmp_path)
    store.bad = (3,)
    store.gate.set()
    lane = two_stages(gate, at=5)
    first = make_stage(params=lane.stages[0].params, stop=3, max_resource=6, save=True)
    last = make_stage(params=lane.stages[0].params, start=3, stop=6, max_resource=6, node=OTHER)
    with agent(trials.waits, tmp_path, store=store) as driver:
        driver.assign(0, [Lane((first, last))])
        driver.first(CheckpointFailed)
        gate.open(driver)
        assert driver.end(0) == TrainingEnded(lease(0), Outcome.RETURNED, 6)


def test_a_last_checkpoint_that_cannot_be_stored_is_told_after_the_end(tmp_path: Path) -> None:
    """Else the driver would wait for a commit of which it had heard that it will not come."""
    store = LetterStore(tmp_path)
    store.bad = (6,)
    store.gate.set()
    with agent(trials.remembers, tmp_path, store=store) as driver:
        for number in range(20):  # either may be the faster one, the upload or the end
            driver.assign(number, [two_stages(save=True)])
            assert driver.end(number).checkpoint_resource == 6
            driver.first(CheckpointFailed, number)
            kinds = [type(m) for m in driver.sent if isinstance(m, TrainingEnded | CheckpointFailed)]
            assert kinds[-2:] == [TrainingEnded, CheckpointFailed]


def test_a_damaged_checkpoint_fails_its_lane_and_no_other(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path) as driver:
        driver.assign(0, [two_stages(save=True)])
        committed(driver, 3, NODE)
        committed(driver, 6, OTHER)
        (data,) = [path for path in tmp_path.rglob("checkpoint") if str(NODE) in str(path)]
        shutil.copyfile("/dev/null", data)
        rest = make_stage(node=OTHER, start=3, stop=6, max_resource=6)
        driver.assign(1, [Lane((rest,), CheckpointRef(NODE, 3))])
        end = driver.end(1)
        assert (end.outcome, end.error_kind, end.resource) == (Outcome.FAILED, "checkpoint", 3)
        last = make_stage(node=OTHER, start=6, stop=7, max_resource=7)
        driver.assign(2, [Lane((last,), CheckpointRef(OTHER, 6))])
        assert driver.end(2).outcome is Outcome.RETURNED


def test_an_evaluation_alone_is_reported(tmp_path: Path) -> None:
    with agent(trials.Digits, tmp_path) as driver:
        driver.train(0, stop=2, max_resource=4, save=True)
        committed(driver, 2)
        driver.train(1, start=2, stop=2, max_resource=4, load=CheckpointRef(NODE, 2))
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.REACHED, 2)
    assert driver.values(1) == [(2, 1.0)]


def test_a_function_that_is_to_be_evaluated_alone_says_what_to_do(tmp_path: Path) -> None:
    with agent(trials.remembers, tmp_path) as driver:
        driver.train(0, stop=2, max_resource=4, save=True)
        committed(driver, 2)
        driver.train(1, start=2, stop=2, max_resource=4, load=CheckpointRef(NODE, 2))
        end = driver.end(1)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "cannot_pause")
    assert "write the training as a Trainer" in end.error


def test_the_lines_of_a_shared_stage_stand_under_its_first_trial(tmp_path: Path) -> None:
    first = make_stage(5, stop=1, max_resource=2, save=False)
    shared = Stage(NODE, {"lr": 1}, (first.trials[0], *make_stage(2).trials), 7, start=0, stop=1, max_resource=1)
    with agent(trials.prints, tmp_path) as driver:
        driver.assign(0, [Lane((shared,))])
        driver.end(0)
    assert "trial-5 print" in driver.text(0)
