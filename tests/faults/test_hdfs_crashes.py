"""On a real HDFS: the driver dies at every record of its journal and within every byte of one, and bytes are damaged.

The same laws hold on local disk in ``test_every_record.py`` and ``test_journal_damage.py``. Here each case takes
seconds, so the test command tries few of them.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asyncsearch.journal.opening import read_records
from asyncsearch.store import open_store
from tests.faults.accounts import say
from tests.faults.damages import damage_journal, make, read, require_same_or_refused
from tests.faults.hdfs_crashes import DyingOrder, Undertaker
from tests.faults.reference_searches import SEARCHES, results, run_reference
from tests.shares import IS_ALL
from tests.store.hdfs_cluster import hdfs
from tests.system.tools import require_committed_once

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RECORDS = {"stages in rungs": 40}
"""The search of the test command, and the record at which a driver dies in it; with ASYNCSEARCH_TESTS=all all searches
are tried, and each record. On local disk the test command tries all searches."""
PARTS = 4
"""In which the records of a search are tried: on a busy machine all of them take longer than one test may."""
DAMAGES = 440
OPEN_AT_A_TIME = 50
"""Files that one process has open: a DataNode has a thread and room on its disk for each."""
AT_A_TIME = 8
"""Stores that are looked at at a time: HDFS takes a second to close a file, and mostly waits."""


@pytest.fixture(scope="module")
def undertaker() -> Iterator[Undertaker]:
    hdfs()
    with Undertaker() as made:
        yield made


@pytest.mark.parametrize("part", range(PARTS) if IS_ALL else [0])
@pytest.mark.parametrize("name", SEARCHES if IS_ALL else RECORDS)
def test_a_driver_that_dies_at_any_record_finishes_the_same_trials(
    name: str, part: int, undertaker: Undertaker, tmp_path: Path
) -> None:
    whole = run_reference(name, tmp_path / "whole")
    expected, count = results(whole), len(list(read_records(whole.store)))
    wasted = []
    for records in range(1 + part, count, PARTS) if IS_ALL else [min(RECORDS[name], count - 1)]:
        url = hdfs().new()
        cut = records * 37 % 90 if records % 4 == 0 else 0  # a record has more bytes than that
        undertaker.carry_out(DyingOrder(name=name, url=url, records=records, cut=cut))
        study = run_reference(name, url)
        assert results(study) == expected, f"died at record {records}, {cut} bytes of it missing"
        require_committed_once(study.store)
        wasted.append(sum(trial.trained for trial in study.trials) - sum(trial.trained for trial in whole.trials))
        study.store.remove_tree("checkpoints")
    of = f"{count} records, part {part + 1} of {PARTS}" if IS_ALL else f"{count} records"
    say(f"{name} on HDFS: died at {len(wasted)} of {of}; wasted units of training: at most {max(wasted)}")


def test_a_driver_dead_at_any_byte_of_a_record_reads_the_records_before(undertaker: Undertaker, tmp_path: Path) -> None:
    store = run_reference("model", tmp_path / "whole").store
    (segment,) = store.journal_segments()
    lines, expected = list(store.read_segment(segment)), list(read_records(store))
    data, last = b"".join(lines), len(lines[-1])
    cuts = range(0, last, 1 if IS_ALL else last // 4)
    url = hdfs().new()

    def look(cut: int) -> None:
        left = open_store(f"{url}/{cut}")
        with left.lock():
            found = list(read_records(left))
        assert found == (expected[:-1] if cut > 1 else expected), f"{cut} bytes were not written"

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for first in range(0, len(cuts), OPEN_AT_A_TIME):
            some = cuts[first : first + OPEN_AT_A_TIME]
            files = {f"{cut}/journal/{segment}": data[: len(data) - cut] for cut in some}
            undertaker.carry_out(DyingOrder(url=url, files=files))
            list(pool.map(look, some))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose journal has three segments and no snapshot, which would tell its length too."""
    root = tmp_path_factory.mktemp("whole") / "s"
    for total in (3, 5, 8):
        make(root, resume=True).run(total, display="none")
    for left in ("snapshots", "checkpoints", "logs", "tmp"):
        shutil.rmtree(root / left, ignore_errors=True)
    return root


def test_a_damaged_journal_reads_as_it_was_or_is_refused(whole: Path, tmp_path: Path) -> None:
    expected, url = read(whole), hdfs().new()

    def look(seed: int) -> bool:
        root = tmp_path / str(seed)
        shutil.copytree(whole, root)
        said = damage_journal(root / "journal", random.Random(seed))
        sys.stdout.write(f"seed {seed}: {said}\n")
        store = open_store(f"{url}/{seed}")
        # No deeper: a damage may have put a folder there whose path is too long for any call.
        found = sorted(path for pattern in ("*", "*/*", "*/*/*") for path in root.glob(pattern))
        for path in (path for path in found if path.is_file() and path.name != "lock"):
            name = os.path.relpath(path, root)
            store._remote.write(name, path.read_bytes())  # type: ignore[attr-defined]
        return require_same_or_refused(store.url, expected)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        refused = list(pool.map(look, range(0, DAMAGES, 1 if IS_ALL else 55)))
    assert any(refused)
