"""A worker that died comes back while strangers take all connections that they can get, and its slot is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 300


def test_a_lost_worker_is_replaced_while_strangers_hold_all_they_can(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.security.under_flood", str(tmp_path), str(LIMIT)]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert (found["trials"], found["failed"], found["best"]) == (9, 0, {"x": 1})
    assert (found["lost"], found["attached"]) == (1, [1, 2])
    assert found["descriptors_most"] < LIMIT
    [loss] = ended.stderr.splitlines()
    assert loss.startswith("worker-0 was lost: "), "strangers wrote into the driver's output"
