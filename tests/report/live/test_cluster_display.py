"""What is shown of several studies that share one cluster."""

from __future__ import annotations

import io
import sys
import types

import msgspec
import pytest

from asyncsearch.report.live.cluster_display import cluster_display
from asyncsearch.report.live.lines import WIDTH
from asyncsearch.report.live.table import StudyRow, cluster_table
from tests.report.live.test_display import Cell, ZMQInteractiveShell
from tests.report.tools import full_counts, make_status

STATUS = make_status(counts=full_counts(running=1), num_trials=64, workers_wanted=1)
ROWS = [
    StudyRow("digits", 2, 3, STATUS),
    StudyRow("a study with a name that nobody would want to read", 0, 0),
    StudyRow("done", 0, 0, STATUS, is_running=False),
]


class Side:
    """Stands for a submitted study: one note, then nothing new."""

    def __init__(self, row: StudyRow) -> None:
        self._row, self._notes = row, [f"{row.name}: note: read this"]

    def lines(self) -> list[str]:
        return [*self.notes(), f"{self._row.name}: a line"]

    def notes(self) -> list[str]:
        return [self._notes.pop()] if self._notes else []

    def row(self) -> StudyRow:
        return self._row


def test_the_table_has_a_line_per_study_with_its_workers_and_its_share() -> None:
    lines = cluster_table(ROWS, 4).splitlines()
    assert lines[0] == "2 of 4 workers, 3 studies"
    assert lines[1].split() == ["study", "workers", "trials", "best"]
    assert lines[2].split()[:4] == ["digits", "2", "of", "3"]
    assert "of 64" in lines[2]
    assert lines[2].endswith("no accuracy yet")
    assert lines[3].rstrip().endswith("0 of 0   -")
    assert "ended" in lines[4]
    assert max(map(len, lines)) <= WIDTH


def test_the_table_says_how_many_workers_train_a_trial_of_a_study() -> None:
    rows = [StudyRow("large", 4, 6, msgspec.structs.replace(STATUS, workers_each=2))]
    assert " 4 of 6, 2 to a trial " in cluster_table(rows, 8)


def test_the_table_names_a_trial_that_has_more_workers_than_others() -> None:
    enlarged = msgspec.structs.replace(STATUS, enlarged=("trial-7 on 4", "trial-9 on 2"))
    assert " 6 of 6, trial-7 on 4 and others " in cluster_table([StudyRow("large", 6, 6, enlarged)], 8)


def test_elsewhere_each_line_names_its_study(capsys: pytest.CaptureFixture[str]) -> None:
    display = cluster_display("plain")
    display.say("note: for all")
    display.show([Side(row) for row in ROWS[:1]], 4)
    assert capsys.readouterr().out.splitlines() == ["note: for all", "digits: note: read this", "digits: a line"]


def test_none_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = cluster_display("none")
    display.say("note: for all")
    display.show([Side(row) for row in ROWS], 4)
    assert capsys.readouterr().out == ""


def test_a_terminal_has_one_table_in_place_and_notes_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm")
    display = cluster_display("auto")
    sides = [Side(row) for row in ROWS]
    display.show(sides, 4)
    once = out.getvalue()
    assert once.startswith("digits: note: read this\n")
    assert once.endswith(cluster_table(ROWS, 4) + "\n")
    display.show(sides, 4)
    assert out.getvalue() == once, "nothing has changed"
    display.show([Side(ROWS[0])], 4)
    assert f"\x1b[{len(ROWS) + 2}A\x1b[J" in out.getvalue()


def test_a_notebook_updates_one_output(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell()
    shell = types.SimpleNamespace(get_ipython=ZMQInteractiveShell, display=types.SimpleNamespace(display=cell))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    display = cluster_display("auto")
    display.show([Side(ROWS[0])], 4)
    display.show([Side(ROWS[2])], 4)
    assert len(cell.shown) == 1
    assert cell.shown[0]["text/plain"] == cluster_table(ROWS[2:], 4)
