"""``study.tensorboard()``: TensorBoard itself shows the trials of a study, their parameters and their metrics."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorboard")

from asyncsearch import ASHA, FIFO, GridSearch, Study, choice, cli, uniform
from asyncsearch.errors import CheckpointError, NoTrialsError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.study import event_files, trial_dirs
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.report.tensorboard.board import Board, shown

SPACE = {"rate": uniform(0.0, 1.0), "kind": choice("cnn", "rnn"), "model": {"bias": choice(True, False)}}


def save(path: Path) -> None:
    path.write_text("saved")


def load(path: Path) -> None:
    path.read_text()


def train(trial: TrialContext) -> None:
    for epoch in trial.epochs(save=save, load=load):
        if trial.name == "trial-3":
            raise ValueError("diverged")
        trial.report(loss=trial.params["rate"] / epoch, accuracy=math.nan if epoch == 1 else 1.0)


def writes_events(trial: TrialContext) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    (trial.dir / "tfevents").mkdir()
    writer = EventFileWriter(str(trial.dir))
    summary = Summary()
    summary.value.add(tag="gradient", simple_value=3.0)
    writer.add_event(Event(step=1, summary=summary))
    writer.close()
    (trial.dir / "large.bin").write_bytes(bytes(1_000))
    trial.report(loss=1.0)


def searched(store: Path, **options: Any) -> Study:
    scheduler = ASHA(max_resource=9, reduction_factor=3)
    study = Study(train, space=SPACE, metric="loss", mode="min", scheduler=scheduler, store=store, **options)
    return study.run(num_trials=12, display="none")


def require_shown(board: Board, study: Study) -> None:
    assert set(board.get("runs")) == {".", *(trial.name for trial in study.trials)}
    groups = board.groups()
    for trial in study.trials:
        history = {resource: metrics["loss"] for resource, metrics in study.history(trial.id)}
        if not history:
            continue
        assert dict(board.points(trial.name, "loss")) == pytest.approx(history)
        given = groups[trial.name]["hparams"]
        assert given["rate"] == pytest.approx(trial.params["rate"])
        assert (given["kind"], given["model.bias"]) == (trial.params["kind"], trial.params["model"]["bias"])
        [last] = [one for one in groups[trial.name]["metricValues"] if one["name"]["tag"] == "loss"]
        assert (last["value"], last["trainingStep"]) == (pytest.approx(trial.value), trial.value_resource)


def test_tensorboard_shows_trials_parameters_and_metrics(tmp_path: Path) -> None:
    study = searched(tmp_path / "study", backend="inline")
    with shown(study.tensorboard(tmp_path / "logs")) as board:
        require_shown(board, study)
        experiment = board.ask("plugin/hparams/experiment", experimentName="")
        infos = {info["name"]: info for info in experiment["hparamInfos"]}
        assert infos["rate"]["domainInterval"] == {"minValue": 0.0, "maxValue": 1.0}
        assert infos["kind"]["domainDiscrete"] == ["cnn", "rnn"]
        assert [info["name"]["tag"] for info in experiment["metricInfos"]] == ["loss", "accuracy"]
        ends = {trial.name: trial.state for trial in study.trials}
        states = {name: group["sessions"][0]["status"] for name, group in board.groups().items()}
        assert states["trial-3"] == "STATUS_FAILURE"
        assert all(states[name] == "STATUS_SUCCESS" for name, end in ends.items() if end is TrialState.COMPLETED)


def test_a_trials_event_files_are_beside_its_reports_and_nothing_else_is(tmp_path: Path) -> None:
    searcher, scheduler = GridSearch(), FIFO()
    space = {"x": choice(1, 2)}
    study = Study(
        writes_events, space=space, metric="loss", mode="min", searcher=searcher, scheduler=scheduler,
        store=tmp_path / "study", backend="inline",
    )  # fmt: skip
    logdir = study.run(display="none").tensorboard(tmp_path / "logs")
    assert not list(logdir.rglob("large.bin"))
    with shown(logdir) as board:
        assert {"trial-0/dir", "trial-1/dir"} < set(board.get("runs"))
        assert board.points("trial-1/dir", "gradient") == [(1, 3.0)]


def test_a_folder_removed_meanwhile_is_left_out_and_a_damaged_one_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"searcher": GridSearch(), "scheduler": FIFO(), "space": {"x": choice(1, 2)}}
    study = Study(writes_events, metric="loss", mode="min", store=tmp_path / "study", backend="inline", **settings).run(
        display="none"
    )
    stored = trial_dirs.stored_dirs(study.store)
    monkeypatch.setattr(event_files, "stored_dirs", lambda store: stored)
    trial_dirs.place_in(study.store).delete(stored[TrialId(0)])
    logdir = study.tensorboard(tmp_path / "logs")
    assert [path.name for path in logdir.glob("trial-*") if (path / "dir").exists()] == ["trial-1"]
    [file] = (tmp_path / "study" / "dirs").rglob("large.bin")
    file.write_bytes(b"forged")
    with pytest.raises(CheckpointError, match=r"large\.bin"):
        study.tensorboard(tmp_path / "others")


def test_a_second_call_adds_the_new_and_needs_no_code_of_the_study(tmp_path: Path) -> None:
    study = searched(tmp_path / "study", backend="inline")
    logdir = study.tensorboard(tmp_path / "logs")
    before = {path: path.read_bytes() for path in logdir.rglob("*tfevents*")}
    assert study.tensorboard(logdir) == logdir
    assert {path: path.read_bytes() for path in logdir.rglob("*tfevents*")} == before
    study.run(num_trials=20, display="none")
    Study.open(tmp_path / "study").tensorboard(logdir)
    runs = [path for path in before if path.parent != logdir]
    assert all(path.read_bytes().startswith(before[path]) for path in runs)
    assert len(list(logdir.glob("trial-*"))) == 20


def test_the_shell_writes_it_and_says_how_to_look_at_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    searched(tmp_path / "study", backend="inline")
    capsys.readouterr()
    assert cli.main(["tensorboard", str(tmp_path / "study"), "--logdir", str(tmp_path / "my logs"), "--follow"]) == 0
    words = capsys.readouterr().out
    assert words == f"written to {tmp_path}/my logs; look at it: tensorboard --logdir '{tmp_path}/my logs'\n"
    assert len(list((tmp_path / "my logs").glob("trial-*"))) == 12


def test_a_search_is_followed_from_before_its_first_trial_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = searched(tmp_path / "study", backend="inline")
    [segment] = (tmp_path / "study" / "journal").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:2]))
    (tmp_path / "study" / "head.json").unlink()
    shutil.rmtree(tmp_path / "study" / "snapshots")

    def go_on(_: float) -> None:
        segment.write_bytes(b"".join(lines))
        lock.close()

    lock = contextlib.ExitStack()
    lock.enter_context(whole.store.lock())
    monkeypatch.setattr(time, "sleep", go_on)
    assert cli.main(["tensorboard", str(tmp_path / "study"), "--logdir", str(tmp_path / "logs"), "--follow"]) == 0
    assert capsys.readouterr().out.count("written to") == 1
    assert len(list((tmp_path / "logs").glob("trial-*"))) == 12


def test_the_folder_of_another_study_is_refused_with_one_to_write(tmp_path: Path) -> None:
    logdir = searched(tmp_path / "study", backend="inline").tensorboard(tmp_path / "logs")
    [file] = logdir.glob("*tfevents*")
    file.rename(file.with_name(file.name.replace(file.name.split(".")[3], "1000000000")))
    with pytest.raises(UsageError, match=r"shows another study.*study\.tensorboard\('.*logs-2'\)"):
        Study.open(tmp_path / "study").tensorboard(logdir)


def test_a_study_without_trials_and_a_missing_library_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = searched(tmp_path / "study", backend="inline")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written: .*Name a folder on this machine"):
        study.tensorboard(tmp_path / "file" / "logs")
    monkeypatch.setitem(sys.modules, "tensorboard.plugins.hparams.summary_v2", None)
    with pytest.raises(UsageError, match=r"pip install 'asyncsearch\[tensorboard\]'"):
        study.tensorboard(tmp_path / "logs")


def test_before_the_first_trial_it_says_what_to_do(tmp_path: Path) -> None:
    scheduler = FIFO(max_resource=1)
    study = Study(train, space=SPACE, metric="loss", mode="min", scheduler=scheduler, store=tmp_path / "s")
    with pytest.raises((NoTrialsError, UsageError)):
        study.tensorboard(tmp_path / "logs")


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "..", "x" * 400])
def test_the_name_of_a_study_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    home = tmp_path / "a" / "b" / "home"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    study = Study(
        lambda trial: trial.report(loss=1.0), space=SPACE, metric="loss", mode="min", name=name, backend="inline"
    )
    study.run(1, display="none")
    folder = study.tensorboard()
    assert folder.resolve().parent == home / "tensorboard"
    assert sorted(path.name for path in home.iterdir()) == ["studies", "tensorboard"]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["home"]
    assert len(list((home / "studies").iterdir())) == 1


def test_event_files_follow_no_link_that_lies_where_they_are_written(tmp_path: Path) -> None:
    study = Study(
        writes_events, space=SPACE, metric="loss", mode="min", backend="inline", store=tmp_path / "s",
        scheduler=FIFO(max_resource=1),
    )  # fmt: skip
    study.run(1, display="none")
    logdir, theirs = study.tensorboard(tmp_path / "logs"), tmp_path / "theirs"
    copied = next(path for path in (logdir / "trial-0" / "dir").rglob("*tfevents*") if path.is_file())
    theirs.write_text("theirs")
    copied.unlink()
    copied.symlink_to(theirs)
    (logdir / "trial-0" / ".stored").unlink()
    with pytest.raises(UsageError, match="cannot be written"):
        study.tensorboard(logdir)
    assert theirs.read_text() == "theirs"
