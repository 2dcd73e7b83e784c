"""A worker without processes: lanes, wishes, and stores that fail."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from asyncsearch.actions import AddLane, Assign, CutWork, SaveAt, StopTraining
from asyncsearch.errors import CheckpointError
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.launch.inline_worker import InlineWorker
from asyncsearch.rpc.messages import DriverMessage, WorkerMessage
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.manifest import PackedWith, Shards
from asyncsearch.trainable import Trainer, TrialContext
from asyncsearch.trial import Params
from asyncsearch.work import Lane, Stage, Work
from tests.agent.driver import make_config
from tests.launch.tools import Answers

A, B = NodeKey("a" * 32), NodeKey("b" * 32)
LEASE = Lease(0, WorkerId(0), 1)
PARAMS = {"lr": {"sequence": "multistep", "value": 0.1, "milestones": [3], "gamma": 0.1}}


class HalfStore(LocalStore):
    """Cannot commit at some resources."""

    bad: tuple[int, ...] = ()

    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        if checkpoint.resource in self.bad:
            raise CheckpointError("the disk is full")
        return super().commit(checkpoint, staged, packed_with, shards)


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
    config = make_config(train, folder, store=store, metric="value")

    def look_up() -> None:
        units = 1 + sum(isinstance(message, Reported) for message in said)
        for wish in (wishes or {}).pop(units, []):
            worker.take(wish)
        answers.give(worker)

    answers = Answers(said)
    worker = InlineWorker(config, lambda _worker, _epoch, _number, message: said.append(message), look_up)
    params = PARAMS | {"unsaved": [unsaved]}
    stages = [Stage(node, params, (TrialId(0),), 7, start, start + 3, 9, save=True) for node, start in ((A, 0), (B, 3))]
    worker.take(Assign(Work(LEASE, (Lane(tuple(stages)),))))
    assert worker.train_next()
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


class Together(Trainer):
    """Counts its units, and remembers with how many others it trained each."""

    together: ClassVar[list[int]] = []

    def setup(self, hp: dict[str, Any]) -> None:
        self.hp = hp

    @classmethod
    def train_pack(cls, trainers: Sequence[Together]) -> None:
        cls.together.append(len(trainers))
        if any(trainer.hp.get("interrupts") == trainer.trial.resource for trainer in trainers):
            raise KeyboardInterrupt

    def train(self) -> None:
        self.together.append(1)
        if self.hp.get("fails"):
            raise ValueError("no weights")

    def evaluate(self) -> dict[str, float]:
        if self.hp.get("fails"):
            raise ValueError("the loss of this lane is not defined")
        return {"value": self.hp["lr"]}


def pack_of(
    folder: Path,
    said: list[WorkerMessage],
    *params: dict[str, Any],
    added: Sequence[DriverMessage] = (),
    reported: int | None = None,
) -> InlineWorker:
    """Return a worker that has work with a lane of three units for each of these hyper-parameters.

    What is added comes when the first report was made, or that of the lane of this number.
    """
    left = list(added)

    def look_up() -> None:
        while left and any(isinstance(one, Reported) and reported in (None, one.lane) for one in said):
            worker.take(left.pop(0))
        answers.give(worker)

    answers = Answers(said)
    Together.together.clear()
    config = make_config(Together, folder, metric="value")
    worker = InlineWorker(config, lambda _worker, _epoch, _number, message: said.append(message), look_up)
    lanes = [Lane((Stage(A, {"lr": 0.1} | own, (TrialId(n),), 7, 0, 3, 3),)) for n, own in enumerate(params)]
    worker.take(Assign(Work(LEASE, tuple(lanes), is_open=True)))
    return worker


def ends(said: list[WorkerMessage]) -> dict[int, tuple[Outcome, int]]:
    return {one.lane: (one.outcome, one.resource) for one in said if isinstance(one, TrainingEnded)}


def test_the_lanes_of_a_lease_train_together_and_one_that_fails_leaves(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    worker = pack_of(tmp_path, said, {}, {"fails": True}, {})
    assert worker.train_next()
    assert Together.together == [3, 2, 2]
    assert ends(said) == {0: (Outcome.RETURNED, 3), 1: (Outcome.FAILED, 0), 2: (Outcome.RETURNED, 3)}
    assert not worker.train_next()


def test_a_lane_that_is_stopped_leaves_the_pack_at_its_next_report(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    worker = pack_of(tmp_path, said, {}, {}, {}, added=[StopTraining(LEASE, "enough", 1)], reported=1)
    worker.train_next()
    assert Together.together == [3, 2, 2]
    assert ends(said)[1] == (Outcome.STOPPED, 1)


def test_ctrl_c_stops_all_lanes_and_reaches_the_user_before_their_ends(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    worker = pack_of(tmp_path, said, {}, {"interrupts": 1})
    with pytest.raises(KeyboardInterrupt):
        worker.train_next()
    assert ends(said) == {}
    assert worker.train_next()
    assert ends(said) == {0: (Outcome.STOPPED, 1), 1: (Outcome.STOPPED, 1)}


def joining(number: int, **own: Any) -> AddLane:
    return AddLane(LEASE, number, Lane((Stage(A, {"lr": 0.1} | own, (TrialId(number),), 7, 0, 3, 3),)))


def test_a_lane_joins_a_pack_when_the_others_have_done_their_unit(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    pack_of(tmp_path, said, {}, {}, added=[joining(5)]).train_next()
    assert Together.together == [2, 3, 3, 1]
    assert ends(said) == dict.fromkeys((0, 1, 5), (Outcome.RETURNED, 3))


def test_a_lane_joins_one_that_trains_alone(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    pack_of(tmp_path, said, {}, added=[joining(5), joining(6, fails=True)]).train_next()
    assert Together.together == [1, 3, 2, 1]
    assert ends(said) == {0: (Outcome.RETURNED, 3), 5: (Outcome.RETURNED, 3), 6: (Outcome.FAILED, 0)}


def test_a_lane_that_is_stopped_before_it_joins_trains_nothing(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    pack_of(tmp_path, said, {}, {}, added=[joining(5), StopTraining(LEASE, "enough", 5)]).train_next()
    assert Together.together == [2, 2, 2]
    assert ends(said)[5] == (Outcome.STOPPED, 0)


def test_ctrl_c_stops_the_lanes_that_were_to_join_too(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    worker = pack_of(tmp_path, said, {}, {"interrupts": 1}, added=[joining(5)])
    with pytest.raises(KeyboardInterrupt):
        worker.train_next()
    assert worker.train_next()
    assert {lane: outcome for lane, (outcome, _) in ends(said).items()} == dict.fromkeys((0, 1, 5), Outcome.STOPPED)


def test_a_lane_trains_with_waiting_work_and_alone_once_it_has_ended(tmp_path: Path) -> None:
    said: list[WorkerMessage] = []
    worker = pack_of(tmp_path, said, {})
    later = msgspec.structs.replace(LEASE, number=1)
    added = [msgspec.structs.replace(joining(number), lease=later) for number in (0, 1, 5, 6)]
    worker.take(Assign(Work(later, tuple([one.added for one in added[:2]]), is_open=True)))
    worker.take(added[2])
    assert worker.train_next()
    assert worker.train_next()
    worker.take(added[3])
    assert worker.train_next()
    assert Together.together == [1, 1, 1, 3, 3, 3, 1, 1, 1]
    assert ends(said) == dict.fromkeys((0, 1, 5, 6), (Outcome.RETURNED, 3))


def one_that_trains(function: Callable[[TrialContext], object], folder: Path) -> InlineWorker:
    return InlineWorker(make_config(function, folder, metric="value"), lambda *_: None, lambda: None)


CHANGED: list[Params] = []


def spoils(trial: TrialContext) -> float:
    trial.params["layers"][1]["width"] = 99
    trial.params["layers"].append(3)
    trial.params.pop("lr")
    trial.params["more"] = 1
    CHANGED.append(trial.params)
    return 1.0


def test_what_a_trial_changes_in_its_params_is_not_in_the_journal(tmp_path: Path) -> None:
    CHANGED.clear()
    worker = one_that_trains(spoils, tmp_path)
    params: Params = {"lr": 0.1, "layers": [1, {"width": 2}]}
    stage = Stage(A, params, (TrialId(0),), 0, 0, None, None)
    worker.take(Assign(Work(LEASE, (Lane((stage,)),))))
    assert worker.train_next()
    assert CHANGED == [{"layers": [1, {"width": 99}, 3], "more": 1}]
    assert params == {"lr": 0.1, "layers": [1, {"width": 2}]}


def test_an_alarm_that_a_trial_has_set_comes_to_no_later_one(tmp_path: Path) -> None:
    def sets(trial: TrialContext) -> float:
        signal.signal(signal.SIGVTALRM, lambda number, _: None)
        signal.setitimer(signal.ITIMER_VIRTUAL, 1_000.0)
        return 1.0

    before = signal.getsignal(signal.SIGVTALRM)
    worker = one_that_trains(sets, tmp_path)
    worker.take(Assign(Work(LEASE, (Lane((Stage(A, {}, (TrialId(0),), 0, 0, None, None),)),))))
    assert worker.train_next()
    assert signal.setitimer(signal.ITIMER_VIRTUAL, 0) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is before
