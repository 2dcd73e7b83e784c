"""The driver may die at every record of its journal, and within every byte of one: the same trials are finished."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from asyncsearch import Study
from asyncsearch.journal.opening import read_records
from asyncsearch.store import LocalStore
from tests.faults.accounts import say
from tests.faults.reference_searches import SEARCHES, Crash, Results, crashes, results, run_reference
from tests.shares import names, seeds
from tests.system.tools import require_committed_once

pytestmark = pytest.mark.slow


class Reference(NamedTuple):
    """An undisturbed search, with the stores that a crash at each record would leave."""

    name: str
    whole: Results
    trained: int
    crashes: list[Crash]
    folder: Path

    def cuts(self) -> list[tuple[Crash, int]]:
        """Return each record at which the driver may die: an append, and how many of its lines were written."""
        return [(crash, kept) for crash in self.crashes for kept in range(1, len(crash.lines) + 1)]


@pytest.fixture(scope="module", params=names(tuple(SEARCHES), ["stages in rungs", "population"]))
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("reference")
    with crashes(folder / "study", folder) as found:
        study = run_reference(request.param, folder / "study")
    return Reference(request.param, results(study), _trained(study), found, folder)


def _trained(study: Study) -> int:
    return sum(trial.trained for trial in study.trials)


def test_a_driver_that_dies_at_any_record_finishes_the_same_trials(reference: Reference, tmp_path: Path) -> None:
    cuts = reference.cuts()
    wasted = []
    for number in seeds(len(cuts)):
        crash, kept = cuts[number]
        root = tmp_path / str(number)
        crash.leave(root, kept)
        study = run_reference(reference.name, root)
        assert results(study) == reference.whole, f"cut after record {number + 1}"
        require_committed_once(LocalStore(root))
        wasted.append(_trained(study) - reference.trained)
    say(
        f"{reference.name}: {len(wasted)} of {len(cuts)} records; wasted units of training: at most {max(wasted)} of "
        f"{reference.trained} for each crash"
    )


def test_a_driver_dead_at_any_byte_of_a_record_reads_the_records_before(reference: Reference, tmp_path: Path) -> None:
    crash = reference.crashes[-1]
    line, root = crash.lines[-1], tmp_path / "study"
    crash.leave(root, len(crash.lines))
    path = root / "journal" / crash.segment
    data, whole = path.read_bytes(), list(read_records(LocalStore(root)))
    for left_out in seeds(len(line)):
        path.write_bytes(data[: len(data) - left_out])
        assert list(read_records(LocalStore(root))) == (whole[:-1] if left_out > 1 else whole)


def test_a_driver_that_dies_within_a_record_finishes_the_same_trials(reference: Reference, tmp_path: Path) -> None:
    cuts = reference.cuts()
    for number in range(0, len(cuts), max(1, len(cuts) // len(seeds(16)))):
        crash, kept = cuts[number]
        root = tmp_path / str(number)
        crash.leave(root, kept, cut=1 + number * 37 % (len(crash.lines[kept - 1]) - 1))
        assert results(run_reference(reference.name, root)) == reference.whole, f"cut within record {number + 1}"
