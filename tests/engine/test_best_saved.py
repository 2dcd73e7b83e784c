"""Where the best report ranks, its checkpoint is kept while its trial trains on, in any order of events."""

from __future__ import annotations

import random

import msgspec
import pytest

from asyncsearch.actions import DeleteCheckpoint, SaveAt
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, Reported
from asyncsearch.ids import CheckpointRef
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers import RandomSearch
from asyncsearch.space import Space, choice
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.shares import seeds

SPACE = Space.of({"x": choice(*range(40))})


def state_of(scheduler: Scheduler, rank_by: str = "best", keep: int = 1, quota: int | None = None) -> StudyState:
    config = EngineConfig(
        study="s", metric="loss", mode="min", share=False, can_save=True, rank_by=rank_by, keep_checkpoints=keep,
        quota_bytes=quota,
    )  # fmt: skip
    return StudyState(config, RandomSearch().begin(SPACE, 0), scheduler.begin(SPACE, 0), scheduler.max_resource)


def test_the_best_report_is_saved_and_outlives_worse_ones() -> None:
    player = Player(state_of(FIFO(max_resource=5)))
    player.begin(1, 1)
    lease, node = lease_of(player.last), player.state.trials[0].node
    saved = []
    for resource, loss in enumerate((0.5, 0.3, 0.4, 0.6), 1):
        for action in only(player.tell(Reported(lease, resource, {"loss": loss}, is_awaited=True)), SaveAt):
            saved.append(action.resource)
            player.tell(CheckpointCommitted(lease, CheckpointRef(node, action.resource)))
    assert saved == [1, 2]
    ended = player.reach(lease, 5, 0.7)
    assert player.state.best_saved.checkpoints() == [CheckpointRef(node, 2)]
    assert CheckpointRef(node, 2) not in [action.checkpoint for action in only(ended, DeleteCheckpoint)]


def test_nothing_is_saved_for_it_where_the_last_report_ranks() -> None:
    player = Player(state_of(FIFO(max_resource=5), "last"))
    player.begin(1, 1)
    lease = lease_of(player.last)
    assert not only(player.tell(Reported(lease, 1, {"loss": 0.5}, is_awaited=True)), SaveAt)
    assert player.state.best_saved.size == 0


class AwaitingCluster(RandomCluster):
    def send(self, event: AnyEvent) -> None:
        if isinstance(event, Reported) and self.chance.random() < 0.7:
            event = msgspec.structs.replace(event, is_awaited=True)
        super().send(event)


@pytest.mark.parametrize("quota", [None, 400], ids=["free", "quota"])
@pytest.mark.parametrize("seed", seeds(16, 8))
def test_any_order_of_events_a_crash_and_a_restore_keep_the_same(seed: int, quota: int | None) -> None:
    scheduler = FIFO(max_resource=6) if seed % 2 else ASHA(max_resource=9)
    world = AwaitingCluster(lambda: state_of(scheduler, keep=1 + seed % 3, quota=quota), random.Random(seed))
    world.live(120)
    world.require_memory()
    world.require_same_decisions()
    for _ in range(120):
        world.step()
    world.require_memory()
    state = world.state
    for number, (score, checkpoint) in state.best_saved.entries.items():
        trial = state.trials[number]
        assert checkpoint in world.stored
        assert trial.state is not TrialState.FAILED
        assert trial.best is not None
        assert trial.best <= score
