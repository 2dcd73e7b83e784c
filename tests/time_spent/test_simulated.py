"""Accounts of random simulated searches: exact sums, and what a virtual cluster knows of itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asyncsearch.actions import Assign, lanes_given
from asyncsearch.engine.config import search_config
from asyncsearch.engine.state import StudyState
from asyncsearch.events import CheckpointCommitted, Reported
from asyncsearch.ids import WorkerId
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate import Chance, Curves, Delays, Faults, Loss, Simulation, TrainingModel
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space, uniform
from asyncsearch.time_spent.reading import TimeReader, time_spent
from tests.time_spent.accounts import Records, require_sums

SCHEDULERS: tuple[Scheduler, ...] = (
    ASHA(max_resource=9),
    ASHA(max_resource=9, variant="stopping"),
    SHA(max_resource=9),
    Hyperband(max_resource=9),
    MedianStopping(max_resource=9),
    PBT(population=4, perturbation_interval=3, max_resource=9),
    FIFO(max_resource=5),
)
SPACE = Space({"x": uniform(0.0, 1.0)})


def simulated(scheduler: Scheduler, trials: int = 12, workers: int = 3, **options: Any) -> Records:
    """Return the records of a simulated search."""
    packing, gang = options.pop("packing", None), options.pop("gang", None)
    config = search_config(SPACE, scheduler, share=None, study="a", metric="loss", mode="min", max_relaunches=10**9)
    begun = RandomSearch().begin(SPACE, 0), scheduler.begin(SPACE, 0)
    state = StudyState(config, *begun, scheduler.max_resource, packing, gang)
    found: list[Any] = []
    options.setdefault("workload", Curves(seed=1, unit_s=1.0))
    watch = lambda *record: found.append(record)  # noqa: E731
    simulation = Simulation(state, options.pop("workload"), workers=workers, watch=watch, **options)
    assert simulation.run(trials) is not None
    return found


@pytest.mark.parametrize("seed", range(21))
def test_each_millisecond_of_each_worker_is_counted_once(seed: int) -> None:
    draw = random.Random(seed)
    workers = draw.randrange(1, 7)
    kind = draw.choice(["alone", "alone", "pack", "gang"])
    records = simulated(
        SCHEDULERS[seed % len(SCHEDULERS)],
        trials=draw.randrange(4, 20),
        workers=max(2, workers) if kind == "gang" else workers,
        workload=Curves(seed=seed, unit_s=draw.choice([0.0013, 0.7, 90.0]), spread=draw.choice([0.0, 1.0])),
        delays=Delays(**{name: draw.choice([0.0, draw.random()]) for name in Delays.__struct_fields__}),
        faults=Faults(
            losses=[Loss(worker=WorkerId(0), at_s=9 * draw.random())] if draw.random() < 0.5 else [],
            chance=Chance(drop=draw.choice([0.0, 0.02]), spread=draw.choice([0.0, 0.5]), seed=seed),
            max_losses=100,
        ),
        training=TrainingModel(pack_speedup={1: 1.0, 4: 3.0}),
        packing=Packing(3) if kind == "pack" else None,
        gang=Gang(2) if kind == "gang" else None,
    )
    require_sums(time_spent(records), records)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda one: type(one).__name__)
def test_it_is_what_the_virtual_cluster_did(scheduler: Scheduler) -> None:
    delays = Delays(start_s=3.0, setup_s=0.5, load_s=0.25, save_s=0.125, message_s=0.01)
    records = simulated(scheduler, delays=delays)
    found = time_spent(records).total
    lanes = [given.lane for _, _, actions in records for one in actions for given in lanes_given(one)]
    commits = sum(isinstance(event, CheckpointCommitted) for _, event, _ in records)
    reports = sum(isinstance(event, Reported) for _, event, _ in records)
    assert found.starting == 3 * 3000
    assert found.entering == 500 * len(lanes)
    assert found.loading == 250 * sum(lane.load is not None for lane in lanes)
    assert found.saving == 125 * commits
    assert found.training + found.in_vain == pytest.approx(1000 * reports, abs=40 * len(lanes))
    assert not found.unmeasured


def test_a_lost_worker_trained_in_vain_since_its_last_checkpoint() -> None:
    delays = Delays(detect_s=2.0)
    faults = Faults(losses=[Loss(worker=WorkerId(0), at_s=7.5)])
    records = simulated(FIFO(max_resource=10), trials=1, workers=1, delays=delays, faults=faults)
    found = time_spent(records).total
    assert found.in_vain == 7500 + 2000, "nothing was saved; until the driver knew, it was taken to train"
    assert found.training == 10_000


def test_a_resumed_study_adds_up_over_its_runs() -> None:
    first, second = simulated(FIFO(max_resource=3)), simulated(FIFO(max_resource=3), workers=2)
    later = [(t + 1e6, event, actions) for t, event, actions in second]
    one, other, both = (time_spent(records).total.total for records in (first, second, [*first, *later]))
    assert both == one + other


def test_a_reader_in_the_middle_of_a_run_knows_what_was_told() -> None:
    records = simulated(FIFO(max_resource=4), trials=2, workers=1)
    cut = next(n for n, (_, event, _) in enumerate(records) if isinstance(event, Reported) and event.resource == 2)
    reader = TimeReader()
    for record in records[: cut + 1]:
        reader.add(*record)
    found = reader.result()
    assert (found.total.training, found.total.in_vain, found.total.unmeasured) == (2000, 0, 0)


def test_a_journal_without_measurements_says_so() -> None:
    records = [
        (t, _unmeasured(event), actions)
        for t, event, actions in simulated(ASHA(max_resource=9), delays=Delays(start_s=3.0))
    ]
    found = time_spent(records)
    require_sums(found, records)
    assert found.total.training == 0
    assert found.total.unmeasured > 0
    assert found.total.starting == 9000


def test_a_second_of_a_pack_is_divided_among_its_lanes() -> None:
    records = simulated(FIFO(max_resource=4), trials=3, workers=1, packing=Packing(3))
    assert sum(isinstance(action, Assign) for _, _, actions in records for action in actions) == 1
    found = time_spent(records)
    assert found.total.training == 12_000
    assert {one.training for one in found.by_trial.values()} == {4000}


def test_a_second_of_a_gang_counts_for_each_of_its_workers() -> None:
    records = simulated(FIFO(max_resource=4), trials=1, workers=2, gang=Gang(2))
    found = time_spent(records)
    assert {one.training for one in found.by_worker.values()} == {2000}, "2 workers are twice as fast"
    assert [one.training for one in found.by_trial.values()] == [4000]


def _unmeasured(event: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(event, spent=msgspec.UNSET) if hasattr(event, "spent") else event
