"""Random damages of the files beside a journal: each is recovered or refused in words, and none changes a study."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study, uniform
from asyncsearch.errors import StoreError, StudyExistsError
from asyncsearch.journal.opening import StudyFile, read_study_file
from asyncsearch.sequences import sequence
from asyncsearch.store import LocalStore
from tests.faults.counts import counted
from tests.faults.damages import BYTES, Read, copy_of, damage_file, make, put_strange, read, require_same_or_refused
from tests.faults.rights import obeying_them
from tests.shares import seeds

DAMAGES = 34
"""Of each kind of file."""
READ_ONLY = ("study.json", "head.json")
"""Files that are read without the study's code."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    earlier = make(place / "earlier").run(3, display="none")
    for total in (4, 6):
        make(place / "s", resume=True, warm_start=[earlier]).run(total, display="none")
    return place / "s"


@pytest.fixture(scope="module")
def expected(whole: Path) -> Read:
    return read(whole)


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return copy_of(whole, tmp_path / "s")


def resumed(root: Path) -> Read:
    """Read a store by the code in its bundle."""
    study = Study.resume(root)
    assert study._runnable is not None
    assert len(study._runnable.warm.trials) == 3
    assert study.space.names == {"x"}
    return read(root)


@counted(damages=1)
@pytest.mark.parametrize("seed", seeds(DAMAGES), ids="seed{}".format)
@pytest.mark.parametrize("name", [*READ_ONLY, "snapshot", "bundle.bin", "warm_start.json"])
def test_a_damaged_file_changes_nothing_or_is_refused(name: str, seed: int, root: Path, expected: Read) -> None:
    path = max((root / "snapshots").iterdir()) if name == "snapshot" else root / name
    before, draw = path.read_bytes(), random.Random(seed)
    said = put_strange(path, draw) if seed % 3 == 0 else damage_file(path, draw, BYTES)
    sys.stdout.write(f"seed {seed}: {said}\n")
    refused = require_same_or_refused(root, expected, read if name in READ_ONLY else resumed)
    assert not refused or name not in ("snapshot", "head.json"), "all that it says is in the journal"
    if not path.is_file() or (path.read_bytes() != before and name == "bundle.bin"):
        assert refused or name in ("snapshot", "head.json"), "nothing else is read in its place"
    if path.is_file() and path.read_bytes() != before and name == "bundle.bin":
        assert refused, "a bundle that was changed is not unpickled"


def rates(value: float) -> dict[str, Any]:
    """Return a space with a function of time, whose code another value makes another one."""

    @sequence
    def rate(time: float) -> float:
        return value

    return {"x": uniform(0.0, 1.0), "rate": rate()}


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a function of time that was edited between two runs: trials began with each of its versions."""
    root = tmp_path_factory.mktemp("edited") / "s"
    make(root, space=rates(1.0)).run(3, display="none")
    make(root, space=rates(2.0), resume=True).run(5, display="none")
    return root


@counted(damages=1)
@pytest.mark.parametrize("seed", seeds(DAMAGES), ids="seed{}".format)
def test_a_damaged_function_of_time_is_not_run(seed: int, edited: Path, tmp_path: Path) -> None:
    root, draw = copy_of(edited, tmp_path / "s"), random.Random(seed)
    before = read(edited)
    paths = [root / f"functions/{kept.code}.bin" for kept in description(edited).functions]
    path, data = paths[0], paths[0].read_bytes()
    sys.stdout.write(f"seed {seed}: {damage_file(path, draw, BYTES)}\n")

    def gone_on(root: Path) -> Read:
        make(root, space=rates(2.0), resume=True).run(6, display="none")
        found = read(root)
        known = len(before.records)
        return Read(found.records[:known], before.trials, found.description)

    refused = require_same_or_refused(root, before, gone_on)
    assert refused == (path.read_bytes() != data), "a function that was changed is not unpickled"
    if refused:
        assert read(root) == before, "nothing was begun with it"


def description(root: Path) -> StudyFile:
    found = read_study_file(LocalStore(root))
    assert found is not None
    return found


def test_a_study_without_its_description_goes_on_by_its_script_as_it_was(
    root: Path, expected: Read, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "study.json").unlink()
    with pytest.raises(StudyExistsError, match=r"study\.json is missing.*resume=True"):
        make(root).run(7, display="none")
    make(root, resume=True).run(7, display="none")
    assert "was missing and is written as this script describes the study" in caplog.text
    assert read(root).records[: len(expected.records)] == expected.records


def test_a_damaged_description_names_the_file_and_what_to_do(root: Path) -> None:
    path = root / "study.json"
    path.write_bytes(path.read_bytes().replace(b'"seed": 0', b'"seed": 1'))
    with pytest.raises(
        StoreError, match=r"s/study\.json is not as it was written.*backup.*resume=True.*\"sealed\": false"
    ):
        Study.open(root)
    path.write_bytes(b"\xff" + path.read_bytes())
    with pytest.raises(StoreError, match=r"s/study\.json cannot be read.*backup.*resume=True"):
        Study.open(root)


def test_a_description_edited_by_hand_is_taken_once_its_seal_is_removed(root: Path) -> None:
    path = root / "study.json"
    text = path.read_text().replace('"version": ""', '"version": "v2"').replace('"sealed": true', '"sealed": false')
    path.write_text("".join(line for line in text.splitlines(keepends=True) if '"crc"' not in line))
    assert Study.open(root).config.version == "v2"


CLOSED = ("study.json", "head.json", "bundle.bin", "warm_start.json", "journal", "journal/*", "snapshots")


@counted(damages=1)
@pytest.mark.parametrize("name", CLOSED)
def test_what_its_user_may_not_read_is_refused_in_words_or_not_needed(root: Path, expected: Read, name: str) -> None:
    for path in root.glob(name):
        path.chmod(0)

    def look() -> str:
        refused = require_same_or_refused(root, expected, read)
        refused_to_go_on = require_same_or_refused(root, expected, resumed)
        return f"fine {refused} {refused_to_go_on}"

    found = obeying_them(look)
    assert found.startswith("fine"), found
    assert found.endswith("True") or name.startswith("snapshots") or name == "head.json", found
