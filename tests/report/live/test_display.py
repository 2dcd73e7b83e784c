"""What is printed while a search runs."""

from __future__ import annotations

import io
import os
import sys
import time
import types
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.report.formatting import command
from asyncsearch.report.live.display import Notebook, Plain, Quiet, Terminal, open_display, say
from asyncsearch.report.live.shown_logs import LINES_PER_S, LinePrinter, line_text
from asyncsearch.rpc.messages import LogLine
from tests.report.tools import full_counts, make_status


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(count: int, trial: str = "trial-1") -> list[tuple[str, LogLine]]:
    return [(trial, LogLine(0.0, f"line {number}")) for number in range(count)]


STATUS = make_status(counts=full_counts(running=1), store="/tmp/s", workers_wanted=1)


class ZMQInteractiveShell:
    """Stands for a kernel's shell: the display knows it by this name."""


class Cell:
    """Stands for IPython's ``display``: keeps what a cell shows."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw
        assert display_id
        self.shown.append(data)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown[-1] = data


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    ipython.display = types.SimpleNamespace(display=cell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return cell


def test_display_is_a_table_in_a_kernel_and_lines_elsewhere(kernel: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_display("auto"), Notebook)
    monkeypatch.delitem(sys.modules, "IPython")
    assert isinstance(open_display("auto"), Plain)


def test_ipython_in_a_terminal_is_no_notebook(kernel: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert isinstance(open_display("auto"), Plain)
    with pytest.raises(UsageError, match="needs a Jupyter kernel"):
        open_display("notebook")


def test_an_unknown_display_is_named_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"display='loud' is unknown.*'auto', 'notebook', 'plain', 'none'"):
        open_display("loud")


def test_a_cell_has_one_table_that_is_updated_in_place(kernel: Cell) -> None:
    display = open_display("notebook")
    for running in (1, 2, 2):
        display.update(make_status(counts=full_counts(running=running)))
    display.close()
    assert len(kernel.shown) == 1
    assert "2 running" in kernel.shown[0]["text/html"]
    assert "2 running" in kernel.shown[0]["text/plain"]


def test_status_lines_come_at_most_every_so_often(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    display = Plain(logs=False, every_s=10.0, clock=clock)
    for clock.now in (0.0, 1.0, 9.9, 10.0, 12.0, 20.0):
        display.update(STATUS)
    assert capsys.readouterr().out.count("1 running") == 3


def test_the_end_shows_the_whole_table_once(capsys: pytest.CaptureFixture[str]) -> None:
    display = Plain(logs=False, every_s=10.0, clock=Clock())
    display.update(STATUS)
    capsys.readouterr()
    display.close()
    display.close()
    assert capsys.readouterr().out.startswith("digits\n  1 configuration: 1 running\n")


def test_a_run_that_could_not_begin_shows_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    Plain(logs=True).close()
    assert capsys.readouterr().out == ""


def test_output_has_no_escape_sequences_and_no_carriage_returns(capsys: pytest.CaptureFixture[str]) -> None:
    display = Plain(logs=True, clock=Clock())
    display.log_lines([("trial-1", LogLine(0.0, "\x1b[31mred\x1b[0m 50%\r100% \x07\tdone"))])
    display.update(STATUS)
    display.close()
    out = capsys.readouterr().out
    assert "red 50%?100% ?\tdone" in out
    assert "\x1b" not in out
    assert "\r" not in out


def test_lines_of_trials_are_shown_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    Plain(logs=False).log_lines(lines(3))
    assert capsys.readouterr().out == ""
    Plain(logs=True).log_lines(lines(3))
    assert capsys.readouterr().out.count("trial-1") == 3


def test_a_line_says_trial_and_time_of_the_worker() -> None:
    when = time.mktime((2026, 1, 2, 12, 0, 1, 0, 0, -1))
    assert line_text("trial-7", LogLine(when, "epoch 3")) == "trial-7  12:00:01  epoch 3"


def test_lines_of_all_trials_begin_in_one_column() -> None:
    printer = LinePrinter(Clock())
    shown = printer.chosen([*lines(1, "trial-7"), *lines(1, "trial-1234"), *lines(1, "trial-7")], "")
    shown += printer.chosen(lines(1, "trial-12"), "")
    assert {line.index("line") for line in shown} == {len("trial-1234  00:00:00  ")}


def test_too_many_lines_are_counted_and_the_newest_are_shown() -> None:
    clock = Clock()
    printer = LinePrinter(clock)
    first = printer.chosen(lines(10_000), "/tmp/s")
    assert first[0].startswith(f"... 9,500 lines left out here; `{command('logs', '/tmp/s', 'TRIAL')}`")
    assert first[-1].endswith("line 9999")
    clock.now = 1.0
    assert len(printer.chosen(lines(10_000), "/tmp/s")) == LINES_PER_S + 1


def test_few_lines_are_all_shown() -> None:
    assert len(LinePrinter(Clock()).chosen(lines(20), "")) == 20


def test_a_notebook_takes_so_many_lines_and_says_where_the_others_are() -> None:
    clock = Clock()
    printer = LinePrinter(clock, most=50)
    shown = printer.chosen(lines(45), "") + printer.chosen(lines(45), "")
    assert sum("  line " in line for line in shown) == 50
    assert "no more lines are shown here" in shown[-1]
    assert printer.chosen(lines(45), "") == []


def test_a_long_line_is_cut_and_its_length_is_said() -> None:
    text = line_text("trial-1", LogLine(0.0, "x" * 100_000))
    assert len(text) < 600
    assert text.endswith("(100,000 characters)")


def test_a_quiet_display_prints_nothing_and_logs_what_the_user_should_know(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    display = open_display("none", logs=True)
    assert isinstance(display, Quiet)
    display.warn(["12 MB travel to every worker."])
    display.update(STATUS)
    display.log_lines(lines(3))
    display.close()
    assert capsys.readouterr().out == ""
    assert "12 MB travel" in caplog.text


def on_terminal(columns: int = 60, rows: int = 40, *, logs: bool = False) -> Terminal:
    return Terminal(logs=logs, size=lambda: os.terminal_size((columns, rows)), clock=Clock())


def test_a_terminal_draws_the_table_over_the_one_before(capsys: pytest.CaptureFixture[str]) -> None:
    display = on_terminal()
    display.update(STATUS)
    first = capsys.readouterr().out
    assert "\x1b" not in first
    display.update(STATUS)
    assert capsys.readouterr().out == f"\x1b[{len(first.splitlines())}A\x1b[J{first}"


def test_on_a_terminal_lines_of_trials_stand_above_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    display = on_terminal(logs=True)
    display.update(STATUS)
    drawn = capsys.readouterr().out
    display.log_lines(lines(2))
    out = capsys.readouterr().out
    assert out.endswith(drawn)
    assert out.index("line 1") < out.index(drawn.splitlines()[0])


def test_a_table_never_wraps_or_scrolls_out_of_a_small_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    on_terminal(20, 5).update(STATUS)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) <= 4
    assert max(map(len, rows)) <= 19


def test_the_end_leaves_one_whole_table_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    display = on_terminal(30, 5)
    display.update(STATUS)
    capsys.readouterr()
    display.close()
    display.close()
    assert capsys.readouterr().out.count("/tmp/s") == 1


class Stream(io.StringIO):
    """A standard output that fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_what_the_output_cannot_spell_is_escaped(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    say("100%|\u2588|")
    say("next")
    assert raw.getvalue().decode(encoding) == "100%|\\u2588|\nnext\n"


@pytest.mark.parametrize(
    "error", [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space left"), ValueError("closed")]
)
def test_an_output_to_which_nothing_can_be_written_does_not_end_a_run(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(error))
    display = Plain(logs=True, every_s=0.0)
    display.warn(["something"])
    display.update(STATUS)
    display.log_lines(lines(1))
    display.close()
