"""A rank that is lost at any moment costs its trial what it trained since its last checkpoint, and others nothing.

``scripts/test_faults.sh`` kills at all moments, the test command at one.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from asyncsearch import Gang, Study
from asyncsearch.actions import Assign
from asyncsearch.journal.opening import read_records
from tests.faults.accounts import say
from tests.gangs.searches import NUMBERS, grid, killing, linear, require_lines
from tests.gangs.watching import LONGEST_S, Watch, nothing_left
from tests.shares import IS_ALL, takes_long

PLACES = ("begin", "sum", "step", "end")
Moments = set[tuple[int, int, int, str]]


def moments(seed: int, count: int, ranks: int = 2) -> Moments:
    """Return moments of a search, each of which costs one loss.

    A trial has two at most, since three in a row would be held against it. None is at the end of an even unit: in the
    last one the other ranks may have ended, and in the second one they may have come to the next moment.
    """
    chance = random.Random(seed)
    halves = [(number, 1 + 2 * half) for number in range(NUMBERS) for half in range(2)]
    units = [(number, first + chance.randrange(2)) for number, first in chance.sample(halves, count)]
    return {
        (number, unit, chance.randrange(ranks), chance.choice(PLACES if unit % 2 else PLACES[:-1]))
        for number, unit in units
    }


def require_lost(tmp_path: Path, alone: Study, planned: Moments, size: int, *, agent: bool = False) -> None:
    """Run a search whose ranks are killed at moments, two gangs of 2 or one of 4 at once, and require the laws."""
    watch = Watch(tmp_path / "watch")
    (tmp_path / "killed").mkdir()
    happen = watch.killing(tmp_path / "killed", planned, agent=agent)
    trials = NUMBERS if IS_ALL else 1 + max(number for number, *_ in planned)
    study = grid(linear(happen), tmp_path / "s", size, trials, save_every=1)
    with nothing_left(str(tmp_path)), watch.following() as outlived:
        study.run(parallelism=4, display="none")
    require_lines(study, alone)
    lost = Counter(number for number, *_ in planned)
    assert [trial.losses for trial in study.trials] == [lost[number] for number in range(trials)]
    assert [trial.failures for trial in study.trials] == [0] * trials
    assert outlived.keys() == {"-".join(map(str, moment)) for moment in planned}
    assert max(outlived.values()) < LONGEST_S, outlived
    say(f"{len(planned)} ranks of {size} lost: the others of their gangs lived on for {max(outlived.values()):.2f} s")


@takes_long  # the next test kills one of four
@pytest.mark.slow
@pytest.mark.parametrize("agent", [False, True], ids=["process", "worker"])
def test_ranks_that_are_killed_at_seeded_moments_cost_no_trial_its_results(
    tmp_path: Path, line_alone: Study, agent: bool
) -> None:
    require_lost(tmp_path, line_alone, moments(seed=16, count=20), 2, agent=agent)


@takes_long
@pytest.mark.slow
def test_ranks_that_gloo_leaves_unnotified_do_not_outlive_a_distant_one(tmp_path: Path, line_alone: Study) -> None:
    require_lost(tmp_path, line_alone, moments(seed=4, count=8, ranks=4), 4)


@pytest.mark.slow
def test_a_trial_goes_on_with_fewer_workers_while_a_lost_one_is_replaced(tmp_path: Path, line_alone: Study) -> None:
    (tmp_path / "killed").mkdir()
    happen = killing(tmp_path / "killed", {(0, 2, 1, "step")}, agent=True)
    study = grid(linear(happen), tmp_path / "s", Gang(2, min_size=1), 1, save_every=1)
    study.run(parallelism=2, display="none")
    work = [one.work for record in read_records(study.store) for one in record.actions if isinstance(one, Assign)]
    assert [1 + len(one.followers) for one in work] == [2, 1]
    require_lines(study, line_alone)
