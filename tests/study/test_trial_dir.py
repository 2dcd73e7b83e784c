"""``trial.dir`` and ``study.trial_dir``: what a trial writes there is in the store, however its training ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, PBT, Checkpoints, GridSearch, Sharing, Study, Trainer, choice, sequences, uniform
from asyncsearch.actions import Branch
from asyncsearch.errors import CheckpointError, NoTrialsError, UsageError
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.journal.opening import read_records
from asyncsearch.study.trial_dirs import last_stored, place_in
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState

EARLY = ASHA(max_resource=9, reduction_factor=3)


def save(path: Path) -> None:
    path.write_text("saved")


def load(path: Path) -> None:
    path.read_text()


def writes_units(trial: TrialContext) -> None:
    """Write each unit and the rate that it was trained with."""
    for epoch in trial.epochs(save=save, load=load):
        with (trial.dir / "units.txt").open("a") as file:
            file.write(f"{epoch}:{trial.params['x']} ")
        trial.report(loss=trial.params["x"] / epoch)


def ends_badly(trial: TrialContext) -> None:
    for epoch in trial.epochs(save=save, load=load):
        (trial.dir / "notes.txt").write_text(f"unit {epoch}")
        if epoch == 2:
            if trial.params["x"] == 1:
                raise ValueError("diverged")
            if trial.params["x"] == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        trial.report(loss=trial.params["x"] / epoch)


def never_asks(trial: TrialContext) -> None:
    for epoch in trial.epochs(save=save, load=load):
        trial.report(loss=trial.params["x"] / epoch)


def writes_much(trial: TrialContext) -> None:
    (trial.dir / "much.bin").write_bytes(bytes(2_000))
    trial.report(loss=1.0)


class Packed(Trainer):
    """Trains in packs, and each writes its own name."""

    def setup(self, hp: dict[str, Any]) -> None:
        (self.trial.dir / "name.txt").write_text(self.trial.name)
        self.x = hp["x"]

    def train(self) -> None:
        pass

    @classmethod
    def train_pack(cls, trainers: Sequence[Trainer]) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.x}

    def save(self, path: Path) -> None:
        save(path)

    def load(self, path: Path) -> None:
        load(path)


def study_of(train: Any, store: Path | str, xs: Sequence[Any] = (1, 2, 3), **options: Any) -> Study:
    space = {"x": choice(*xs)}
    defaults: dict[str, Any] = {"searcher": GridSearch(), "scheduler": FIFO(max_resource=3), "backend": "inline"}
    return Study(train, space=space, metric="loss", mode="min", store=str(store), **(defaults | options))


def text_in(study: Study, trial: int, name: str = "units.txt") -> str:
    with study.trial_dir(trial) as folder:
        return (folder / name).read_text()


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_resumed_trial_finds_its_files_and_the_last_state_stays(tmp_path: Path, backend: str) -> None:
    study = study_of(writes_units, tmp_path / "study", range(1, 10), scheduler=EARLY, backend=backend)
    study.run(parallelism=2, display="none")
    assert {trial.resource for trial in study.trials} >= {1, 9}
    for trial in study.trials:
        units = [f"{unit}:{trial.params['x']}" for unit in range(1, trial.resource + 1)]
        assert text_in(study, trial.id).split() == units
    stored = place_in(study.store).checkpoints()
    assert len(stored) == len(study.trials), "what a trial had at an earlier rung is removed"


def test_it_is_stored_on_a_far_store_as_on_a_disk(tmp_path: Path) -> None:
    study = study_of(writes_units, f"file://{tmp_path}/study", range(1, 10), scheduler=EARLY)
    study.run(display="none")
    assert text_in(study, study.best_trial.id).count(":") == study.best_trial.resource


def test_a_failed_and_a_killed_trial_leave_what_they_wrote(tmp_path: Path) -> None:
    study = study_of(ends_badly, tmp_path / "study", backend="processes")
    study.run(parallelism=1, display="none")
    assert [trial.state for trial in study.trials] == [TrialState.FAILED, TrialState.FAILED, TrialState.COMPLETED]
    assert [text_in(study, trial, "notes.txt") for trial in range(3)] == ["unit 2", "unit 2", "unit 3"]


def test_a_stopped_trial_leaves_what_it_wrote(tmp_path: Path) -> None:
    stopping = ASHA(max_resource=9, reduction_factor=3, variant="stopping")
    study = study_of(writes_units, tmp_path / "study", range(1, 10), scheduler=stopping)
    study.run(display="none")
    stopped = [trial for trial in study.trials if trial.state is TrialState.STOPPED]
    assert stopped
    for trial in stopped:  # the stop is read at a later report, when more is written
        assert text_in(study, trial.id).count(":") >= trial.resource


def test_a_trial_that_does_not_ask_for_it_leaves_no_trace(tmp_path: Path) -> None:
    study = study_of(never_asks, tmp_path / "study")
    study.run(display="none")
    assert not (tmp_path / "study" / "dirs").exists()
    assert not list((tmp_path / "study" / "checkpoints").rglob("dir"))
    with pytest.raises(NoTrialsError, match=r"trial-1 has stored no folder: its code has not read trial\.dir"):
        text_in(study, 1)


def test_too_much_in_it_fails_the_trial_and_names_the_line(tmp_path: Path) -> None:
    study = study_of(writes_much, tmp_path / "study", [1], checkpoints=Checkpoints(dir_bytes=1_000))
    with pytest.raises(Exception, match=r"2,000 bytes, and 1,000 are allowed: .*Checkpoints\(dir_bytes=3_000\)"):
        study.run(display="none")
    with pytest.raises(NoTrialsError):
        text_in(study, 0, "much.bin")


def test_folders_of_the_best_finished_trials_stay_if_not_all_do(tmp_path: Path) -> None:
    study = study_of(writes_units, tmp_path / "study", [3, 1, 2], checkpoints=Checkpoints(keep_dirs=2))
    study.run(display="none")
    assert [text_in(study, trial)[:3] for trial in (1, 2)] == ["1:1", "1:2"]
    with pytest.raises(NoTrialsError, match=r"keep_dirs"):
        text_in(study, 0)
    Study.resume(tmp_path / "study", backend="inline").run(display="none")
    assert len(place_in(study.store).checkpoints()) == 2


def test_the_limit_is_checked_before_the_study_begins() -> None:
    with pytest.raises(UsageError, match=r"dir_bytes=0"):
        Checkpoints(dir_bytes=0)
    with pytest.raises(UsageError, match=r"keep_dirs=-1"):
        Checkpoints(keep_dirs=-1)


def test_the_lanes_of_a_pack_have_a_folder_each(tmp_path: Path) -> None:
    study = study_of(Packed, tmp_path / "study", pack=3)
    study.run(display="none")
    assert [text_in(study, trial, "name.txt") for trial in range(3)] == ["trial-0", "trial-1", "trial-2"]


def test_trials_that_share_a_stage_read_the_folder_of_the_stage(tmp_path: Path) -> None:
    rates = [sequences.values([1, after], [3]) for after in (2, 3)]
    study = study_of(writes_units, tmp_path / "study", rates, scheduler=FIFO(max_resource=4))
    study.run(display="none")
    assert sum(trial.trained for trial in study.trials) < 8, "the trials shared nothing"
    assert [text_in(study, trial) for trial in (0, 1)] == ["1:1 2:1 3:1 4:2 ", "1:1 2:1 3:1 4:3 "]


def test_a_trial_that_takes_over_weights_takes_over_their_folder(tmp_path: Path) -> None:
    copying = PBT(max_resource=6, perturbation_interval=2)
    space = {"x": uniform(0.1, 1.0)}
    study = Study(
        writes_units, space=space, metric="loss", mode="min", scheduler=copying, store=tmp_path / "s", backend="inline"
    )
    study.run(num_trials=4, display="none")
    assert any(isinstance(action, Branch) for record in read_records(study.store) for action in record.actions)
    for trial in study.trials:
        units = [line.split(":")[0] for line in text_in(study, trial.id).split()]
        assert units == [str(unit) for unit in range(1, 7)]


def test_studies_of_one_version_store_their_folders_with_the_study_itself(tmp_path: Path) -> None:
    study = study_of(writes_units, tmp_path / "study", version="1", sharing=Sharing(shared=tmp_path / "plan"))
    study.run(display="none")
    assert text_in(study, 0) == "1:1 2:1 3:1 "
    assert (tmp_path / "study" / "dirs").is_dir()
    assert not (tmp_path / "plan" / "dirs").exists()


def test_a_stored_folder_that_was_changed_is_refused(tmp_path: Path) -> None:
    study = study_of(writes_units, tmp_path / "study", [1])
    study.run(display="none")
    [file] = (tmp_path / "study" / "dirs").rglob("units.txt")
    file.write_text("forged")
    with pytest.raises(CheckpointError, match=r"file 'units\.txt' has"):
        text_in(study, 0)


def test_a_folder_used_without_a_with_block_says_what_to_write(tmp_path: Path) -> None:
    study = study_of(writes_units, tmp_path / "study", [1])
    study.run(display="none")
    with pytest.raises(UsageError, match=r"write `with study\.trial_dir\(0\) as path:`"):
        os.listdir(study.trial_dir(0))  # type: ignore[call-overload]


def test_of_several_ends_the_last_one_that_is_stored_counts() -> None:
    first, second, third = (CheckpointRef(NodeKey("a"), resource) for resource in (1, 3, 9))
    ends = {TrialId(0): [first, second, third], TrialId(1): [first], TrialId(2): [third]}
    assert last_stored(ends, [first, second]) == {TrialId(0): second, TrialId(1): first}
