"""Virtual workers that give their slots back while they have no use: what is searched, and what is saved."""

from __future__ import annotations

import math
from typing import Any

import pytest

from asyncsearch.actions import CreateTrial, LaunchWorker, MoveTrial, Promote
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Curves, Delays, Simulation, simulate
from asyncsearch.trial import Params
from tests.engine.tools import Recorded, make_state

SEARCHES = [
    (ASHA(max_resource=27), 20),
    (SHA(max_resource=27, bracket_size=27), 40),
    (Hyperband(max_resource=27, variant="synchronous"), 40),
]
"""Schedulers, each with so many workers that all that could begin does: of more, caches would decide what is first."""


class Uneven(Curves):
    """Trials of which no two end a unit at once: else the order of launches would decide which is first."""

    def seconds(self, trial: TrialId, params: Params) -> float:
        return 1.0 + math.sqrt(trial + 2.0) % 1.0


def searched(scheduler: Scheduler, workers: int, delays: Delays) -> tuple[list[Any], int]:
    """Return what a search decided about trials, and how many workers it launched."""
    recorded = Recorded(make_state(scheduler))
    search = Simulation(recorded.state, Uneven(seed=3), workers=workers, delays=delays, watch=recorded)
    search.run(40)
    actions = [action for _, _, decided in recorded.steps for action in decided]
    told = [action for action in actions if isinstance(action, CreateTrial | MoveTrial | Promote)]
    return told, sum(isinstance(action, LaunchWorker) for action in actions)


@pytest.mark.parametrize(("scheduler", "workers"), SEARCHES)
def test_with_starts_that_take_no_time_the_search_is_the_same(scheduler: Scheduler, workers: int) -> None:
    kept, launches = searched(scheduler, workers, Delays())
    released, more = searched(scheduler, workers, Delays(release_idle_s=0.5))
    assert released == kept
    assert launches == workers < more


def test_slots_are_held_for_less_and_the_end_is_late_by_a_few_starts() -> None:
    options: dict[str, Any] = {"scheduler": SHA(max_resource=81, bracket_size=81), "workers": 27, "num_trials": 81}
    kept = simulate(Curves(seed=1, unit_s=10.0), **options, delays=Delays(start_s=20.0))
    released = simulate(Curves(seed=1, unit_s=10.0), **options, delays=Delays(start_s=20.0, release_idle_s=10.0))
    assert released.held_s < 0.8 * kept.held_s
    assert released.wall_s <= kept.wall_s + 4 * 20.0
    assert kept.held_s == kept.workers * kept.wall_s
