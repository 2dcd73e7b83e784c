"""Reading a journal: an end that a driver has open, segments that end by themselves, and the ends of trainings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from asyncsearch import Study, cli, uniform
from asyncsearch.actions import AnyAction, Assign, Branch, CreateTrial
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import BeingWrittenError, JournalDamagedError, SegmentOverError, StoreError
from asyncsearch.events import AnyEvent, DriverStarted, Outcome, Reported, TrainingEnded, WorkerAttached, WorkerLost
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, PathStep, TrialId, WorkerId
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import begin_reading, read_records, replay, save_snapshot
from asyncsearch.journal.reading import training_ends
from asyncsearch.journal.writer import Journal
from asyncsearch.schedulers import FIFO
from asyncsearch.shared.cleaning import clean
from asyncsearch.store.local.store import LocalStore
from asyncsearch.trainable import TrialContext
from asyncsearch.work import Lane, Stage, Work
from tests.engine.tools import make_state


class HalfReadable(LocalStore):
    """A store of whose segments only so many lines can be read, as on HDFS where they are open."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.readable: dict[str, int] = {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        with super().lock():
            self.readable = {}
            yield

    def read_segment(self, name: str) -> Iterator[bytes]:
        return self._some(name, list(super().read_segment(name)))

    def _some(self, name: str, lines: list[bytes]) -> Iterator[bytes]:
        count = self.readable.get(name, len(lines))
        yield from lines[:count]
        if count < len(lines):
            raise BeingWrittenError(f"Of {name} {count} of {len(lines)} lines can be read. Read it later.")


@pytest.fixture
def store(tmp_path: Path) -> HalfReadable:
    made = HalfReadable(tmp_path / "study")
    made.prepare()
    return made


def write(store: HalfReadable, *counts: int, is_snapshot: bool = False) -> None:
    """Write a segment for each driver, with so many records."""
    last = 0
    for count in counts:
        journal = Journal(store, "study", last)
        for _ in range(count):
            last += 1
            journal.append(journal.encode(DriverStarted("1"), (), float(last)))
        if is_snapshot:
            save_snapshot(store, snapshot.encode(make_state(FIFO(max_resource=3)), last), last, journal.last_crc)
        journal.close()


def numbers(store: HalfReadable) -> list[int]:
    return [record.n for record in read_records(store)]


def fresh() -> StudyState:
    return make_state(FIFO(max_resource=3))


@pytest.mark.parametrize(("readable", "found"), [(0, []), (1, []), (3, [1, 2])])
def test_what_can_be_read_of_an_open_segment_is_read(store: HalfReadable, readable: int, found: list[int]) -> None:
    write(store, 4)
    store.readable = {"000001.jsonl": readable}
    assert numbers(store) == found
    replayed = replay(store, fresh())
    assert (replayed.last, replayed.unread) == (len(found), "000001.jsonl")


def test_nothing_after_an_unreadable_end_is_taken_as_its_continuation(store: HalfReadable) -> None:
    write(store, 4, 2)
    store.readable = {"000001.jsonl": 2}
    assert numbers(store) == [1]
    assert replay(store, fresh()).unread == "000001.jsonl"


def test_a_journal_that_is_read_to_its_end_has_nothing_unread(store: HalfReadable) -> None:
    write(store, 4, 2)
    assert numbers(store) == [1, 2, 3, 4, 5, 6]
    assert replay(store, fresh()).unread == ""


def test_missing_records_are_refused_where_all_segments_are_readable(store: HalfReadable) -> None:
    write(store, 4)
    path = Path(store.url) / "journal" / "000001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    with pytest.raises(JournalDamagedError, match="its end is missing"):
        numbers(store)


def test_a_snapshot_behind_what_can_be_read_stands_for_it(store: HalfReadable) -> None:
    write(store, 4, is_snapshot=True)
    store.readable = {"000001.jsonl": 2}
    reader = begin_reading(store, skip=4)
    assert list(read_records(store, reader=reader)) == []
    assert reader.unread == "000001.jsonl"
    assert replay(store, fresh()).notes == ()


def test_a_dry_run_of_cleaning_does_not_guess_what_a_dead_driver_needs(store: HalfReadable) -> None:
    run(study_in(store), 2)
    store.readable = {"000001.jsonl": 2}
    with pytest.raises(StoreError, match=r"driver that wrote 000001\.jsonl has died.*without --dry-run"):
        clean(store, dry_run=True)
    assert clean(store).kept


def test_resume_from_the_shell_reads_the_total_given_to_a_dead_driver(
    store: HalfReadable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(study_in(store), 2)
    store.readable = {"000001.jsonl": 1}
    resumed: list[tuple[int | None, ...]] = []
    fake = SimpleNamespace(store=store, run=lambda total, **options: resumed.append((total,)))
    monkeypatch.setattr(Study, "resume", lambda *arguments, **options: fake)
    assert cli.main(["resume", store.url]) == 0
    assert resumed == [(2,)]


def study_in(store: HalfReadable) -> Study:
    return Study(
        train,
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        store=store,
        scheduler=FIFO(max_resource=1),
        backend="inline",
    )


def train(trial: TrialContext) -> None:
    for _ in trial.epochs(save=lambda path: path.touch(), load=lambda path: None):
        trial.report(loss=trial.params["x"])


def run(study: Study, num_trials: int) -> None:
    study.run(num_trials, parallelism=1, display="none")


class Ending:
    """A segment that is closed after so many appends, so that others can read it."""

    def __init__(self, segment: object, appends: int) -> None:
        self._segment, self._left = segment, appends

    def __getattr__(self, name: str) -> object:
        return getattr(self._segment, name)

    def append(self, data: bytes) -> None:
        if not self._left:
            raise SegmentOverError("The segment was closed so that others can read it. Go on in a new one.")
        self._left -= 1
        self._segment.append(data)  # type: ignore[attr-defined]


class EndingStore(LocalStore):
    appends: Iterator[int] = itertools.repeat(3)
    """What each segment takes: its header and two records."""

    def open_segment(self) -> Ending:  # type: ignore[override]
        return Ending(super().open_segment(), next(self.appends))


def test_a_segment_that_has_ended_is_gone_on_with_in_the_next(tmp_path: Path) -> None:
    store = EndingStore(tmp_path / "study")
    store.prepare()
    journal = Journal(store, "study", 0)
    for number in range(1, 6):
        journal.append(journal.encode(DriverStarted("1"), (), float(number)))
    journal.close()
    assert [record.n for record in read_records(store)] == [1, 2, 3, 4, 5]
    assert len(store.journal_segments()) == 3
    assert replay(store, fresh()).notes == ()


def test_segments_that_are_over_before_their_first_record_are_no_failure(tmp_path: Path) -> None:
    store = EndingStore(tmp_path / "study")
    store.appends = iter([2, 1, 0, 3])  # the second and the third are over after their header, and before it
    store.prepare()
    journal = Journal(store, "study", 0)
    for number in range(1, 4):
        journal.append(journal.encode(DriverStarted("1"), (), float(number)))
    journal.close()
    assert [record.n for record in read_records(store)] == [1, 2, 3]
    assert replay(store, fresh()).notes == ()


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
