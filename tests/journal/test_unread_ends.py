"""A journal whose end cannot be read yet, since a driver has a segment open; segments that end by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from asyncsearch import Study, cli, uniform
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import BeingWrittenError, JournalDamagedError, SegmentOverError, StoreError
from asyncsearch.events import DriverStarted
from asyncsearch.journal.opening import begin_reading, read_records, replay, save_snapshot
from asyncsearch.journal.writer import Journal
from asyncsearch.schedulers import FIFO
from asyncsearch.shared.cleaning import clean
from asyncsearch.store.local.store import LocalStore
from asyncsearch.trainable import TrialContext
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
    def open_segment(self) -> Ending:  # type: ignore[override]
        return Ending(super().open_segment(), 3)  # its header and two records


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
