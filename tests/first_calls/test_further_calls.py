"""What beginners write in their first hour is answered by the line to write, in Python, in a shell and in a trial."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import cli
from asyncsearch.errors import StudyNotFoundError, TrialsFailedError
from asyncsearch.study.results import open_results
from tests.first_calls.calls import COMMANDS
from tests.first_calls.test_first_calls import NAMES, study


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_wrong_command_is_answered_by_the_command_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for command, words in COMMANDS:
        if command.startswith("explain"):  # read after the store
            study(store="studies/mine", backend="inline").run(1, display="none")
            assert cli.main(command.split()) == 2
        else:
            with pytest.raises(SystemExit, match="2"):
                cli.main(command.split())
        error = capsys.readouterr().err
        wrong += [f"{command}: {error}"] if words not in error else []
    assert wrong == []


def test_a_command_whose_answer_is_unknown_is_left_to_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["show", "studies/mine", "--colour"])
    assert "write:" not in capsys.readouterr().err


def test_a_folder_of_studies_named_instead_of_one_says_which_there_are() -> None:
    for name in ("a", "b"):
        study(store=f"studies/{name}", backend="inline").run(1, display="none")
    with pytest.raises(StudyNotFoundError, match=r"2 studies below: write \S+/studies/a or \S+/studies/b\."):
        open_results("studies")


def misspelt(trial: Any) -> Any:
    return trial.params["lrr"]


def as_attribute(trial: Any) -> Any:
    return trial.params.lr


def not_called(trial: Any) -> None:
    for _ in trial.epochs:
        pass


def another_key(trial: Any) -> float:
    return {"a": 1.0}["b"]


@pytest.mark.parametrize(
    ("trainable", "words"),
    [
        (misspelt, "KeyError: 'lrr' (trial.params has 'lr': write trial.params['lr'])"),
        (as_attribute, "'dict' object has no attribute 'lr' (write trial.params['lr'])"),
        (not_called, "object is not iterable (write `for epoch in trial.epochs():`)"),
        (another_key, "KeyError: 'b'"),
    ],
)
def test_an_error_of_python_about_a_trial_gets_the_line_to_write(trainable: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(TrialsFailedError) as caught:
        study(trainable).run(1, parallelism=1, display="none")
    assert str(caught.value).endswith(words)


def test_what_other_tools_write_as_a_domain_may_be_a_constant_or_a_group() -> None:
    space = {"lr": NAMES["uniform"](0.0, 1.0), "clip": {"min": -1, "max": 1}, "kind": {"type": "uniform"}}
    made = study(space={**space, "text": NAMES["constant"]("uniform(0, 1)")})
    assert made.space.parameters["text"].examples() == ("uniform(0, 1)",)
