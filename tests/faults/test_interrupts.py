"""Ctrl-C at seeded moments of a run, once or twice: it ends in order, and the same command goes on.

A failing seed is repeated by its number: ``pytest tests/faults/test_interrupts.py -k 'seed4]'``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.faults.moments import draw
from tests.faults.tools import Search, counts, require_kept, require_whole
from tests.shares import OF_SEARCHES, seeds

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", seeds(20, OF_SEARCHES), ids="seed{}".format)
def test_ctrl_c_at_any_moment_keeps_what_was_acknowledged_and_cleans_up(tmp_path: Path, seed: int) -> None:
    chance, search = random.Random(f"interrupts {seed}"), Search(tmp_path)
    moments = [draw(chance, counts()) for _ in range(chance.choice((1, 1, 2)))]
    sys.stdout.write(f"seed {seed}: Ctrl-C at {', '.join(map(str, moments))}\n")
    code, output = search.run(interrupts=[str(moment) for moment in moments])
    assert code != 0, output
    assert "KeyboardInterrupt" in output
    require_kept(search)
    assert not search.files_left(), "Ctrl-C removes what the run needed for itself"
    search.finish()
    study = require_whole(search)
    assert all(trial.failures == 0 for trial in study.trials)
