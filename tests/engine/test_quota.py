"""A study's byte quota: paused trials that do not go on give up their checkpoints for it, then the worst finished."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AnyAction, DeleteCheckpoint
from asyncsearch.engine.affected import is_stale
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UsageError
from asyncsearch.events import AnyEvent, CheckpointCommitted
from asyncsearch.ids import CheckpointRef
from asyncsearch.schedulers import ASHA, FIFO, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.space import Space, choice
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import replayed
from asyncsearch.trial import Trial, TrialState
from tests.engine.tools import make_state

SHARED = Space({"lr": multistep(0.1, milestones=choice([2, 4], [2, 6], [4, 6], [6]))})
QUOTA = 30


def size(checkpoint: CheckpointRef) -> int:
    return 1 + checkpoint.resource


def weigh(event: AnyEvent) -> AnyEvent:
    if isinstance(event, CheckpointCommitted):
        return msgspec.structs.replace(event, size_bytes=size(event.checkpoint))
    return event


def pinned(state: StudyState) -> set[CheckpointRef | None]:
    """Return what may not be given up: what attempts and trials that may go on need, and the best trials'."""
    needed = {trial.checkpoint for trial in state.trials if may_go_on(state, trial)}
    loaded = {attempt.batch.load for attempt in state.attempts.values()}
    best = {state.trials[number].checkpoint for number in state.best_trials.trials()[:1]}
    return needed | loaded | best | {trial.checkpoint for trial in [state.best()] if trial is not None}


def may_go_on(state: StudyState, trial: Trial) -> bool:
    if trial.state is TrialState.PAUSED:
        return state.scheduler.may_promote(trial.id)
    return not trial.state.is_finished


class Weighing(RandomCluster):
    """Agents whose checkpoints have sizes."""

    def tell(self, event: AnyEvent) -> None:
        is_commit = isinstance(event, CheckpointCommitted) and not is_stale(self.state, event)
        super().tell(weigh(event))
        if is_commit and self.state.usage.is_over:
            assert set(self.state.references) <= pinned(self.state), "something could still have gone"

    def decided(self, actions: Sequence[AnyAction]) -> None:
        super().decided(actions)
        require_within(self.state, actions)


def require_within(state: StudyState, actions: Sequence[AnyAction]) -> None:
    needed = pinned(state)
    gone = {action.checkpoint for action in actions if isinstance(action, DeleteCheckpoint)}
    assert not needed & gone
    for number in [number for one in actions if isinstance(one, DeleteCheckpoint) for number in one.paused or ()]:
        assert not may_go_on(state, state.trials[number]), "it may still be promoted"
        assert state.best() is not state.trials[number], "its checkpoint is the result"
    assert state.usage.total_bytes == sum(size(checkpoint) for checkpoint in state.references)
    if gone and state.usage.is_over:
        assert set(state.references) <= needed, "something could still have gone"


SCHEDULERS = [FIFO(max_resource=4), ASHA(max_resource=9), Hyperband(max_resource=9)]


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["fifo", "asha", "hyperband"])
@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "shared"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200))
def test_whatever_happens_none_that_may_go_on_loses_its_checkpoint(
    scheduler: Scheduler, is_shared: bool, seed: int, steps: int
) -> None:
    options: dict[str, Any] = {"keep_checkpoints": 5, "quota_bytes": QUOTA, "save_every": 2}

    def make() -> StudyState:
        if is_shared:
            return make_state(scheduler, GridSearch(), SHARED, **options)
        return make_state(scheduler, **options)

    world = Weighing(make, random.Random(seed), is_fickle=not is_shared)
    world.live(steps)
    world.require_memory()
    world.drain()
    world.require_memory()


def finished(quota: int | None, lines: list[bytes] | None = None, keep: int = 5) -> tuple[StudyState, list[bytes]]:
    """Return a search of five trials of 4 units after its end, or what its journal says under other settings."""

    def make() -> StudyState:
        return make_state(FIFO(max_resource=4), keep_checkpoints=keep, quota_bytes=quota)

    if lines is not None:
        return replayed(make(), lines), lines
    world = Weighing(make, random.Random(7), is_fickle=True)
    world.live(0)
    world.drain()
    return world.state, world.lines


def test_as_many_of_the_best_keep_theirs_as_fit() -> None:
    state, _ = finished(quota=2 * size_at_end())
    done = [trial for trial in state.trials if trial.state is TrialState.COMPLETED]
    ranked = sorted(done, key=lambda trial: (trial.value if trial.value is not None else 9.0, trial.id))
    assert len(done) > 2
    assert [trial.checkpoint is not None for trial in ranked] == [True, True, *[False] * (len(ranked) - 2)]
    assert state.best_trials.trials() == [trial.id for trial in ranked[:2]]


def size_at_end() -> int:
    return 1 + 4


@pytest.mark.parametrize("quota", [None, 1, 10**9])
@pytest.mark.parametrize("keep", [1, 5, 50])
def test_what_was_given_up_stays_so_under_any_settings_of_the_reader(quota: int | None, keep: int) -> None:
    state, lines = finished(quota=2 * size_at_end())
    again, _ = finished(quota, lines, keep)
    assert set(again.references) | set(again.unreachable) <= set(state.references)


@pytest.mark.parametrize("quota", [0, -5, 1.5, True, "1GB"])
def test_a_quota_is_a_positive_number_of_bytes(quota: object) -> None:
    with pytest.raises(UsageError, match=r"quota_bytes=.* must be a positive number of bytes"):
        make_state(quota_bytes=quota)
