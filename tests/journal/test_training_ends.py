"""Where the trainings that a trial reads have ended, in journals that are written here."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.actions import AnyAction, Assign, Branch, CreateTrial
from asyncsearch.events import AnyEvent, DriverStarted, Outcome, Reported, TrainingEnded, WorkerAttached, WorkerLost
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, PathStep, TrialId, WorkerId
from asyncsearch.journal.format import Record
from asyncsearch.journal.reading import training_ends
from asyncsearch.work import Lane, Stage, Work

WORKER = WorkerId(0)
ATTACHED = WorkerAttached(WORKER, 1)


def stage(node: str, trials: Sequence[int], start: int, stop: int, more: int = 0) -> Stage:
    return Stage(NodeKey(node), {}, tuple(map(TrialId, trials)), 0, start, stop, 9, more=more)


def assign(number: int, *stages: Stage) -> Assign:
    return Assign(Work(Lease(number, WORKER, 1), (Lane(stages),)))


def ended(number: int, resource: int, outcome: Outcome = Outcome.REACHED) -> TrainingEnded:
    return TrainingEnded(Lease(number, WORKER, 1), outcome, resource)


def create(trial: int, *nodes: tuple[int, str]) -> CreateTrial:
    path = tuple(PathStep(start, NodeKey(node)) for start, node in nodes)
    return CreateTrial(TrialId(trial), {}, path[-1].node, 9, path=path)


Happened = tuple[AnyEvent, Sequence[AnyAction]]


def ends(*happened: Happened) -> dict[int, list[str]]:
    records = (Record(n, float(n), event, tuple(actions)) for n, (event, actions) in enumerate(happened, 1))
    return {int(trial): list(map(str, found)) for trial, found in training_ends(records).items()}


def at(node: str, resource: int) -> str:
    return str(CheckpointRef(NodeKey(node), resource))


def test_each_end_of_a_trial_is_listed_whatever_its_outcome() -> None:
    found = ends(
        (ATTACHED, [create(0, (0, "a")), assign(0, stage("a", [0], 0, 3))]),
        (ended(0, 3), [assign(1, stage("a", [0], 3, 9))]),
        (ended(1, 5, Outcome.FAILED), []),
    )
    assert found == {0: [at("a", 3), at("a", 5)]}


def test_a_batch_ends_in_its_current_stage_for_the_trials_of_that_stage() -> None:
    batch = assign(0, stage("a", [0, 1], 0, 3), stage("b", [0], 3, 9))
    created = [create(0, (0, "a"), (3, "b")), create(1, (0, "a"), (3, "c"))]
    assert ends((ATTACHED, [*created, batch]), (ended(0, 2), [])) == {0: [at("a", 2)], 1: [at("a", 2)]}
    assert ends((ATTACHED, [*created, batch]), (ended(0, 7), [])) == {0: [at("b", 7)]}


def test_two_stages_of_one_node_keep_their_own_trials() -> None:
    batch = assign(0, stage("a", [0, 1], 0, 3), stage("a", [1], 3, 9))
    created = [create(0, (0, "a")), create(1, (0, "a"))]
    assert ends((ATTACHED, [*created, batch]), (ended(0, 9), [])) == {1: [at("a", 9)]}


def test_trials_beyond_the_named_ones_read_the_end_too() -> None:
    shared = assign(0, stage("a", [0], 0, 3, more=1))
    assert ends((ATTACHED, [create(0, (0, "a")), create(1, (0, "a")), shared]), (ended(0, 3), [])) == {
        0: [at("a", 3)],
        1: [at("a", 3)],
    }


def test_a_lost_worker_and_a_lost_driver_end_nothing() -> None:
    begun: Happened = (ATTACHED, [create(0, (0, "a")), assign(0, stage("a", [0], 0, 3))])
    reported: Happened = (Reported(Lease(0, WORKER, 1), 1, {"loss": 1.0}), [])
    assert ends(begun, reported, (WorkerLost(WORKER, 1, "silent"), [])) == {}
    assert ends(begun, (DriverStarted("1"), []), (ended(0, 3), [])) == {}


def test_a_trial_that_takes_over_weights_begins_anew() -> None:
    branch = Branch(TrialId(0), TrialId(1), 2, 9, {}, NodeKey("c"), "copied", (PathStep(0, NodeKey("c")),))
    assert ends(
        (ATTACHED, [create(0, (0, "a")), assign(0, stage("a", [0], 0, 3))]),
        (ended(0, 3), [branch]),
    ) == {}  # fmt: skip
