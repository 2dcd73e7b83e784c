"""The command line, on studies that were simulated and on one that is run for real."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, choice, cli, uniform
from asyncsearch.cli.parser import _seconds, _state
from asyncsearch.errors import TrialsFailedError
from asyncsearch.report.live.status import STATE_WORDS
from asyncsearch.sequences import multistep
from asyncsearch.study.runnable import CORRECT
from asyncsearch.study.study import Study
from asyncsearch.trial import TrialState
from tests.report.tools import FAILING, simulated, store_of

SCRIPT = """
from asyncsearch import ASHA, Study, uniform

def train(trial):
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        print(f"epoch {epoch}")
        trial.report(loss=trial.params["x"] / epoch)

def make_study(store="study"):
    scheduler = ASHA(max_resource=4, reduction_factor=2)
    return Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", scheduler=scheduler, store=store)

if __name__ == "__main__":
    raise SystemExit("the script was run, not imported")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(store_of(simulated(), tmp_path_factory.mktemp("store") / "study"))


@pytest.fixture(autouse=True)
def _leave_the_interpreter_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A script that is previewed changes these, which is right for a process that ends then."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = (
        sys.modules.copy()
    )  # another dictionary in its place would break imports, which Python looks up in this one
    yield
    sys.modules.update(before)


def test_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--help"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0
    assert "asyncsearch show studies/digits" in out
    assert "exit codes:" in out


