"""A packed search decides as an unpacked one does to which the same happens in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from asyncsearch.actions import AnyAction, CreateTrial, MoveTrial, Promote, lanes_given
from asyncsearch.engine.handling import handle
from asyncsearch.engine.invariants import check
from asyncsearch.engine.pool import Pool
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, RunRequested, WorkerAttached
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.report.live.status_of import status_of
from asyncsearch.schedulers import ASHA, FIFO, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Delays, Simulation, TrainingModel
from asyncsearch.sizing.packing import KnownPacks
from asyncsearch.work import Lane
from tests.engine.test_joins import Even
from tests.engine.tools import packed_state, record, results

TRIALS, WORKERS, LANES = 40, 3, 4


class PromptedPool(Pool):
    """Its workers are free for a number of works only, that of the lanes which the packed search gave."""

    left = 0

    def first_idle(self) -> WorkerId | None:
        return super().first_idle() if self.left else None

    def occupy(self, *args: Any, **options: Any) -> None:
        super().occupy(*args, **options)
        self.left -= 1


class Alone:
    """Hands an unpacked search what happened to the lanes of a packed one, each of them on a worker of its own."""

    def __init__(self, state: StudyState) -> None:
        self.state = state
        self.pool = state.pool = PromptedPool()
        self.leases: dict[tuple[Lease, int], Lease] = {}
        """Lease and number of a lane -> its lease here."""

    def happened(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> list[AnyAction]:
        """Tell what happened to the packed search, which took these actions, and return the actions of this one."""
        *first, last = self.here(event)
        for one in first:
            handle(self.state, one, now)
        given = [one for action in actions for one in lanes_given(action)]
        self.pool.left = len(given)
        decided = list(handle(self.state, last, now))
        check(self.state)
        mine = {work_of(one.lane): one.lease for action in decided for one in lanes_given(action)}
        assert set(mine) == {work_of(one.lane) for one in given}
        self.leases |= {(one.lease, one.number): mine[work_of(one.lane)] for one in given}
        return decided

    def here(self, event: Any) -> list[AnyEvent]:
        """Return the same event as it happens here."""
        if isinstance(event, RunRequested):
            return [msgspec.structs.replace(event, parallelism=WORKERS * LANES)]
        if isinstance(event, WorkerAttached):
            return [WorkerAttached(WorkerId(event.worker * LANES + lane), 1) for lane in range(LANES)]
        if hasattr(event, "lease"):
            return [msgspec.structs.replace(event, lease=self.leases[event.lease, event.lane], lane=0)]
        return [event]


def work_of(lane: Lane) -> tuple[Any, ...]:
    """Return what a lane trains, and from where."""
    return lane.load, tuple((stage.node, stage.trials, stage.start, stage.stop) for stage in lane.stages)


def decisions(actions: Sequence[AnyAction]) -> list[AnyAction]:
    """Return what was decided about trials."""
    return [action for action in actions if isinstance(action, CreateTrial | Promote | MoveTrial)]


@pytest.mark.parametrize("commit_s", [0.0, 0.7])
@pytest.mark.parametrize(
    "scheduler",
    [
        pytest.param(ASHA(max_resource=27), id="asha"),
        pytest.param(ASHA(max_resource=27, variant="stopping"), id="stopping"),
        pytest.param(Hyperband(max_resource=27), id="hyperband"),
    ],
)
def test_a_packed_search_decides_as_an_unpacked_one_of_equal_event_order(scheduler: Scheduler, commit_s: float) -> None:
    packed = record(packed_state(scheduler, LANES), TRIALS, WORKERS, delays=Delays(commit_s=commit_s))
    alone = Alone(packed_state(scheduler, None))
    for now, event, actions in packed.steps:
        assert decisions(alone.happened(now, event, actions)) == decisions(actions)
    assert results(alone.state) == results(packed.state)
    assert max(number for _, number in alone.leases) >= LANES - 1, "some trained together"


def packed_words(scheduler: Scheduler, trials: int, speedup: float) -> str:
    """Return what is shown of packs in a search of units of a second on one worker."""
    state = packed_state(scheduler)
    training = TrainingModel(pack_speedup={2: speedup, 4: speedup})
    assert Simulation(state, Even(), workers=1, training=training).run(trials) is not None
    return status_of(state).packed


def test_a_number_of_trials_saves_what_units_of_trials_alone_took_longer() -> None:
    assert packed_words(FIFO(max_resource=9), 5, speedup=4.0).endswith("saved about 27 s of training, as measured")
    assert "that took about 36 s longer than training alone" in packed_words(FIFO(max_resource=9), 5, speedup=0.5)


def test_what_packs_saved_is_not_measured_where_no_trial_trained_alone() -> None:
    words = packed_words(FIFO(max_resource=9), 4, speedup=4.0)
    assert "36 units trained in packs of up to 4; what that saved was not measured" in words
    assert 'pack="auto" measures it' in words


def test_an_asynchronous_search_of_packs_knows_about_what_it_saved() -> None:
    assert "that saved about" in packed_words(ASHA(max_resource=9), 40, speedup=4.0)


def test_times_that_a_pack_measured_count_before_those_that_were_observed() -> None:
    known = KnownPacks(seconds={1: 2.0, 2: 2.0}, units={2: 10}, observed={1: (9.0, 1), 2: (9.0, 1)})
    assert known.saved_s == pytest.approx(10.0)


def test_a_structure_that_only_trained_alone_counts_as_none_packed() -> None:
    known = KnownPacks()
    known.observe(1, 2.0, 3)
    assert (known.saved_s, known.has_been_packed) == (None, False)
