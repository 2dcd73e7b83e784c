"""Many random faults over one search: it ends, and every trial, report and checkpoint is accounted for.

The faults come at records of the journal, so a seed has the same faults each time. ``ASYNCSEARCH_SEED=17`` repeats one:

    ASYNCSEARCH_SEED=17 bash scripts/test_faults.sh -n 0 -k storm
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study
from asyncsearch.actions import AddLane, Assign
from asyncsearch.journal.opening import read_records
from tests.faults.accounts import losses, require_accounted, say, tell, wasted
from tests.faults.storm import AT_VERDICTS, FIRST, schedule, schedule_at_verdicts
from tests.faults.tools import Search, require_kept
from tests.shares import IS_ALL, seeds
from tests.time_spent.accounts import records_of, require_sums

pytestmark = pytest.mark.slow

FAULTS, TRIALS = (200, 300) if IS_ALL else (10, 20)
LEVELS = [1, 3, 9]


def seed() -> int:
    """Return the seed of this run: a new one with ASYNCSEARCH_TESTS=all, else always the same."""
    given = os.environ.get("ASYNCSEARCH_SEED")
    return int(given) if given else random.SystemRandom().randrange(10**6) if IS_ALL else 1


def storm(folder: Path, trials: int = TRIALS, **order: Any) -> Study:
    """Run the script until it has ended well, as often as its driver is killed."""
    search = Search(folder, "tests.faults.storm")
    kills = 0
    while True:
        code, output = search.run(trials=trials, **order)
        if code == 0:
            break
        assert code == -signal.SIGKILL, output
        kills += 1
        assert kills == sum(b" driver " in line for line in search.lines("moments")), "only a fault may kill it"
        require_kept(search)
    require_kept(search)
    assert "best: 1\n" in output
    assert not search.files_left()
    return Study.open(search.study)


def test_a_seed_says_which_faults_come_at_which_records() -> None:
    assert schedule(7, 200, 300) == schedule(7, 200, 300) != schedule(8, 200, 300)
    records = [fault.record for fault in schedule(7, 200, 300)]
    assert records == sorted(set(records))
    assert records[0] >= FIRST
    assert {fault.kind for fault in schedule(7, 200, 300)} == {"runner", "agent", "driver", "cut", "down", "store"}


def test_a_search_in_a_storm_of_faults_accounts_for_every_trial(tmp_path: Path) -> None:
    chosen = seed()
    say(f"ASYNCSEARCH_SEED={chosen}: {FAULTS} faults over {TRIALS} trials")
    study = storm(tmp_path / "storm", seed=chosen, faults=FAULTS)
    require_accounted(study, range(1, TRIALS + 1), LEVELS)
    happened = (tmp_path / "storm" / "moments").read_text().splitlines()
    assert happened == [str(fault) for fault in schedule(chosen, FAULTS, TRIALS)], "each fault came, in its order"
    if IS_ALL:
        undisturbed = storm(tmp_path / "undisturbed")
        require_accounted(undisturbed, range(1, TRIALS + 1), LEVELS)
        tell(f"storm {chosen} of {FAULTS} faults", study, undisturbed)


@pytest.mark.parametrize("number", seeds(4))
@pytest.mark.parametrize("together", [{"pack": 4}, {"gang": 2}])
def test_packs_and_gangs_in_a_storm_account_for_every_trial(
    tmp_path: Path, together: dict[str, int], number: int
) -> None:
    study = storm(tmp_path, seed=number, faults=FAULTS, **together)
    require_accounted(study, range(1, TRIALS + 1), LEVELS)
    records = list(read_records(study.store))
    require_sums(study.time_spent(), records_of(records))
    actions = [action for record in records for action in record.actions]
    has_joined = any(isinstance(action, AddLane) for action in actions)
    is_of_two = all(len(action.work.followers) == 1 for action in actions if isinstance(action, Assign))
    assert (has_joined, is_of_two) == ("pack" in together, "gang" in together)
    say(f"{FAULTS} faults of {together}, {number}: {wasted(study)} units wasted, {len(losses(study))} workers lost")


@pytest.mark.parametrize("number", seeds(3, 3))
def test_faults_while_trials_wait_for_verdicts_lose_nothing(tmp_path: Path, number: int) -> None:
    faults, trials = (20, 40) if IS_ALL else (len(AT_VERDICTS), 12)
    study = storm(tmp_path, trials, seed=number, faults=faults, at_verdicts=True)
    require_accounted(study, range(trials, 0, -1), LEVELS)
    require_sums(study.time_spent(), records_of(read_records(study.store)))
    happened = (tmp_path / "moments").read_text().splitlines()
    assert happened == [str(fault) for fault in schedule_at_verdicts(number, faults, trials)]
    for trial in study.trials:
        values = [(unit, metrics["loss"]) for unit, metrics in study.history(trial)]
        assert values == [(unit, trial.params["x"] / unit) for unit in range(1, trial.resource + 1)]
    say(f"{faults} faults while trials wait, seed {number}: {wasted(study)} units wasted, {len(losses(study))} lost")
