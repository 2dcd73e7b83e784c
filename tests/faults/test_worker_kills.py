"""Runners and agents killed at seeded moments, several in each search, which goes on meanwhile.

A failing seed is repeated by its number: ``pytest tests/faults/test_worker_kills.py -k 'runners and seed4]'``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.faults.counts import counted
from tests.faults.moments import WHEN
from tests.faults.places import PLACES, Places
from tests.faults.tools import Search, require_whole
from tests.shares import OF_SEARCHES, seeds

pytestmark = pytest.mark.slow

KILLS = 3
"""In each search: a trial whose worker is lost more often than that fails."""
CALLS_OF_AN_AGENT = ("open", "write", "fsync", "mkdir", "rename")
OFTEN = 5
"""How often at least an agent makes each of these calls."""


def victims(chance: random.Random, who: str, count: int) -> list[dict[str, object]]:
    """Draw different places, each counted over the whole search."""
    places = [(place, number) for place, times in PLACES.items() for number in range(1, times + 1)]
    return [{"who": who, "place": place, "number": number} for place, number in chance.sample(places, count)]


def require_deaths(search: Search, count: int) -> None:
    assert Places(str(search.folder), []).deaths() == count, "the search did not come by so often"


@counted(kills=KILLS)
@pytest.mark.parametrize("seed", seeds(7, OF_SEARCHES), ids="seed{}".format)
def test_a_search_whose_runners_are_killed_loses_nothing_and_ends_alike(tmp_path: Path, seed: int) -> None:
    search, chosen = Search(tmp_path), victims(random.Random(f"runners {seed}"), "runner", KILLS)
    sys.stdout.write(f"seed {seed}: {chosen}\n")
    code, output = search.run(victims=chosen)
    assert code == 0, output
    require_deaths(search, KILLS)
    study = require_whole(search)
    assert sum(trial.losses for trial in study.trials) == KILLS, "each death is counted once, at one trial"
    assert all(trial.failures == 0 for trial in study.trials)


@counted(kills=KILLS)
@pytest.mark.parametrize("seed", seeds(7, OF_SEARCHES), ids="seed{}".format)
def test_a_search_with_killed_agents_loses_nothing_and_charges_no_trial(tmp_path: Path, seed: int) -> None:
    chance, search = random.Random(f"agents {seed}"), Search(tmp_path)
    chosen = victims(chance, "agent", KILLS - 1)
    call = chance.choice(CALLS_OF_AN_AGENT)
    moment = f"{call}:{chance.randint(1, OFTEN)}:{chance.choice(WHEN if call == 'write' else WHEN[::2])}"
    sys.stdout.write(f"seed {seed}: {chosen}, and an agent at {moment}\n")
    code, output = search.run(victims=chosen, kill_agent=moment)
    assert code == 0, output
    require_deaths(search, KILLS)
    study = require_whole(search)
    assert all(trial.failures == 0 for trial in study.trials)
