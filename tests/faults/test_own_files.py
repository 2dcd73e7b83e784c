"""What a trial leaves where it saves is its own doing: at most that trial fails, in words, and the search goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.counts import counted
from tests.faults.own_files import DOINGS, STRANGE, TRIALS
from tests.faults.tools import REPOSITORY
from tests.shares import IS_ALL, takes_long
from tests.system.tools import PATIENCE_S

WHERE = ("save", "dir", "around")
"""In what ``save`` writes, in ``trial.dir``, and in the folder that ``save`` writes to."""
EVERY = [(doing, where, is_far) for doing in DOINGS for where in WHERE for is_far in (False, True)]
EVERY = [case for number, case in enumerate(EVERY) if number // 2 % 2 == number % 2]
"""Each doing and place, by turns in a store on a disk and in a far one."""
SOME = EVERY if IS_ALL else EVERY[::7]


def run(tmp_path: Path, **order: object) -> tuple[list[tuple[int, str, str]], str]:
    """Run the search twice, and return the end of each trial, and the output."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    file = tmp_path / "order.json"
    file.write_text(json.dumps(order))
    command = [sys.executable, "-m", "tests.faults.own_files", str(file)]
    environment = os.environ | {"TMPDIR": str(scratch)}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@counted(damages=1)
@pytest.mark.parametrize(("doing", "where", "is_far"), SOME)
def test_what_one_trial_leaves_costs_at_most_that_trial(tmp_path: Path, doing: str, where: str, is_far: bool) -> None:
    found, _ = run(tmp_path, doing=doing, where=where, store=f"{tmp_path}/store", is_far=is_far, backend="inline")
    assert [x for x, _, _ in found] == list(range(TRIALS))
    assert {state for x, state, _ in found if x != STRANGE} == {"COMPLETED"}
    _, state, reason = found[STRANGE]
    assert state in ("COMPLETED", "FAILED")
    assert state == "COMPLETED" or (len(reason.split()) > 5 and "Traceback" not in reason), reason
    left = [path for top in ("tmp", "store/tmp") for path, _, files in os.walk(tmp_path / top) if files]
    assert left == [], "a leftover stays"


@counted(damages=1)
@takes_long
@pytest.mark.parametrize("where", WHERE[:2])
@pytest.mark.parametrize("doing", ["deep", "closed_file", "folder_replaced_by_a_link", "pipe"])
def test_so_it_does_where_workers_are_processes(tmp_path: Path, doing: str, where: str) -> None:
    found, _ = run(tmp_path, doing=doing, where=where, store=f"{tmp_path}/store", is_far=True, backend="processes")
    assert {state for x, state, _ in found if x != STRANGE} == {"COMPLETED"}
