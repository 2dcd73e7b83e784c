"""A worker without processes: lanes, wishes, and stores that fail."""

from __future__ import annotations

from pathlib import Path

import cloudpickle

from asyncsearch.actions import Assign, CutWork, SaveAt
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import CheckpointError
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.launch.inline_worker import InlineWorker
from asyncsearch.rpc.messages import DriverMessage, WorkerMessage
from asyncsearch.store.local import LocalStore
from asyncsearch.store.manifest import PackedWith
from asyncsearch.trainable import TrialContext
from asyncsearch.work import Lane, Stage, Work

A, B = NodeKey("a" * 32), NodeKey("b" * 32)
LEASE = Lease(0, WorkerId(0), 1)
PARAMS = {"lr": {"sequence": "multistep", "value": 0.1, "milestones": [3], "gamma": 0.1}}


class HalfStore(LocalStore):
    """Cannot commit at some resources."""

    bad: tuple[int, ...] = ()

    def commit(self, checkpoint: CheckpointRef, staged: Path, packed_with: PackedWith | None = None) -> int:
        if checkpoint.resource in self.bad:
            raise CheckpointError("the disk is full")
        return super().commit(checkpoint, staged, packed_with)


def train(trial: TrialContext) -> None:
    def save(path: Path) -> None:
        path.write_text("half of it")
        if trial.resource in trial.params.get("unsaved", []):
            raise OSError("no space left in this test")

    for _ in trial.epochs(save=save, load=lambda path: None):
        trial.report(value=trial.params["lr"])


def run(
    folder: Path, *, wishes: dict[int, list[DriverMessage]] | None = None, bad: tuple[int, ...] = (), unsaved: int = 0
) -> list[WorkerMessage]:
    """Train 0 to 3 and 3 to 6 with a checkpoint at each stop; wishes come in the unit of that number."""
    said: list[WorkerMessage] = []
    store = HalfStore(folder)
    store.bad = bad
    store.prepare()
    config = WorkerConfig(
        study="digits",
        metric="value",
        bundle=cloudpickle.dumps(train),
        store=store,
        endpoint=None,
        worker=WorkerId(0),
        epoch=1,
    )
    worker = InlineWorker(config, lambda _worker, _epoch, _number, message: said.append(message))

    def look_up() -> None:
        units = 1 + sum(isinstance(message, Reported) for message in said)
        for wish in (wishes or {}).pop(units, []):
            worker.take(wish)

    params = PARAMS | {"unsaved": [unsaved]}
    stages = [Stage(node, params, (TrialId(0),), 7, start, start + 3, 9, save=True) for node, start in ((A, 0), (B, 3))]
    worker.take(Assign(Work(LEASE, (Lane(tuple(stages)),))))
    assert worker.train_next(look_up)
    return said


def of(said: list[WorkerMessage]) -> list[object]:
    """What was said, in short."""
    short: list[object] = []
    for message in said:
        match message:
            case Reported(resource=resource):
                short.append(resource)
            case CheckpointCommitted(checkpoint=checkpoint):
                short.append(("committed", checkpoint.node, checkpoint.resource))
            case CheckpointFailed(checkpoint=checkpoint, error=error):
                short.append(("failed", checkpoint.resource, error.splitlines()[-1]))
            case TrainingEnded(outcome=outcome, resource=resource, checkpoint_resource=saved):
                short.append((outcome, resource, saved))
            case _:
                pass
    return short


def test_a_lane_is_trained_with_its_present_values_and_saved_at_its_stops(tmp_path: Path) -> None:
    said = run(tmp_path)
    assert of(said) == [
        *(1, 2, 3, ("committed", A, 3)),
        *(4, 5, 6, ("committed", B, 6)),
        (Outcome.REACHED, 6, 6),
    ]
    assert [m.metrics["value"] for m in said if isinstance(m, Reported)] == [0.1, 0.1, 0.1, 0.01, 0.01, 0.01]


def test_a_lane_saves_and_ends_where_that_is_wished(tmp_path: Path) -> None:
    wishes: dict[int, list[DriverMessage]] = {2: [SaveAt(LEASE, A, 2), CutWork(LEASE, 5), CutWork(LEASE, 1, lane=3)]}
    assert of(run(tmp_path, wishes=wishes)) == [
        *(1, 2, ("committed", A, 2)),
        *(3, ("committed", A, 3)),
        *(4, 5, ("committed", B, 5)),
        (Outcome.REACHED, 5, 5),
    ]


def test_what_was_wished_before_a_lane_begins_is_heeded(tmp_path: Path) -> None:
    assert of(run(tmp_path, wishes={1: [CutWork(LEASE, 0)]})) == [(Outcome.REACHED, 0, None)]


def test_a_checkpoint_that_fails_on_the_way_costs_that_checkpoint_only(tmp_path: Path) -> None:
    assert of(run(tmp_path, bad=(3,))) == [
        *(1, 2, 3, ("failed", 3, "the disk is full")),
        *(4, 5, 6, ("committed", B, 6)),
        (Outcome.REACHED, 6, 6),
    ]
    assert of(run(tmp_path, unsaved=3))[3] == ("failed", 3, "OSError: no space left in this test")
    assert list((tmp_path / "tmp").rglob("checkpoint")) == []


def test_a_last_checkpoint_that_cannot_be_stored_is_told_after_the_end(tmp_path: Path) -> None:
    assert of(run(tmp_path, bad=(6,)))[-2:] == [(Outcome.REACHED, 6, 6), ("failed", 6, "the disk is full")]
