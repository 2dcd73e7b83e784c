"""The driver killed at seeded moments, twice in each study: before, within and after its calls, and while it opens it.

Each seed is two kills. A failing seed is repeated by its number:
``pytest tests/faults/test_driver_kills.py -k 'seed4]'``.
"""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import pytest

from tests.faults.counts import counted
from tests.faults.moments import draw
from tests.faults.tools import Search, counts, require_kept, require_whole
from tests.shares import OF_SEARCHES, seeds

pytestmark = pytest.mark.slow

OPENING = 0.4
"""The share of a search's calls within which the driver that goes on is killed: it may have little left to do."""


@counted(kills=2)
@pytest.mark.parametrize("seed", seeds(15, OF_SEARCHES), ids="seed{}".format)
def test_a_driver_killed_at_any_moment_keeps_all_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    chance, search = random.Random(f"driver {seed}"), Search(tmp_path)
    for share in (1.0, OPENING):
        moment = draw(chance, counts(), share)
        sys.stdout.write(f"seed {seed}: the driver is killed at {moment}\n")
        code, output = search.run(kill=str(moment))
        assert code == -signal.SIGKILL, output
        require_kept(search)
    search.finish()
    study = require_whole(search)
    assert all(trial.failures == 0 for trial in study.trials), "no trial is charged for its driver"
