"""Whole searches on a virtual clock, with the engine as it is."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch import PBT, Study, choice, loguniform
from asyncsearch.actions import Promote
from asyncsearch.engine.invariants import check
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Curves, Delays, Faults, Loss, Simulation, simulate
from asyncsearch.trial import TrialState
from tests.engine.tools import make_state, record, results


def test_five_hundred_workers_search_two_thousand_trials_to_the_end() -> None:
    state = make_state(ASHA(max_resource=81))
    simulation = Simulation(state, Curves(seed=2, spread=0.5), workers=500, delays=Delays(start_s=5.0, commit_s=0.1))
    end = simulation.run(2_000)
    assert end is not None
    assert end.is_complete
    check(state)
    reached = Counter(trial.target for trial in state.trials)
    assert len(state.trials) == 2_000
    assert all(reached[level] > 0 for level in (1, 3, 9, 27, 81))
    assert simulation.busy_s > 20 * simulation.clock.now, "many workers trained at a time"


def test_equal_seeds_and_event_orders_give_equal_searches_to_the_byte() -> None:
    first, second = (record(make_state(ASHA(max_resource=9)), 30, 7) for _ in range(2))
    assert first.lines == second.lines


def test_another_seed_gives_another_search() -> None:
    first, second = (record(make_state(ASHA(max_resource=9), seed=seed), 10, 2) for seed in (1, 2))
    assert first.lines != second.lines


def test_lost_workers_cost_no_trial() -> None:
    quiet = record(make_state(FIFO(max_resource=6)), 12, 3)
    losses = [Loss(WorkerId(worker), at_s, 2.0) for worker, at_s in itertools.product(range(3), (4.0, 11.0, 17.0))]
    noisy = record(make_state(FIFO(max_resource=6)), 12, 3, faults=Faults(losses=losses), delays=Delays(detect_s=0.5))
    assert results(quiet.state) == results(noisy.state)
    assert sum(trial.losses for trial in noisy.state.trials) > 0


def test_a_lost_worker_costs_at_most_its_training_since_its_checkpoint() -> None:
    losses = [Loss(WorkerId(0), 30.0, 1.0)]
    noisy = record(make_state(SHA(max_resource=27)), 27, 2, faults=Faults(losses=losses))
    for trial in noisy.state.trials:
        assert trial.trained - trial.resource <= (18 if trial.losses else 0)


def test_delays_of_messages_lose_and_double_nothing() -> None:
    delayed = record(
        make_state(ASHA(max_resource=9)), 20, 4, delays=Delays(start_s=0.5, message_s=0.3, commit_s=0.7, detect_s=0.9)
    )
    assert all(trial.state in (TrialState.PAUSED, TrialState.COMPLETED) for trial in delayed.state.trials)
    promotions = [
        (a.trial, a.from_resource) for _, _, actions in delayed.steps for a in actions if isinstance(a, Promote)
    ]
    assert len(promotions) == len(set(promotions))


def test_synchronous_halving_promotes_exactly_its_quota() -> None:
    recorded = record(make_state(SHA(max_resource=27)), 27, 5)
    promoted = Counter(a.from_resource for _, _, actions in recorded.steps for a in actions if isinstance(a, Promote))
    assert promoted == {1: 9, 3: 3, 9: 1}


def test_a_failed_trial_is_retried_and_then_counts_as_worst_of_its_rung() -> None:
    state = make_state(ASHA(max_resource=9), max_failures=0)
    recorded = record(state, 9, 2, faults=Faults(failures={TrialId(0): 1, TrialId(1): 1}))
    assert [trial.state for trial in recorded.state.trials[:2]] == [TrialState.FAILED] * 2
    promoted = [a for _, _, actions in recorded.steps for a in actions if isinstance(a, Promote)]
    assert sum(1 for a in promoted if a.from_resource == 1) >= 2


SPACES: dict[str, Any] = {
    "numbers": {"lr": loguniform(1e-3, 1.0)},
    "few values": {"lr": choice(0.1, 0.2), "width": choice(8, 16)},
    "sequences and numbers": {"lr": loguniform(1e-3, 1.0), "decay": multistep(0.1, milestones=choice([1], [2]))},
}
SCHEDULERS = [
    FIFO(max_resource=4),
    ASHA(max_resource=4, reduction_factor=2),
    PBT(max_resource=4, perturbation_interval=1, population=4),
]
OWN_TO_EACH = ("study", "can_evaluate", "can_save", "max_losses", "max_relaunches")
"""Fields that do not follow from the search: names, the trainable, and how often workers may be lost."""


def train(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.touch(), load=lambda path: None):
        trial.report(loss=0.0)


@pytest.mark.parametrize("share", [None, False])
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: type(scheduler).__name__)
@pytest.mark.parametrize("space", SPACES)
def test_a_study_and_a_simulation_build_the_same_engine_configuration(
    space: str, scheduler: Scheduler, share: bool | None, tmp_path: Path
) -> None:
    common: dict[str, Any] = {
        "space": SPACES[space],
        "scheduler": scheduler,
        "metric": "loss",
        "mode": "min",
        "seed": 3,
    }
    real = Study(train, store=tmp_path / "s", share=share is None, **common).config
    simulated = simulate(Curves(seed=1), num_trials=4, share=share, **common).state.config
    differing = [
        name
        for name, value in msgspec.structs.asdict(real).items()
        if value != getattr(simulated, name) and name not in OWN_TO_EACH
    ]
    assert differing == []
