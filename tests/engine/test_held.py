"""A worker gets what goes on from a checkpoint that it has at hand, where the choice is free."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import pytest

from asyncsearch.actions import AnyAction, Assign
from asyncsearch.engine.pool import Pool
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, Outcome, Reported, TrainingEnded, WorkerLost
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate import Faults, Loss, Simulation, TrainingModel
from asyncsearch.space import Space, uniform
from asyncsearch.testing.recording import Histories, restored
from asyncsearch.work import KEPT_CHECKPOINTS, Work
from tests.engine.player import Player
from tests.engine.test_sharing import SPACE
from tests.engine.tools import make_state
from tests.sequences.spaces import resnet56_space
from tests.shares import takes_long


class Fetches:
    """Counts what workers fetch that keep at hand what they saved or loaded last."""

    def __init__(self, state: StudyState) -> None:
        self.state = state
        self.kept: dict[tuple[WorkerId, int], OrderedDict[CheckpointRef, None]] = {}
        self.loads = self.fetched = 0

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        if isinstance(event, CheckpointCommitted):
            self.keep(event.lease, event.checkpoint)
        for action in actions:
            if isinstance(action, Assign) and action.work.lanes[0].load is not None:
                load = action.work.lanes[0].load
                self.loads += 1
                self.fetched += load not in self.of(action.work.lease)
                self.keep(action.work.lease, load)

    def of(self, lease: Lease) -> OrderedDict[CheckpointRef, None]:
        return self.kept.setdefault((lease.worker, lease.epoch), OrderedDict())

    def keep(self, lease: Lease, checkpoint: CheckpointRef) -> None:
        kept = self.of(lease)
        kept[checkpoint] = None
        kept.move_to_end(checkpoint)
        if len(kept) > KEPT_CHECKPOINTS:
            kept.popitem(last=False)


def fetches(scheduler: Scheduler, workers: int, **options: Any) -> Fetches:
    config = {"look_ahead": 1_000, **options.pop("config", {})}
    searcher, space = options.pop("searcher", GridSearch()), options.pop("space", SPACE)
    state = make_state(scheduler, searcher, space, **config)
    counted, num_trials = Fetches(state), options.pop("num_trials", None)
    Simulation(state, workload=Histories(), workers=workers, watch=counted, **options).run(num_trials)
    return counted


@pytest.mark.parametrize(
    ("scheduler", "space", "searcher", "share", "share_left"),
    [
        pytest.param(FIFO(max_resource=120), resnet56_space(), GridSearch(), True, 0.5, id="grid", marks=takes_long),
        pytest.param(SHA(max_resource=120, min_resource=15), resnet56_space(), GridSearch(), True, 0.6, id="sha"),
        pytest.param(ASHA(max_resource=81), Space({"x": uniform(0, 1)}), RandomSearch(), False, 1.0, id="alone"),
        pytest.param(SHA(max_resource=81), Space({"x": uniform(0, 1)}), RandomSearch(), False, 1.0, id="alone, sha"),
    ],
)
def test_workers_fetch_less_than_if_nobody_asked_what_they_have(
    scheduler: Scheduler,
    space: Space,
    searcher: Searcher,
    share: bool,
    share_left: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {"space": space, "searcher": searcher, "num_trials": 448}
    options["training"] = TrainingModel(report_every=None)
    options["config"] = {} if share else {"share": False, "look_ahead": 0}
    counted = fetches(scheduler, 8, **options)
    monkeypatch.setattr(Pool, "hold", lambda *_: None)
    blind = fetches(scheduler, 8, **options)
    assert counted.fetched <= share_left * blind.fetched


def test_a_worker_that_was_lost_has_nothing_at_hand() -> None:
    losses = [Loss(WorkerId(at % 3), 3.0 + 2 * at) for at in range(6)]
    counted = fetches(SHA(max_resource=9), 3, faults=Faults(losses=losses))
    assert counted.fetched > 0


def paused_by(player: Player, trial: int, loss: float) -> list[Work]:
    """Let the worker with the number of the trial pause it at 1, and return the work that is assigned upon that."""
    lease = Lease(trial, WorkerId(trial), 1)
    return player.assigned(
        Reported(lease, 1, {"loss": loss}),
        TrainingEnded(lease, Outcome.REACHED, 1, checkpoint_resource=1),
        CheckpointCommitted(lease, CheckpointRef(player.state.trials[trial].node, 1)),
    )


class TestOneOfSeveralIdleWorkers:
    @pytest.fixture
    def player(self) -> Player:
        """Three trials, each with its worker; the best one is promoted when all have paused."""
        player = Player(make_state(SHA(max_resource=3, bracket_size=3), share=False))
        player.begin(3, 3)
        return player

    def test_gets_the_trial_that_has_its_checkpoint(self, player: Player) -> None:
        assert paused_by(player, 0, 0.5) == []
        assert paused_by(player, 1, 0.4) == []
        (work,) = paused_by(player, 2, 0.1)
        assert work.lanes[0].load == CheckpointRef(player.state.trials[2].node, 1)
        assert work.lease.worker == 2

    def test_after_a_restart_too(self, player: Player) -> None:
        paused_by(player, 0, 0.5)
        paused_by(player, 1, 0.4)
        again = Player(restored(player.state, make_state(SHA(max_resource=3, bracket_size=3), share=False)))
        assert paused_by(again, 2, 0.1)[0].lease.worker == 2
        assert paused_by(player, 2, 0.1)[0].lease.worker == 2

    def test_is_any_if_that_one_was_lost(self, player: Player) -> None:
        paused_by(player, 1, 0.1)
        paused_by(player, 0, 0.5)
        player.tell(WorkerLost(WorkerId(1), 1, "killed"))
        (work,) = paused_by(player, 2, 0.4)
        assert work.lanes[0].load == CheckpointRef(player.state.trials[1].node, 1)
        assert work.lease.worker == 0


def test_the_pool_forgets_what_is_gone() -> None:
    pool, old, new = Pool(), CheckpointRef(NodeKey("0" * 32), 1), CheckpointRef(NodeKey("0" * 32), 2)
    for worker in (WorkerId(0), WorkerId(1)):
        pool.launch(worker, 1)
        pool.free(worker)
        pool.hold(worker, old)
    pool.hold(WorkerId(1), new)
    assert (pool.idle_holder(old), pool.idle_holder(new), pool.idle_holder(None)) == (0, 1, None)
    pool.give_up(old)
    assert pool.idle_holder(old) is None
    assert pool.slots[WorkerId(1)].held == [new]
    pool.lose(WorkerId(1))
    assert pool.idle_holder(new) is None


def test_the_pool_queues_each_idle_worker_once() -> None:
    pool = Pool()
    for worker in (WorkerId(0), WorkerId(1)):
        pool.launch(worker, 1)
        pool.free(worker)
    for lease in range(1_000):
        pool.occupy(WorkerId(1), lease)
        pool.free(WorkerId(1))
    assert len(pool._idle) == 2
    pool.occupy(WorkerId(0), 1_000)
    assert pool.first_idle() == 1