@pytest.mark.parametrize("command", ["show", "trials", "logs", "explain", "resume", "preview", "simulate", "check"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([command, "--help"])
    assert stopped.value.code == 0
    assert f"asyncsearch {command}" in capsys.readouterr().out


def test_show_prints_the_summary(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", store]) == 0
    assert capsys.readouterr().out == f"{Study.open(store).summary()}\n"


def test_trials_come_in_the_order_that_was_asked_for(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trials", store, "--sort", "value", "--format", "json", "--limit", "5"]) == 0
    rows = json.loads(capsys.readouterr().out)
    best = sorted((t for t in Study.open(store).trials if t.value is not None), key=lambda t: t.value or 0.0)
    assert [row["trial"] for row in rows] == [trial.name for trial in best[:5]]


def test_a_trial_without_a_value_is_sorted_last(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trials", store, "--sort", "value", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["trial"] == f"trial-{FAILING}"


def test_trials_as_csv_are_read_back_whole(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trials", store, "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    trials = Study.open(store).trials
    assert [float(row["params.lr"]) for row in rows] == [trial.params["lr"] for trial in trials]
    assert [row["state"] for row in rows] == [trial.state.value for trial in trials]


def test_schedules_and_objects_are_json_as_in_the_params(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def train(trial: Any) -> None:
        for _ in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
            trial.report(loss=1.0)

    space = {"lr": choice(multistep(0.1, milestones=[1])), "odd": choice(TrialState.PAUSED, Path("x"))}
    options: dict[str, Any] = {"scheduler": FIFO(max_resource=2), "backend": "inline", "store": tmp_path / "s"}
    Study(train, space=space, metric="loss", mode="min", **options).run(3, display="none")
    assert cli.main(["trials", str(tmp_path / "s"), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    trials = Study.open(tmp_path / "s").trials
    assert [{name: row[f"params.{name}"] for name in space} for row in rows] == [trial.params for trial in trials]


def test_trials_as_a_table_mark_the_best(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trials", store]) == 0
    marked = [line for line in capsys.readouterr().out.splitlines() if line.startswith("*")]
    assert [line.split()[1] for line in marked] == [Study.open(store).best_trial.name]


def test_trials_of_one_state_only(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trials", store, "--state", "failed", "--format", "json"]) == 0
    assert [row["trial"] for row in json.loads(capsys.readouterr().out)] == [f"trial-{FAILING}"]


def test_a_state_may_be_written_as_the_tables_say_it(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = Study.open(store)._status()
    early = sum(amount for state, amount in status.counts.items() if status.words(state) == "stopped early")
    assert early > status.counts.get(TrialState.STOPPED, 0), "the search has paused trials, which go on no more"
    for word in ("stopped-early", "stopped early", "Stopped_Early", "stopped"):
        assert cli.main(["trials", store, "--state", word, "--format", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == early
    for word in ("finished", "completed", "trained-to-the-end"):
        assert cli.main(["trials", store, "--state", word, "--format", "json"]) == 0
        states = {row["state"] for row in json.loads(capsys.readouterr().out)}
        assert states == {"COMPLETED"}


def test_a_state_of_the_journal_is_found_too(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trials", store, "--state", "paused", "--format", "json"]) == 0
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {"PAUSED"}


def test_every_word_of_the_tables_is_a_state_and_is_named_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["trials", "--help"])
    text = "".join(capsys.readouterr().out.split())
    for words in STATE_WORDS:
        assert words.replace(" ", "-") in text
        assert _state(words) == words


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("0.5", 0.5), ("10m", 600.0), (" 2h ", 7200.0)])
def test_times_on_the_command_line_have_a_unit_or_are_seconds(text: str, seconds: float) -> None:
    assert _seconds(text) == seconds


@pytest.mark.parametrize("text", ["1x", "", "0", "-5", "nan", "inf", "1e999"])
def test_what_is_no_time_is_answered_by_how_to_write_one(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["resume", "nowhere", f"--timeout={text}"])
    assert "is not a time: write it in seconds, or as 10m or 2h" in capsys.readouterr().err


def test_what_is_no_state_is_answered_by_those_that_there_are(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["trials", store, "--state", "pruned"])
    assert "'pruned' is no state of a trial: write one of" in capsys.readouterr().err


def test_a_list_of_trials_names_their_states_as_the_summary_does(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["trials", store]) == 0
    assert "stopped early" in capsys.readouterr().out


def test_explain_tells_the_story(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", store, str(FAILING)]) == 0
    assert f"trial-{FAILING} has failed" in capsys.readouterr().out


def test_logs_show_time_and_text_and_mark_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = store_of(simulated(), tmp_path / "study")
    Study.open(folder).store.append_log("trial-0", ["0.500 O hello  world", "1.000 E oh no", "no stamp"])
    assert cli.main(["logs", str(folder), "trial-0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[8:] for line in lines[:2]] == ["   hello  world", " ! oh no"]
    assert lines[2] == "no stamp"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "{tmp}/nothing"], "holds no study"),
        (["explain", "{store}", "trial-999"], "There is no trial 999"),
        (["explain", "{store}", "seven"], "'seven' is not a trial"),
        (["logs", "{store}", "999"], "There is no trial 999"),
        (["preview", "{tmp}/nothing.py"], "is not a file"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([text.format(tmp=tmp_path, store=store) for text in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("asyncsearch: ")
    assert error.count("\n") == 1
    assert words in error


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["dance"], ["show"], ["trials", "x", "--limit", "0"], ["trials", "x", "--limit", "-3"]),
        *(["simulate", "x", "--pack", "0"], ["simulate", "x", "--pack-speedup", "8"]),
    ],
)
def test_a_command_that_is_written_wrong_has_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "usage: asyncsearch" in capsys.readouterr().err


def test_a_command_that_does_not_exist_is_answered_by_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["shw", "somewhere"])
    assert "there is no command 'shw': did you mean show?" in capsys.readouterr().err


def test_a_damaged_journal_has_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = store_of(simulated(), tmp_path / "study")
    segment = folder / "journal" / "000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b'"trial":1', b'"trial":2', 1))
    assert cli.main(["show", str(folder)]) == 1
    assert "000001.jsonl, line" in capsys.readouterr().err


def test_preview_imports_a_script_and_does_not_run_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "json.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert cli.main(["preview", str(script), "--num-trials", "8", "--seconds-per-unit", "60"]) == 0
    assert "ASHA(max_resource=4, reduction_factor=2)" in capsys.readouterr().out
    assert not (tmp_path / "study").exists()


def test_a_study_below_the_usual_guard_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "search.py"
    text = SCRIPT.replace("def make_study(store", "def made(store").partition("if __name__")[0]
    script.write_text(f"{text}if __name__ == '__main__':\n    made({str(tmp_path / 'study')!r}).run(8)\n")
    done = subprocess.run(
        [sys.executable, "-m", "asyncsearch", "preview", str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ASHA(max_resource=4, reduction_factor=2)" in done.stdout
    assert not (tmp_path / "study").exists()


def test_a_trial_that_printed_nothing_is_said_to(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["logs", store, "trial-0"]) == 0
    found = capsys.readouterr()
    assert found.out == ""
    assert "trial-0 has printed nothing" in found.err
    assert f"explain {store} trial-0" in found.err


def test_preview_says_what_packs_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "json.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert cli.main(["preview", str(script), "--num-trials", "8", "--pack", "4", "--pack-speedup", "2:1.5,4:2"]) == 0
    assert "Workers train up to 4 together, with the gain that was given. That saves" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("x = 1", "makes no study: write `study = Study(...)` there"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_script_that_is_no_study_is_refused_in_one_line(
    script: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    assert cli.main(["preview", str(path), "--num-trials", "8"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def run_shell(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asyncsearch", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_study_is_resumed_from_the_shell_with_the_code_in_its_store(tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    script.write_text(SCRIPT, encoding="utf-8")
    code = "import search; search.make_study().run(num_trials=4, parallelism=1, display='none')"
    first = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    script.unlink()
    again = run_shell(
        "resume", "study", "--num-trials", "6", "--parallelism", "1", "--backend", "processes", cwd=tmp_path
    )
    assert again.returncode == 0, again.stderr
    assert "6 configurations" in again.stdout
    assert len(Study.open(tmp_path / "study").trials) == 6
    what_if = run_shell("simulate", "study", "--workers", "1,3", cwd=tmp_path)
    assert [line.split()[0] for line in what_if.stdout.splitlines()] == ["workers", "1", "3"]
    logs = run_shell("logs", "study", "trial-5", "--follow", cwd=tmp_path)
    assert "epoch 1" in logs.stdout, "the log of a run that is over, and then it ends"


def test_a_reader_that_has_seen_enough_is_no_error(store: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "asyncsearch", "trials", store]
    with open(write_end, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_resuming_a_study_of_failing_trials_exits_1_with_the_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(trial: object) -> None:
        raise KeyError("missing")

    folder = str(tmp_path / "s")
    study = Study(fails, space={"x": uniform(0, 1)}, metric="loss", mode="min", store=folder, backend="inline")
    with pytest.raises(TrialsFailedError):
        study.run(1, display="none")
    assert cli.main(["resume", folder, "--num-trials", "2"]) == 1
    printed = capsys.readouterr()
    assert f"asyncsearch: all 2 trials failed. {CORRECT}; the traceback is above: KeyError" in printed.err
    assert "every trial failed" in printed.out


def test_resuming_from_the_shell_names_stored_code_and_an_edited_script(tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    script.write_text(SCRIPT, encoding="utf-8")
    code = "import search; search.make_study().run(num_trials=1, parallelism=1, display='none')"
    first = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    resume = ("resume", "study", "--parallelism", "1", "--backend", "inline", "--num-trials")
    same = run_shell(*resume, "2", cwd=tmp_path).stdout
    assert same.startswith("The code runs as it was stored on ")
    assert "edited" not in same
    script.write_text(SCRIPT.replace("trial.report(", "assert False; trial.report("), encoding="utf-8")
    edited = run_shell(*resume, "3", cwd=tmp_path)
    assert edited.returncode == 0, "the stored code ran"
    assert f"{script} has been edited since then" in edited.stdout
    assert f"resume=True in its Study(...) and run python {script}" in edited.stdout
