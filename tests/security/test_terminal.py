"""What trials print and name cannot drive the terminal of who looks at them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch import cli
from asyncsearch.report.formatting import NO_TIME, csv_text, json_text, printable, time_of_day
from asyncsearch.report.live.display import Plain, Terminal
from asyncsearch.report.live.shown_logs import line_text, log_lines
from asyncsearch.rpc.messages import LogLine
from asyncsearch.simulate import Faults
from asyncsearch.space import Space, choice, uniform
from asyncsearch.store import open_store
from tests.engine.tools import make_state, record
from tests.report.tools import FAILING, SCHEDULER, store_of

HOSTILE = (
    "\x1b[2J\x1b[31mred",  # clears the screen
    "\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x1b\\",  # the clipboard
    "\x9b31m\x9d0;title\x9c",  # the same in single characters
    "up\rover\x08\x7f\x0b\x0c\x85\u2028\u202eright to left",
    "one\nforged line",
)


def is_harmless(text: str, keep: str = "\n") -> bool:
    return all(char.isprintable() or char in keep for char in text)


@given(st.text() | st.text("\x1b\x9b\x9d[]PX^_;0123m\x07\\\r\n\tab"))
def test_plain_text_has_no_control_characters(text: str) -> None:
    assert is_harmless(printable(text), "\n\t")
    assert printable(printable(text)) == printable(text)


def test_colours_disappear_and_unprintables_become_question_marks() -> None:
    assert printable("\x1b[1;31mred\x1b[0m and \x07 bell") == "red and ? bell"
    assert printable("\x1b]8;;http://x\x1b\\link") == "link"


@pytest.mark.parametrize("time_s", [1e18, -1e18, float("nan"), float("inf"), 1e300])
def test_a_time_that_no_clock_has_shown_is_no_error(time_s: float) -> None:
    assert time_of_day(time_s) == NO_TIME
    assert line_text("trial-0", LogLine(time_s, "x")) == f"trial-0  {NO_TIME}  x"
    assert list(log_lines(iter([f"{time_s} O x"]))) == [f"{NO_TIME}   x"]


@given(st.text())
def test_the_lines_of_a_log_are_harmless_whatever_the_file_holds(text: str) -> None:
    for line in log_lines(iter([text, f"1.0 E {text}"])):
        assert is_harmless(line, "\t")


def test_csv_and_json_hold_the_values_without_control_characters() -> None:
    rows = [{"trial": "trial-0", "params.name": text, "value": 0.5, "best": None} for text in HOSTILE]
    names = list(rows[0])
    assert is_harmless(csv_text(rows, names))
    assert is_harmless(json_text(rows))
    assert json.loads(json_text(rows)) == rows
    read = list(csv.DictReader(io.StringIO(csv_text(rows, names))))
    assert read[0]["params.name"] == r"\x1b[2J\x1b[31mred"
    assert len(csv_text(rows, names).splitlines()) == len(rows) + 1
    assert csv_text([], ["trial"]) == "trial"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A study whose failures and logs hold everything that drives a terminal."""
    folder = tmp_path_factory.mktemp("store") / "study"
    faults = Faults(failures={FAILING: 1})
    state = make_state(SCHEDULER, space=Space.of({"lr": uniform(0.0, 1.0), "name": choice(*HOSTILE)}))
    home = open_store(store_of(record(state, 8, workers=3, faults=faults), folder))
    home.append_log("trial-0", [f"1795244400.250 O {text}" for text in HOSTILE] + ["1e18 O late", *HOSTILE])
    return str(folder)


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["trials"],
        ["trials", "--format", "csv"],
        ["trials", "--format", "json"],
        ["logs", "trial-0"],
        ["explain", "trial-0"],
        ["tree"],
    ],
)
def test_a_command_prints_no_control_characters(
    words: list[str], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([words[0], store, *words[1:]]) == 0
    printed = capsys.readouterr()
    assert is_harmless(printed.out, "\n\t"), printed.out
    assert is_harmless(printed.err)


def test_an_error_prints_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(tmp_path / "\x1b[31mred")]) == 2
    assert is_harmless(capsys.readouterr().err)


def test_a_run_shows_lines_and_notes_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for display in (Plain(logs=True), Terminal(logs=True)):
        for text in HOSTILE:
            display.begin(text)
            display.warn([text])
            display.log_lines([("trial-0", LogLine(1e18, text))])
        assert is_harmless(capsys.readouterr().out)
