"""Studies share over fsspec as they do over a disk: memory in one process, and files among several."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from asyncsearch import Sharing, Study
from asyncsearch.shared.cleaning import clean
from asyncsearch.store import open_store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.scratch import sweep
from tests.system.several import DISTINCT, REMOTE, make, results, units
from tests.system.test_several import end, is_refused, start, wait_until
from tests.system.trained import Gate


@pytest.fixture
def alone(tmp_path: Path) -> list[object]:
    """The results of a study that shares with nobody."""
    folder = tmp_path / "alone"
    folder.mkdir()
    return results(make(folder, "a", sharing=Sharing(shared=False), backend="inline").run(display="none"))


def test_studies_in_memory_train_each_unit_once_and_drop_the_unneeded(tmp_path: Path, alone: list[object]) -> None:
    place = f"memory://{uuid.uuid4().hex}"
    for name in ("first", "second"):
        study = make(tmp_path, name, store=f"{place}/{name}", backend="inline").run(display="none")
        assert results(study) == alone
        assert study.shared is not None
        assert study.shared.url == f"{place}/plan"
    assert set(units(tmp_path).values()) == {1}
    assert len(units(tmp_path)) == DISTINCT
    done = clean(open_store(f"{place}/plan"))
    assert done.kept == 1, "the best one's, which both studies hold"


@pytest.mark.slow
def test_two_drivers_share_over_fsspec_and_one_takes_over_from_the_other(
    tmp_path: Path, alone: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REMOTE, "yes")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    gate = Gate(tmp_path).make()
    first = start(tmp_path, "first", stop_at=6)
    gate.pids()
    second = start(tmp_path, "second")
    wait_until(lambda: is_refused(FsspecStore(f"file://{tmp_path}/studies/second")))
    assert list(temporary.rglob("checkpoint")), "its workers have copies, and are killed with it"
    first.kill()
    end(first)
    output = end(second)
    assert second.returncode == 0, output
    again = start(tmp_path, "first")
    output = end(again)
    assert again.returncode == 0, output
    for name in ("first", "second"):
        study = Study.open(tmp_path / "studies" / name)
        study._place = FsspecStore(f"file://{tmp_path}/studies/{name}")
        assert results(study) == alone
    assert sorted(units(tmp_path).values()) == [1] * (DISTINCT - 1) + [2], "one unit was not saved"
    base = temporary / f"asyncsearch-{os.getuid()}"
    sweep(base)  # as each process does, in a thread that its end may cut off
    assert list(temporary.rglob("*")) == [base], "no worker left a copy that the next one does not remove"
