"""A study without a named store has a folder of its own, and resuming finds the last one of the script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study, uniform
from asyncsearch.study.kept import default_store
from asyncsearch.study.kept.default_store import DefaultFolder


def train(trial: Any) -> None:
    trial.report(loss=trial.params["x"])


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(default_store, "script_name", lambda: "tune")


def study(**options: Any) -> Study:
    settings: dict[str, Any] = {"space": {"x": uniform(0.0, 1.0)}, "metric": "loss", "mode": "min", "backend": "inline"}
    return Study(train, **(settings | options))


def run(made: Study, num_trials: int = 1) -> str:
    made.run(num_trials, display="none")
    return str(Path(made.store.shown).relative_to(Path.cwd()))


def test_each_new_study_has_a_folder_of_its_own() -> None:
    assert [run(study()), run(study()), run(study(name="other"))] == [
        "studies/tune-train",
        "studies/tune-train-2",
        "studies/tune-other",
    ]


def test_studies_that_are_described_before_any_of_them_runs_do_not_collide() -> None:
    first, second = study(), study()
    assert run(second) != run(first)


def test_resuming_finds_the_last_one_of_this_script(monkeypatch: pytest.MonkeyPatch) -> None:
    run(study())
    run(study())
    monkeypatch.setattr(default_store, "script_name", lambda: "another")
    run(study())
    monkeypatch.setattr(default_store, "script_name", lambda: "tune")
    resumed = study(resume=True)
    assert run(resumed, 3) == "studies/tune-train-2"
    assert len(resumed.trials) == 3


def test_resuming_without_an_earlier_study_begins_one() -> None:
    assert run(study(resume=True)) == "studies/tune-train"


def test_resuming_finds_a_study_that_lies_in_a_folder_without_the_script() -> None:
    run(study(store="studies/train"))
    assert run(study(resume=True), 2) == "studies/train"


def test_a_study_that_ran_goes_on_where_it_lies() -> None:
    made = study()
    assert run(made) == run(made, 2) == "studies/tune-train"
    assert len(made.trials) == 2


def test_a_folder_that_another_process_has_taken_meanwhile_is_left_to_it() -> None:
    made = study()
    Path("studies/tune-train").mkdir(parents=True)
    assert run(made) == "studies/tune-train-2"


def test_a_new_study_says_how_to_go_on_with_the_one_before(capsys: pytest.CaptureFixture[str]) -> None:
    run(study())
    study().run(1, display="plain")
    assert "write Study(..., resume=True)" in " ".join(capsys.readouterr().out.split())


def test_nothing_is_written_by_a_description() -> None:
    study()
    assert list(Path.cwd().iterdir()) == []


def test_an_evaluation_lies_in_the_folder_of_its_study() -> None:
    made = study()
    made.evaluate({"x": 0.5}, 1)
    assert run(made) == "studies/tune-train"


def test_the_folder_is_named_after_the_script(tmp_path: Path) -> None:
    lines = "from asyncsearch.study.kept.default_store import script_name\nprint(script_name())"
    Path("digits.py").write_text(lines, encoding="utf-8")
    Path("package").mkdir()
    Path("package/__main__.py").write_text(lines, encoding="utf-8")
    commands = [["digits.py"], ["-m", "package"], ["-c", lines]]
    outputs = [
        subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout.strip()
        for command in commands
    ]
    assert outputs == ["digits", "package", ""]


def test_a_script_called_as_its_function_names_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_store, "script_name", lambda: "train")
    assert DefaultFolder("train").choose() == Path("studies/train")
