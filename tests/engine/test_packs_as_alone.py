"""A packed search decides as an unpacked one; mates are alike, and saved as if alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AnyAction, Assign, CreateTrial, MoveTrial, Promote, lanes_given
from asyncsearch.engine import snapshot
from asyncsearch.engine.applying import apply
from asyncsearch.engine.filling import adjust
from asyncsearch.engine.handling import handle
from asyncsearch.engine.invariants import check
from asyncsearch.engine.next_trials import promote_next
from asyncsearch.engine.pool import Pool
from asyncsearch.engine.sizing.packs import _OVERTAKEN, _WINDOW
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Outcome, Reported, RunRequested, TrainingEnded, WorkerAttached
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.report.live.status_of import status_of
from asyncsearch.schedulers import ASHA, FIFO, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.fifo import FIFOState
from asyncsearch.searchers.random import RandomSearch, RandomState
from asyncsearch.simulate import Delays, Simulation, TrainingModel
from asyncsearch.sizing.packing import KnownPacks, Packing
from asyncsearch.space import Space, choice, uniform
from asyncsearch.trial import TrialState
from asyncsearch.work import Lane
from tests.engine.player import Player, only
from tests.engine.test_joins import Even
from tests.engine.tools import packed_state, record, replayed, results

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
    """Hands an unpacked search what happened to the lanes of a packed one, each of them on a worker of its own.

    It has twice as many, since a lane's place is another's while it saves.
    """

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
        for _ in range(len(only(actions, Promote)) - len(only(decided, Promote))):
            self.ask(now, decided)
        check(self.state)
        mine = {work_of(one.lane): one.lease for action in decided for one in lanes_given(action)}
        assert set(mine) == {work_of(one.lane) for one in given}
        self.leases |= {(one.lease, one.number): mine[work_of(one.lane)] for one in given}
        return decided

    def ask(self, now: float, decided: list[AnyAction]) -> None:
        """Let a worker ask for its next work that gets none: a trial that is to go on waits where it has trained."""

        def emit(action: AnyAction) -> None:
            apply(self.state, action, now)
            decided.append(action)

        assert promote_next(self.state, emit)
        adjust(self.state, emit)
        adjust(self.state, emit)

    def here(self, event: Any) -> list[AnyEvent]:
        """Return the same event as it happens here."""
        if isinstance(event, RunRequested):
            return [msgspec.structs.replace(event, parallelism=2 * WORKERS * LANES)]
        if isinstance(event, WorkerAttached):
            return [WorkerAttached(WorkerId(2 * event.worker * LANES + lane), 1) for lane in range(2 * LANES)]
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
    assert "that saved about" in packed_words(ASHA(max_resource=9), 38, speedup=4.0)


def test_times_that_a_pack_measured_count_before_those_that_were_observed() -> None:
    known = KnownPacks(seconds={1: 2.0, 2: 2.0}, units={2: 10}, observed={1: (9.0, 1), 2: (9.0, 1)})
    assert known.saved_s == pytest.approx(10.0)


def test_a_structure_that_only_trained_alone_counts_as_none_packed() -> None:
    known = KnownPacks()
    known.observe(1, 2.0, 3)
    assert (known.saved_s, known.has_been_packed) == (None, False)


PACK = 4
WIDTHS = Space.of({"x": uniform(0.0, 1.0), "width": choice(8, 16, 32)})


class Learning(RandomSearch):
    """Would propose by results."""

    def begin(self, space: Space, seed: int) -> RandomState:
        class State(RandomState):
            def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
                pass

        return State(space, seed)


def first_widths(trials: int | None = 64, **settings: Any) -> tuple[Player, list[int]]:
    """Return a search with one worker, and the widths of the trials that it got first."""
    player = Player(packed_state(FIFO(max_resource=3), PACK, **{"space": WIDTHS} | settings))
    player.begin(trials, 1)
    (assign,) = only(player.last, Assign)
    return player, [lane.stages[0].params["width"] for lane in assign.work.lanes]


def test_trials_are_created_until_a_worker_has_a_pack_of_alike_ones() -> None:
    _, widths = first_widths()
    assert len(widths) == PACK
    assert len(set(widths)) == 1


@pytest.mark.parametrize("trials", [None, 1000])
def test_no_more_wait_than_are_looked_at(trials: int | None) -> None:
    rare = Space.of({"x": uniform(0.0, 1.0), "width": choice(*range(100))})
    player, widths = first_widths(trials, space=rare)
    assert len(widths) < PACK
    assert len(player.state.trials) == _WINDOW * PACK


def test_a_searcher_that_learns_proposes_no_more_than_a_pack_has_lanes() -> None:
    player, widths = first_widths(searcher=Learning())
    assert player.state.searcher.learns
    assert len(widths) < PACK == len(player.state.trials)


@pytest.mark.parametrize("strategy", ["random", "nearest"])
def test_a_strategy_for_unlike_trials_has_no_more_created_than_it_takes(strategy: str) -> None:
    player, widths = first_widths(strategy=strategy)
    assert len(widths) == PACK == len(player.state.trials)


def test_a_worker_does_not_wait_for_alike_ones_that_do_not_come() -> None:
    player, widths = first_widths(3)
    assert 0 < len(widths) < 3 == len(player.state.trials)


SCHEDULERS = [
    pytest.param(FIFO(max_resource=3), id="fifo"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(Hyperband(max_resource=9), id="hyperband"),
    pytest.param(Hyperband(max_resource=9, variant="synchronous"), id="synchronous hyperband"),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_trials_created_for_packs_are_counted_and_replay_to_the_byte(scheduler: Scheduler) -> None:
    def fresh() -> StudyState:
        return packed_state(scheduler, PACK, WIDTHS)

    recorded = record(fresh(), 41, 2)
    decided = [action for _, _, actions in recorded.steps for action in actions]
    assert [action.trial for action in only(decided, CreateTrial)] == list(range(41))
    assert not [t for t in recorded.state.trials if t.state in (TrialState.WAITING, TrialState.RUNNING)]
    proposed = RandomSearch().begin(WIDTHS, recorded.state.config.seed)
    assert [trial.params for trial in recorded.state.trials] == [proposed.propose(number) for number in range(41)]
    state = replayed(fresh(), recorded.lines)
    assert snapshot.encode(state, len(recorded.states)) == recorded.states[-1]
    assert results(state) == results(recorded.state)


class LongAfterTheFirst(FIFOState):
    """Asks little of the first trial and much of all others, which have the longer way through the plan."""

    def first_target(self, trial: TrialId) -> int:
        return 2 if trial else 1


def test_a_trial_preceded_by_longer_ones_is_overtaken_a_bounded_number() -> None:
    player = Player(packed_state(FIFO(max_resource=2), 2, Space.of({"x": choice(*range(999)), "width": choice(8, 9)})))
    player.state.scheduler = LongAfterTheFirst(2)
    assert player.state.plan.is_shared
    player.begin(None, 1)
    for _ in range(999):
        for attempt in list(player.state.attempts.values()):
            player.tell(Reported(attempt.lease, attempt.stop, {"loss": 1.0}, attempt.lane))
            player.tell(TrainingEnded(attempt.lease, Outcome.RETURNED, attempt.stop, lane=attempt.lane))
        if player.state.trials[0].state is not TrialState.WAITING:
            break
    assert len(player.state.trials) <= (_OVERTAKEN + 1) * _WINDOW * 2


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 99), pack=st.integers(2, 4))
def test_where_trials_share_nothing_a_pack_has_the_oldest_waiting_trial(seed: int, pack: int) -> None:
    state = packed_state(FIFO(max_resource=2), pack, WIDTHS, seed=seed, share=False)
    state.packing = Packing(pack, takes_joiners=False)
    waiting: list[TrialId] = []
    for action in [action for _, _, actions in record(state, 30, 1).steps for action in actions]:
        if isinstance(action, CreateTrial):
            waiting.append(action.trial)
        for number, one in enumerate(lanes_given(action)):
            (trial,) = one.lane.stages[0].trials
            assert number or trial == waiting[0]
            waiting.remove(trial)
    assert not waiting
