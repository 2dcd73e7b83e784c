"""A search in a cgroup whose memory runs out: the kernel kills the trial's process, and the trial is charged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from asyncsearch import Study
from asyncsearch.trial import TrialState
from tests.agent.conftest import MIB

LIMIT = 400 * MIB
SCRIPT = """\
import os, sys
from pathlib import Path

Path(sys.argv[2], "cgroup.procs").write_text(str(os.getpid()))

from asyncsearch import GridSearch, Study, choice

def train(trial):
    trial.report(x=1)
    if trial.params["x"] == 1:
        kept = [bytearray(b"x" * 2**20) for _ in range(1000)]
    return 2.0

space = {"x": choice(1, 2)}
study = Study(train, space=space, metric="x", mode="max", searcher=GridSearch(), store=sys.argv[1], backend="processes")
study.run(parallelism=1, display="plain")
"""


def test_a_trial_that_uses_up_the_memory_of_its_cgroup_is_charged_with_it(tmp_path: Path, cgroup: Path) -> None:
    for name in ("memory.limit_in_bytes", "memory.max"):
        if (cgroup / name).exists():
            (cgroup / name).write_text(str(LIMIT))
    (tmp_path / "search.py").write_text(SCRIPT)
    command = [sys.executable, "search.py", str(tmp_path / "study"), str(cgroup)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    hungry, modest = Study.open(tmp_path / "study").trials
    assert (hungry.state, hungry.failures, hungry.losses) == (TrialState.FAILED, 1, 0)
    assert "The kernel killed the trial's process because memory ran out: it held " in hungry.reason
    assert "all processes of its cgroup may hold 400 MiB" in hungry.reason
    assert modest.state is TrialState.COMPLETED
    assert "lost a process" not in done.stdout
