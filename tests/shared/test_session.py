"""A driver's session in a shared folder: no node is assigned unclaimed, published too early, or kept too long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import Assign, StopTraining
from asyncsearch.errors import StoreError, StoreLostError
from asyncsearch.events import CheckpointCommitted, Learned, NodeFreed, Outcome, Reported, TrainingEnded, WorkRefused
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers import FIFO
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.store import LocalStore, open_store
from asyncsearch.store.base_store import Store
from tests.driver.test_loop import PATIENCE_S, Harness, call
from tests.engine.tools import make_state

SHARED: dict[str, Any] = {"share": True, "shared_as": "train", "version": "v1"}


class Watched(SharedFolder):
    """A membership of the folder that records its calls, and can be delayed or broken."""

    def __init__(self, store: Store, **options: Any) -> None:
        super().__init__(store, **options)
        self.done: list[str] = []
        self.changed = threading.Condition()
        self.may_claim = threading.Event()
        self.may_claim.set()
        self.broken: Exception | None = None
        self.gone: set[NodeKey] = set()
        self.claim, self.hold = self.watched_claim, self.watched_hold
        self.renew, self.release = self.watched_renew, self.watched_release

    def say(self, what: str) -> None:
        with self.changed:
            self.done.append(what)
            self.changed.notify_all()

    def wait(self, what: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: what in self.done, PATIENCE_S), self.done

    def watched_claim(self, nodes: Any, owner: str) -> dict[NodeKey, str | None]:
        assert self.may_claim.wait(PATIENCE_S)
        if self.broken is not None:
            raise self.broken
        self.say("claim")
        return self.claims.claim(nodes, owner)

    def watched_hold(self, study: str, refs: Any, home: str = "") -> frozenset[CheckpointRef]:
        self.say("hold")
        return self._holds.hold(study, refs, home)

    def publish(self, node: NodeKey, reports: Any, ended: int | None = None) -> Any:
        self.say("publish")
        return super().publish(node, reports, ended)

    def watched_renew(self) -> frozenset[NodeKey]:
        lost, self.gone = self.claims.renew() | self.gone, set()
        self.say("renew")
        return lost

    def watched_release(self, nodes: Any) -> None:
        self.say("release")
        self.claims.release(nodes)


class Folder:
    def __init__(self, path: Path, store_timeout_s: float = 600.0, **options: Any) -> None:
        self.store = open_store(path / "study")
        self.store.prepare()
        self.plan = Watched(LocalStore(path / "plan"), **options)
        self.plan.prepare()
        state = make_state(FIFO(max_resource=3), **SHARED)
        shared = FolderMembership(self.plan, self.store.url)
        self.harness = Harness(self.store, state, shared=shared, store_timeout_s=store_timeout_s)
        self.other = SharedFolder(LocalStore(path / "plan"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.plan.may_claim.set()
    made.harness.driver.close()


def node_of(assign: Assign) -> NodeKey:
    return assign.work.lanes[0].stages[0].node


def test_claimed_work_is_given_out_and_the_studys_needs_are_written(folder: Folder) -> None:
    assign = folder.harness.begin(1)
    assert folder.plan.done == ["claim", "hold"]
    assert folder.other.holder(node_of(assign)) is not None


def test_durable_reports_reach_others_and_the_claim_ends_with_the_attempt(
    folder: Folder,
) -> None:
    assign = folder.harness.begin(1)
    lease, node = assign.work.lease, node_of(assign)
    folder.harness.say(1, Reported(lease, 1, {"loss": 0.5, "f1": 0.25}))
    folder.harness.say(2, TrainingEnded(lease, Outcome.RETURNED, 3, checkpoint_resource=3))
    folder.harness.say(3, CheckpointCommitted(lease, CheckpointRef(node, 3)))
    folder.plan.wait("release")
    folder.harness.driver.close()
    assert folder.other.read(node).reports == ((1, {"loss": 0.5, "f1": 0.25}), (3, {}))
    assert folder.other.holder(node) is None
    assert folder.plan.done.index("publish") < folder.plan.done.index("release")
    folder.harness = Harness(folder.store, make_state(FIFO(max_resource=3)))


def test_decisions_on_work_before_its_worker_has_it_come_after_it(folder: Folder) -> None:
    folder.plan.may_claim.clear()
    folder.harness.attach(1)
    wait_for_lease(folder)
    lease = call(folder.harness.driver, lambda state: next(iter(state.attempts.values())).lease)
    folder.harness.on_loop(lambda: folder.harness.driver._dispatcher.carry_out(StopTraining(lease, "a reason")))
    assert not list(folder.harness.wire.sent.queue)
    folder.plan.may_claim.set()
    assert folder.harness.wire.next(StopTraining).lease == lease
    assert "claim" in folder.plan.done


def wait_for_lease(folder: Folder) -> None:
    """Wait until work is durable and its claim is requested."""
    driver, ticks = folder.harness.driver, threading.Event()
    assert driver._sharing is not None
    waiting = driver._sharing._waiting
    for _ in range(int(PATIENCE_S / 0.01)):
        if call(driver, lambda _: bool(waiting)):
            return
        ticks.wait(0.01)
    raise AssertionError("no work was assigned")


def test_a_folder_that_is_lost_stops_the_run_at_once(folder: Folder) -> None:
    folder.plan.broken = StoreLostError("it was removed")
    folder.harness.attach(1)
    assert folder.harness.driver.ended.wait(PATIENCE_S)
    assert folder.harness.driver.failure is folder.plan.broken


def test_a_folder_that_cannot_be_used_is_waited_for(folder: Folder) -> None:
    folder.plan.broken = StoreError("no such host")
    folder.harness.attach(1)
    driver = folder.harness.driver
    wait_until(lambda: call(driver, lambda _: bool(driver.notices)))
    folder.plan.broken = None
    assert folder.harness.wire.next(Assign).work.lease.number == 0
    wait_until(lambda: call(driver, lambda _: len(driver.notices) == 2))
    assert "The driver cannot use the store: no such host" in driver.notices[0]
    assert driver.failure is None


def test_a_folder_that_was_waited_for_in_vain_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.driver.timeouts.STOP_S", 0.0)
    folder = Folder(tmp_path, store_timeout_s=0.05)
    folder.plan.broken = StoreError("no such host")
    folder.harness.attach(1)
    driver = folder.harness.driver
    assert driver.ended.wait(PATIENCE_S)
    assert driver.outcome is not None
    assert driver.outcome.error_kind == "StoreError"
    assert "no such host" in driver.outcome.reason
    driver.close()
    assert driver.failure is None, "the end of the run says it"


def wait_until(condition: Callable[[], bool]) -> None:
    ticks = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if condition():
            return
        ticks.wait(0.01)
    raise AssertionError("it never came")


def test_what_was_lost_to_another_driver_is_not_published(tmp_path: Path) -> None:
    folder = Folder(tmp_path, lease_s=0.4)
    assign = folder.harness.begin(1)
    lease, node = assign.work.lease, node_of(assign)
    folder.plan.gone = {node}
    folder.plan.wait("renew")
    folder.harness.say(1, Reported(lease, 1, {"loss": 0.5}))
    folder.harness.say(2, TrainingEnded(lease, Outcome.RETURNED, 1))
    folder.plan.wait("release")
    folder.harness.driver.close()
    assert "publish" not in folder.plan.done
    assert folder.other.read(node).reports == ()


def test_what_others_train_is_waited_for_and_read_and_then_gone_on_with(tmp_path: Path) -> None:
    first, second = Folder(tmp_path / "a"), Folder(tmp_path / "b")
    other = SharedFolder(second.plan.store)
    node = node_of(first.harness.begin(1))
    assert other.claim([node], "another study") == {node: None}
    second.harness.attach(1)
    wait_for_busy(second, node)
    other.publish(node, [(1, {"loss": 0.5}), (2, {"loss": 0.25})])
    other.close()
    assert node_of(second.harness.wire.next(Assign)) == node
    for folder in (first, second):
        folder.harness.driver.close()
    events = [record.event for record in read_records(second.store)]
    kinds = [type(event) for event in events if isinstance(event, WorkRefused | Learned | NodeFreed)]
    assert kinds == [WorkRefused, Learned, NodeFreed]


def wait_for_busy(folder: Folder, node: NodeKey) -> None:
    ticks = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if call(folder.harness.driver, lambda state: node in state.busy):
            return
        ticks.wait(0.01)
    raise AssertionError("nothing was waited for")
