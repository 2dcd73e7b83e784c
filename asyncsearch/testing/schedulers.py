"""The laws of every scheduler, for those who write their own.

class TestMine(SchedulerConformance):
    def make(self) -> Scheduler:
        return Mine(max_resource=9)
"""

from __future__ import annotations

import random
import unittest
from collections.abc import Iterable, Sequence
from typing import Any

from asyncsearch.actions import AnyAction, Branch, Promote, StopTraining
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.handling import handle, replay
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import ResourceError
from asyncsearch.events import Reported
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.journal.format import SegmentReader
from asyncsearch.schedulers.base_scheduler import RungForecast, Scheduler, SchedulerState
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate.options import Delays, Faults, Loss
from asyncsearch.space import Space
from asyncsearch.testing.base_suite import MethodSuite
from asyncsearch.testing.checked_methods import ActionLaws, CheckedScheduler, text_of
from asyncsearch.testing.instruction_count import decision
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import HISTORIES, SPACE, coarse
from asyncsearch.trial import TrialState

_STEPS = (40, 150)
"""Fewest and most random events, before the run continues without faults."""
_SIZES = (150, 2_400)
_GROWTH = 2.0
"""How many times as much a decision may cost at the larger of these sizes; log n grows by 1.6."""


class SchedulerConformance(MethodSuite):
    """Laws that hold for any scheduler; ``make`` gives the one to try.

    Give it few and near rungs: a ``max_resource`` of about 10 keeps each law within a second or two.
    """

    orders = 12
    """How many random orders of events are tried."""
    num_trials = 14
    """How many trials a simulated search has."""
    promotes_without_value = False
    """Whether trials whose last value is NaN or infinite are promoted, as in a method that gives up none."""

    def make(self) -> Scheduler:
        """Return the scheduler to try, each time the same."""
        raise NotImplementedError(f"{type(self).__name__} must have a method make(self) that returns your scheduler.")

    def space(self) -> Space:
        """Return the space to search with it; its trials have no value in common."""
        return SPACE

    def test_warnings_are_sentences_or_an_error_that_says_why(self) -> None:
        scheduler = self.make()
        for num_trials in (None, 1, 2, 3, 10, 1_000):
            try:
                notes = scheduler.warnings(num_trials)
            except ResourceError as error:
                notes = [str(error)]
            for note in notes:
                assert len(note.split()) >= 3, f"warnings({num_trials}) says {note!r}, which is no sentence"

    def test_forecast_begins_every_trial_and_trains_upwards(self) -> None:
        for num_trials in (1, 2, 3, 10, 64, 1_000):
            check_forecast(self.make(), num_trials)

    def test_two_studies_share_nothing(self) -> None:
        scheduler = self.make()
        one, other = self.begin(scheduler), self.begin(scheduler)
        before = text_of(other)
        one.run_requested(3)
        one.created(TrialId(0), {})
        one.reported(TrialId(0), 1, 0.5)
        one.failed(TrialId(0), 1)
        assert text_of(other) == before, "a fact of one study reached the scheduler of another one"

    def test_whatever_happens_in_whatever_order_its_answers_and_its_memory_are_sound(self) -> None:
        for seed in range(self.orders):
            world = self._after_events(seed)
            world.require_memory()
            world.drain()
            world.require_memory()
            self._require_ends(world)

    def test_it_sees_no_difference_between_min_and_max(self) -> None:
        for seed in range(self.orders // 2):
            low, high = (self._after_events(seed, mode=mode) for mode in ("min", "max"))
            low.drain()
            high.drain()
            assert _histories(low.state) == _histories(high.state), f"order {seed}: mode decides what is trained"

    def test_no_trial_is_lost_and_none_ends_in_between(self) -> None:
        for workers in (1, 3):
            state = self._searched(workers=workers).state
            assert len(state.trials) == self.num_trials, f"{len(state.trials)} trials of {self.num_trials} began"
            for trial in state.trials:
                is_settled = trial.state.is_finished or trial.state is TrialState.PAUSED
                assert is_settled, f"at the end of the search {trial.name} is {trial.state.value}: {trial.reason}"

    def test_lost_workers_and_failures_end_no_search(self) -> None:
        for lost in range(3):
            recorded = self._searched(
                max_failures=lost % 2,
                faults=Faults(
                    losses=[Loss(WorkerId(worker), 1.4 + 3.0 * worker + lost, 1.0) for worker in range(3)],
                    failures={TrialId(lost): 1, TrialId(4): 1},
                ),
                delays=Delays(start_s=0.5, message_s=0.3, commit_s=0.7, detect_s=0.9),
            )
            assert len(recorded.state.trials) == self.num_trials

    def test_no_unit_is_trained_beyond_a_stop(self) -> None:
        living = type(self.begin(self.make()))
        if living.judges and living.judged_next is SchedulerState.judged_next:
            raise unittest.SkipTest(
                "it has no judged_next: no trial waits for what judge says, and each trains on until it hears of a stop"
            )
        stopped: set[int] = set()
        for _, event, actions in self._searched(delays=Delays(message_s=0.3)).steps:
            if isinstance(event, Reported):
                assert event.lease.number + event.lane not in stopped, f"{event.lease} trained beyond its stop"
            stopped |= {a.lease.number + a.lane for a in actions if isinstance(a, StopTraining)}

    def test_a_finished_search_goes_on_with_more_trials(self) -> None:
        recorded = self._searched()
        once = [trial.target for trial in recorded.state.trials]
        self._search(recorded, 3 * self.num_trials)
        trials = recorded.state.trials
        assert len(trials) == 3 * self.num_trials, f"{len(trials)} trials began when {3 * self.num_trials} were wanted"
        for before, trial in zip(once, trials, strict=False):
            went_back = before is not None and trial.target is not None and trial.target < before
            assert not went_back, f"{trial.name} went back from {before} to {trial.target}"

    def test_deciding_again_over_the_journal_gives_the_same_promotions_in_the_same_order(self) -> None:
        recorded = self._searched()
        again = self._state()
        for record in SegmentReader().read("000001.jsonl", recorded.lines):
            decided = tuple(handle(again, record.event, record.t))
            assert decided == record.actions, f"record {record.n}: {decided} was decided, {record.actions} before"

    def test_no_trial_goes_on_that_had_to_stay(self) -> None:
        recorded = self._searched()
        again, stays = self._state(), set[TrialId]()
        for record in SegmentReader().read("000001.jsonl", recorded.lines):
            replay(again, record.event, record.actions, record.t)
            for action in record.actions:
                moved = f"{action} in record {record.n}, and may_promote had denied it"
                assert not isinstance(action, Promote | Branch) or action.trial not in stays, moved
            paused = [trial.id for trial in again.trials if trial.state is TrialState.PAUSED and trial.id not in stays]
            stays |= {trial for trial in paused if not again.scheduler.may_promote(trial)}

    def test_the_first_promotion_is_that_of_its_trial(self) -> None:
        recorded = self._searched(delays=Delays(commit_s=1.5, message_s=0.2))
        again = self._state()
        for record in SegmentReader().read("000001.jsonl", recorded.lines):
            replay(again, record.event, record.actions, record.t)
            first = again.scheduler.next_promotion()
            if first is not None:
                own = again.scheduler.promotion_of(first.trial)
                assert own == first, f"after record {record.n} next_promotion is {first}, and promotion_of it {own}"

    def test_a_decision_does_not_grow_with_the_number_of_trials(self) -> None:
        scheduler = self.make()
        small, large = (decision(lambda: self.begin(scheduler), scheduler, size) for size in _SIZES)
        assert large <= _GROWTH * small, (
            f"a unit takes {small:.0f} instructions with {_SIZES[0]} trials and {large:.0f} with {_SIZES[1]}: "
            "keep what you need in order instead of looking through all trials"
        )

    def begin(self, scheduler: Scheduler) -> SchedulerState:
        """Return a fresh state of the scheduler."""
        return scheduler.begin(self.space(), 3)

    def _state(self, *, is_checked: bool = False, mode: str = "min", **config: Any) -> StudyState:
        scheduler, space = self.make(), self.space()
        settings = EngineConfig(study="test", metric="loss", mode=mode, seed=3, **config)
        living = CheckedScheduler(lambda: self.begin(scheduler)) if is_checked else self.begin(scheduler)
        return StudyState(settings, RandomSearch().begin(space, 3), living, scheduler.max_resource)

    def _after_events(self, seed: int, mode: str = "min") -> _LawfulWorld:
        """Return agents after many random events; ``seed`` chooses them, and whether trials share."""
        chance = random.Random(seed)
        world = _LawfulWorld(
            lambda: self._state(is_checked=True, mode=mode, max_failures=seed % 3, share=seed % 4 < 2),
            chance,
            own_ends=self._own_ends(seed),
            report=lambda loss: coarse(loss, 1.0 if mode == "min" else -1.0),
        )
        world.laws = self.laws()
        world.live(chance.randint(*_STEPS))
        return world

    def _own_ends(self, seed: int) -> float:
        """Return how often a function returns by itself, as one without a target must."""
        if self.make().max_resource is None:
            return 0.2
        return 0.06 if seed % 2 else 0.0

    def _require_ends(self, world: _LawfulWorld) -> None:
        top = self.make().max_resource
        for trial in world.state.trials:
            state = f"{trial.name} is {trial.state.value} at {trial.resource}"
            assert trial.state.is_finished or trial.state is TrialState.PAUSED, f"{state}: {trial.reason}"
            if trial.state is TrialState.COMPLETED:
                loss = HISTORIES.value(trial.id, trial.params, trial.resource)
                assert trial.resource == top or loss < world.own_ends, f"{state}, and max_resource is {top}"
            if trial.state is TrialState.PAUSED:
                assert trial.resource == trial.target, f"{state}, and its target is {trial.target}"

    def laws(self) -> ActionLaws:
        """Return the laws that every action must obey."""
        scheduler = self.make()
        return ActionLaws(
            pauses=scheduler.pauses,
            max_resource=scheduler.max_resource,
            promotes_without_value=self.promotes_without_value,
        )


class _LawfulWorld(RandomCluster):
    """Agents of a study whose every action is checked against the laws."""

    laws: ActionLaws

    def decided(self, actions: Sequence[AnyAction]) -> None:
        self.laws.check(self.state, actions)


def _histories(state: StudyState) -> list[tuple[Any, ...]]:
    """Return the final state of each trial, without its values."""
    return [(t.id, t.state, t.target, t.resource, t.value_resource, t.reason) for t in state.trials]


def check_forecast(scheduler: Scheduler, num_trials: int) -> None:
    """Require that every trial begins once, in one bracket, and that no rung has more trials than the one before it.

    The scheduler may refuse a search that cannot work.

    Raises:
        AssertionError: the forecast cannot be true; the message says where.
    """
    try:
        lines = scheduler.forecast(num_trials)
    except ResourceError:
        return
    began = sum(line.trials for line in lines if line.from_resource == 0)
    assert began == num_trials, f"forecast({num_trials}): {began} trials begin"
    for bracket in sorted({line.bracket for line in lines}):
        _check_bracket(scheduler, num_trials, [line for line in lines if line.bracket == bracket])


def _check_bracket(scheduler: Scheduler, num_trials: int, lines: Iterable[RungForecast]) -> None:
    at: int | None = 0
    trials = num_trials
    for line in lines:
        where = f"forecast({num_trials}), bracket {line.bracket}, from {line.from_resource} to {line.to_resource}"
        assert line.from_resource == at, f"{where}: the line before ends at {at}"
        assert 0 <= line.trials <= trials, f"{where}: {line.trials} trials, and {trials} before"
        at, trials = line.to_resource, line.trials
        assert at is None or line.from_resource < at, f"{where}: it does not lead upwards"
        top = scheduler.max_resource
        assert top is None or (at is not None and at <= top), f"{where}: it leads beyond max_resource={top}"
