"""An inline worker whose store or journal fails: it waits in the caller's thread, and can be stopped there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch.actions import Assign, StopTraining
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.launch.inline_worker import InlineWorker
from asyncsearch.rpc.messages import StoreOutage, WorkerMessage
from asyncsearch.store.local.store import LocalStore
from asyncsearch.trainable import TrialContext
from asyncsearch.work import Lane, Stage, Work
from tests.agent.driver import make_config
from tests.agent.test_waiting_for_store import FOREVER, AwayStore
from tests.launch.tools import Answers

LEASE = Lease(0, WorkerId(0), 1)
STOP = StopTraining(LEASE, "the store could not be used")


def save(path: Path) -> None:
    path.write_text("all")


def train(trial: TrialContext) -> None:
    for unit in trial.epochs(save=save, load=lambda path: None):
        trial.report(value=unit)


def run(
    tmp_path: Path, store: LocalStore, look_up: Callable[[InlineWorker, list[WorkerMessage]], None]
) -> list[WorkerMessage]:
    """Train three units and pause; ``look_up`` is called wherever the worker looks for messages."""
    store.prepare()
    sent: list[WorkerMessage] = []
    config = make_config(train, tmp_path, store=store, metric="value")

    def look() -> None:
        look_up(worker, sent)
        answers.give(worker)

    answers = Answers(sent)
    worker = InlineWorker(config, lambda _worker, _epoch, _number, message: sent.append(message), look)
    stage = Stage(NodeKey("a" * 32), {}, (TrialId(0),), 7, 0, 3, 9, save=True)
    worker.take(Assign(Work(LEASE, (Lane((stage,)),))))
    assert worker.train_next()
    return sent


def outages(sent: list[WorkerMessage]) -> list[str]:
    return [message.error for message in sent if isinstance(message, StoreOutage)]


@pytest.mark.parametrize("operation", ["stage", "commit"])
def test_a_store_that_fails_for_a_while_is_waited_for(tmp_path: Path, operation: str) -> None:
    sent = run(tmp_path, AwayStore(tmp_path, **{operation: 2}), lambda worker, sent: None)
    assert len(outages(sent)) == 2
    assert outages(sent)[1] == ""
    assert [message for message in sent if isinstance(message, CheckpointCommitted | CheckpointFailed)] == [
        CheckpointCommitted(LEASE, CheckpointRef(NodeKey("a" * 32), 3), 3)
    ]
    assert isinstance(sent[-1], TrainingEnded)
    assert (sent[-1].outcome, sent[-1].resource, sent[-1].checkpoint_resource) == (Outcome.REACHED, 3, 3)


@pytest.mark.parametrize("operation", ["stage", "commit"])
def test_a_stop_ends_the_wait_for_a_store_and_blames_nobody(tmp_path: Path, operation: str) -> None:
    def look_up(worker: InlineWorker, sent: list[WorkerMessage]) -> None:
        if outages(sent):
            worker.take(STOP)

    sent = run(tmp_path, AwayStore(tmp_path, **{operation: FOREVER}), look_up)
    assert outages(sent)[-1] == ""
    (end,) = [message for message in sent if isinstance(message, TrainingEnded)]
    assert end.outcome in (Outcome.STOPPED, Outcome.REACHED)
    assert all(message.error_kind == "store" for message in sent if isinstance(message, CheckpointFailed))


def test_a_trial_waits_while_too_many_of_its_reports_are_not_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.launch.inline_worker.MAX_BACKLOG", 1)
    waits: list[int] = []

    def look_up(worker: InlineWorker, sent: list[WorkerMessage]) -> None:
        reports = sum(isinstance(message, Reported) for message in sent)
        if reports - worker.stream.acknowledged > 1:
            waits.append(reports)
            worker.stream.acknowledged = reports if len(waits) > 2 else worker.stream.acknowledged

    sent = run(tmp_path, LocalStore(tmp_path), look_up)
    assert waits == [2, 2, 2]
    assert sum(isinstance(message, Reported) for message in sent) == 3


def test_the_driver_is_told_of_no_outage_that_is_none(tmp_path: Path) -> None:
    assert outages(run(tmp_path, LocalStore(tmp_path), lambda worker, sent: None)) == []
