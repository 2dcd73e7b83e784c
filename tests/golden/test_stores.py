"""Stores of every released version open, resume and end as they did then; ``make_stores`` says what they hold.

``python -m tests.golden.make_stores`` makes those of the present version; a store that was released is never changed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from asyncsearch import Study, __version__
from tests.golden.make_stores import AT, CASES, HERE, LOG, STORES, Case, evaluated, logs, summary

FOLDERS = sorted(path.parent for path in STORES.glob("*/*/expected.json"))
NO_PROC = "the bundle names its shared folder by a path below /proc/self/cwd, which this system lacks"


class Golden(NamedTuple):
    """A copy of a case, in the working directory."""

    name: str
    expected: dict[str, Any]
    log: Path

    @property
    def case(self) -> Case:
        return CASES[self.name]

    @property
    def store(self) -> Path:
        """The store of the study that is unfinished."""
        return (HERE if HERE.exists() else Path()) / self.case.unfinished

    @property
    def total(self) -> int:
        return self.case.parts[self.case.unfinished].totals[-1]

    def script(self) -> Study:
        """Return the unfinished study as its script makes it."""
        return self.case.parts[self.case.unfinished].make(self.store, resume=True)

    def require_package(self) -> None:
        if self.case.needs:
            pytest.importorskip(self.case.needs)

    def require_bundle(self) -> None:
        self.require_package()
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        if python != self.expected["python"]:
            pytest.skip(f"its bundle holds bytecode of Python {self.expected['python']}, and this is Python {python}")
        if not HERE.exists() and Path("plan").exists():
            pytest.skip(NO_PROC)

    def require_resumed(self, study: Study) -> None:
        """Check that a study ended as it did then, after the same training."""
        expected = self.lasting(self.expected["resumed"])
        if self.name == "sha":  # an earlier version let those wait for ever that others had passed
            expected = [one | {"state": one["state"].replace("PAUSED", "STOPPED")} for one in expected]
        assert self.lasting(summary(study)) == expected
        assert summary(Study.open(self.store)) == summary(study)
        trained = self.log.read_text().splitlines()
        assert not set(self.finished()) & {line.split()[0] for line in trained}, "a finished trial was trained again"
        # An earlier version paused, and loaded again, where a trial goes on in place by now.
        (units, loads), (old_units, old_loads) = split(trained), split(self.expected["trained"])
        assert self.case.stops or (units == old_units and not loads - old_loads)

    def lasting(self, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the trials, as far as the packages that are installed propose the same ones as those of then."""
        if self.case.needs != "optuna" or not version("optuna").startswith("4."):
            return trials
        known = len(self.expected["opened"])  # Optuna 4 and 5 draw other points for the trials after these
        return [*trials[:known], *({"id": trial["id"]} for trial in trials[known:])]

    def finished(self) -> Iterator[str]:
        """Yield the names of trials that were finished when the study was interrupted."""
        for trial in self.expected["opened"]:
            if trial["state"] in ("COMPLETED", "STOPPED", "FAILED"):
                yield f"trial-{trial['id']}"


def split(lines: list[str]) -> tuple[list[str], Counter[str]]:
    """Return what was trained, and what was loaded."""
    loads = Counter(line for line in lines if " loads " in line)
    return sorted(line for line in lines if line not in loads), loads


@pytest.fixture(params=FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def golden(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Golden:
    folder: Path = request.param
    shutil.copytree(folder, tmp_path / folder.name)
    monkeypatch.chdir(tmp_path / folder.name)
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    monkeypatch.delenv(AT, raising=False)
    return Golden(folder.name, json.loads(Path("expected.json").read_text()), tmp_path / "log")


def test_a_released_store_is_opened(golden: Golden) -> None:
    study = Study.open(golden.store)
    assert summary(study) == golden.expected["opened"]
    assert study.best_trial.id == golden.expected["best"]
    assert f"trial-{study.best_trial.id}" in study.summary()
    for trial in study.trials:
        assert f"trial-{trial.id}" in study.explain(trial)
        assert max((at for at, _ in study.history(trial)), default=0) == trial.resource
    assert "trial" in str(study.tree())
    assert study.incumbent.value == min(values(study))
    assert logs(study) == golden.expected["logs"]
    assert not golden.log.exists(), "something was trained"


def values(study: Study) -> list[float]:
    return [float(metrics["loss"]) for trial in study.trials for _, metrics in study.history(trial)]


def test_a_checkpoint_of_a_released_store_holds_what_was_reported_for_it(golden: Golden) -> None:
    if not HERE.exists():
        pytest.skip(NO_PROC)
    study = Study.open(golden.store)
    found = [trial for trial in study.trials if trial.checkpoint is not None]
    for trial in found:
        with study.checkpoint(trial) as path:
            saved = json.loads((path / "net.json" if path.is_dir() else path).read_text())
        weight = saved[1] if isinstance(saved, list) else saved["weight"]
        assert abs(weight) in values(study), "of this trial, or of the one whose weights it took"
    assert found or golden.name in ("shared", "stopping")


def test_a_released_store_is_resumed_without_its_script(golden: Golden) -> None:
    golden.require_bundle()
    golden.require_resumed(Study.resume(golden.store).run(golden.total, parallelism=1, display="none"))


def test_the_script_of_a_released_store_resumes_it(golden: Golden) -> None:
    golden.require_package()
    golden.require_resumed(golden.script().run(golden.total, parallelism=1, display="none"))


def test_an_evaluation_of_a_released_store_is_known_and_not_trained_again(golden: Golden) -> None:
    assert evaluated(Study.open(golden.store), golden.name) == golden.expected["evaluated"]
    assert evaluated(golden.script(), golden.name) == golden.expected["evaluated"]
    assert not golden.log.exists(), "something was trained"


def test_a_snapshot_without_a_checksum_is_ignored_as_damage_could_not_show(golden: Golden) -> None:
    golden.require_package()
    snapshots = list((golden.store / "snapshots").glob("*.json"))
    if not snapshots:
        pytest.skip("no run of it came to an end, and a snapshot is saved at the end of a run")
    for snapshot in snapshots:
        damaged = re.sub(rb'"resource":(\d+)', rb'"resource":1\1', snapshot.read_bytes())
        assert damaged != snapshot.read_bytes()
        snapshot.write_bytes(damaged)
    assert summary(Study.open(golden.store)) == golden.expected["opened"]
    golden.require_resumed(golden.script().run(golden.total, parallelism=1, display="none"))


@pytest.mark.parametrize("golden", [folder for folder in FOLDERS if folder.name == "shared"], indirect=True)
def test_a_study_imports_training_from_a_released_shared_folder(golden: Golden) -> None:
    golden.require_bundle()
    shutil.rmtree("first")
    Study.resume(golden.store).run(golden.total, parallelism=1, display="none")
    trained = golden.log.read_text().splitlines()
    assert "trial-1 loads 2" in trained
    assert "trial-1 trains 2" not in trained


def test_released_stores_hold_all_that_a_store_can_hold() -> None:
    files = {path.relative_to(STORES) for path in STORES.glob("*/*/**/*") if path.is_file()}
    assert {path.parts[3] for path in files if len(path.parts) > 3} >= {
        "bundle.bin", "checkpoints", "claims", "drivers", "evals", "facts", "holds", "journal", "logs", "parameters",
        "shared.json", "snapshots", "study.json", "warm_start.json",
    }  # fmt: skip


def test_every_case_has_stores_of_this_version() -> None:
    assert {folder.name for folder in FOLDERS if folder.parent.name == __version__} == set(CASES)
