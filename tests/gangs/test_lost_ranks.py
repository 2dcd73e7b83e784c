"""A rank that is lost at any moment costs its trial what it trained since its last checkpoint, and others nothing.

``scripts/test_faults.sh`` kills at all moments, the test command at a quarter of them.
"""

from __future__ import annotations

import random
from pathlib import Path

import psutil
import pytest

from asyncsearch import Gang
from asyncsearch.actions import Assign
from asyncsearch.journal.opening import read_records
from tests.faults.shares import IS_ALL
from tests.gangs.searches import UNITS, grid, killing, linear, results

PLACES = ("begin", "step", "end")
TRIALS = 10


def moments(seed: int, count: int, ranks: int = 2) -> set[tuple[int, int, int, str]]:
    """Return moments of a search, two of a trial at most: three in a row would be held against it."""
    chance = random.Random(seed)
    places = [(number, 1 + 2 * half) for number in range(TRIALS) for half in range(2)]
    chosen = chance.sample(places, count)
    return {
        (number, first + chance.randrange(2), chance.randrange(ranks), chance.choice(PLACES))
        for number, first in chosen
    }


@pytest.mark.slow
@pytest.mark.parametrize("agent", [False, True], ids=["process", "worker"])
def test_ranks_that_are_killed_at_seeded_moments_cost_no_trial_its_results(tmp_path: Path, agent: bool) -> None:
    expected = results(grid(linear(), tmp_path / "alone", None, TRIALS).run(parallelism=1, display="none"))
    (tmp_path / "killed").mkdir()
    planned = moments(seed=16, count=(6 if agent else 20) // (1 if IS_ALL else 4))
    happen = killing(tmp_path / "killed", planned, agent=agent)
    study = grid(linear(happen), tmp_path / "s", 2, TRIALS, save_every=1).run(parallelism=4, display="none")
    assert len(list((tmp_path / "killed").iterdir())) == len(planned)
    assert [trial.failures for trial in study.trials] == [0] * TRIALS
    for (units, loss), (_, alone) in zip(results(study), expected, strict=True):
        assert units == UNITS
        assert loss == pytest.approx(alone, abs=1e-12, rel=1e-9)
    assert not psutil.Process().children(recursive=True), "a process is left"


@pytest.mark.slow
def test_a_trial_goes_on_with_fewer_workers_while_a_lost_one_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    happen = killing(tmp_path / "killed", {(0, 2, 1, "step")}, agent=True)
    study = grid(linear(happen), tmp_path / "s", Gang(2, min_size=1), 1, save_every=1)
    study.run(parallelism=2, display="none")
    work = [one.work for record in read_records(study.store) for one in record.actions if isinstance(one, Assign)]
    assert [1 + len(one.followers) for one in work] == [2, 1]
    assert results(study)[0][0] == UNITS
