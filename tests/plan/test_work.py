"""What workers train for a plan: each prefix once, and in the end what everybody asked for, whatever happens."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.base_plan import Batch, PlanPath
from asyncsearch.plan.keys import path as node_path
from asyncsearch.plan.keys import root_key
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.searchers import GridSearch
from tests.examples import examples
from tests.plan.tools import check, facts_of, paths, stages_of
from tests.sequences.spaces import RESNET56_EPOCHS, RESNET56_TRIALS, RESNET56_UNIQUE, resnet56_space

Wish = tuple[PlanPath, int]
WISH = st.tuples(paths(), st.integers(1, 10))
WISHES = st.lists(WISH, min_size=1, max_size=8)


def units(wish: Wish) -> set[tuple[NodeKey, int]]:
    """Return the units that a trial needs, each by its node and its end."""
    steps, target = wish
    return {([node for start, node in steps if start < unit][-1], unit) for unit in range(1, target + 1)}


def end(wish: Wish) -> CheckpointRef:
    steps, target = wish
    return CheckpointRef([node for start, node in steps if start < target][-1], target)


@dataclass
class Worker:
    """Trains a batch unit by unit."""

    batch: Batch
    at: int
    stop: int
    saves: set[CheckpointRef]
    to_commit: list[CheckpointRef] = field(default_factory=list)

    def cut(self, stop: int) -> None:
        """End at ``stop`` and save there."""
        self.stop = stop
        ref = next(CheckpointRef(s.node, stop) for s in self.batch.stages if s.start < stop <= s.stop)
        if self.at == stop and ref not in self.saves:
            self.to_commit.append(ref)
        self.saves.add(ref)

    @property
    def todo(self) -> list[tuple[NodeKey, int]]:
        """Units that are still to come."""
        return [(s.node, u) for s in self.batch.stages for u in range(max(s.start, self.at) + 1, s.stop + 1)][
            : self.stop - self.at
        ]


class Cluster:
    """Workers, a plan, and what the engine does between them. Commits arrive late, in order."""

    def __init__(self) -> None:
        self.plan = SearchPlan()
        self.wishes: dict[TrialId, Wish] = {}
        self.answered: set[TrialId] = set()
        self.durable: set[CheckpointRef] = set()
        self.workers: dict[int, Worker] = {}
        self.trained: Counter[tuple[NodeKey, int]] = Counter()
        self.leases = 0
        """Then a trial may wait for what is trained further on, and does not read what is trained again before that."""

    def arrive(self, trial: TrialId, wish: Wish) -> None:
        self.wishes[trial] = wish
        self.answered.discard(trial)
        self.plan.request(trial, *wish)
        self.settle()

    def leave(self, trial: TrialId) -> None:
        del self.wishes[trial]
        self.answered.discard(trial)
        self.plan.withdraw(trial)
        self.settle()

    def assign(self) -> bool:
        batch = self.plan.next_batch()
        if batch is None:
            return False
        first = batch.stages[0]
        wish = self.wishes[first.trials[0]]
        assert batch.load == self.nearest(wish[0], first.stop), "what is saved is not trained again"
        self.leases += 1
        worker = Worker(
            batch, first.start, batch.stages[-1].stop, {CheckpointRef(s.node, s.stop) for s in batch.stages}
        )
        for other in self.workers.values():
            assert not set(worker.todo) & set(other.todo), "a unit that is being trained is not given to another one"
        for stage in batch.stages:
            assert not any(
                ref.node == stage.node and stage.start < ref.resource <= stage.stop for ref in self.durable
            ), "what is saved is not trained again"
        assert all(stage.stop == after.start for stage, after in pairwise(batch.stages))
        self.plan.begin(self.leases, batch)
        self.workers[self.leases] = worker
        return True

    def nearest(self, steps: PlanPath, resource: int) -> CheckpointRef | None:
        for at in range(resource, 0, -1):
            ref = end((steps, at))
            if ref in self.durable:
                return ref
        return None

    def train(self, lease: int) -> None:
        worker = self.workers[lease]
        node, unit = worker.todo[0]
        passing = [trial for trial in facts_of(self.plan).requests if (node, unit) in units(self.wishes[trial])]
        assert self.plan.subscribers_at(node, unit) == sorted(passing)
        self.trained[node, unit] += 1
        worker.at = unit
        if CheckpointRef(node, unit) in worker.saves:
            worker.to_commit.append(CheckpointRef(node, unit))

    def commit(self, lease: int) -> None:
        worker = self.workers[lease]
        ref = worker.to_commit.pop(0)
        self.durable.add(ref)
        self.plan.add_checkpoint(ref)
        if worker.at == worker.stop and not worker.to_commit:
            self.lose(lease)
        self.settle()

    def lose(self, lease: int) -> None:
        del self.workers[lease]
        self.plan.end(lease)

    def lose_checkpoint(self, ref: CheckpointRef) -> None:
        self.durable.remove(ref)
        self.plan.remove_checkpoint(ref)
        self.settle()

    def settle(self) -> None:
        """Answer what is known, tell workers where to save, and call back those that nobody needs."""
        for trial, wish in self.wishes.items():
            if trial not in self.answered and end(wish) in self.durable:
                self.answered.add(trial)
                self.plan.withdraw(trial)
        for lease, worker in list(self.workers.items()):
            wanted = self.plan.wanted_stop(lease)
            if wanted == 0 or (wanted < worker.at and not worker.to_commit):
                self.lose(lease)
            elif worker.at <= wanted < worker.stop:
                self.plan.cut(lease, wanted)
                worker.cut(wanted)
        for lease, worker in self.workers.items():
            for node, resource in self.plan.splits(lease):
                self.plan.add_save_point(lease, node, resource)
                if resource > worker.at:
                    worker.saves.add(CheckpointRef(node, resource))
        check(self.plan)

    def step(self, lease: int) -> None:
        """Let one worker do the next thing it has to do."""
        if self.workers[lease].todo:
            self.train(lease)
        else:
            self.commit(lease)

    def finish(self) -> None:
        """Let two workers do all that is left."""
        while True:
            while len(self.workers) < 2 and self.assign():
                pass
            if not self.workers:
                return
            self.step(min(self.workers))


@settings(max_examples=examples(150), deadline=None)
@given(wishes=WISHES, data=st.data())
def test_work_that_is_known_beforehand_is_the_number_of_distinct_prefixes(
    wishes: list[Wish], data: st.DataObject
) -> None:
    cluster = Cluster()
    for number, (steps, target) in enumerate(wishes):
        cluster.plan.request(TrialId(number), steps, target)
        cluster.wishes[TrialId(number)] = (steps, target)
    distinct = set().union(*map(units, wishes))
    assert sum(stage.stop - stage.start for stage in stages_of(cluster.plan)) == len(distinct)
    while len(cluster.workers) < 3 and cluster.assign():
        pass
    while cluster.workers:
        lease = data.draw(st.sampled_from(sorted(cluster.workers)))
        worker = cluster.workers[lease]
        if worker.to_commit and (not worker.todo or data.draw(st.booleans())):
            cluster.commit(lease)
            while len(cluster.workers) < 3 and cluster.assign():
                pass
        else:
            cluster.train(lease)
    assert cluster.answered == set(cluster.wishes)
    assert cluster.trained == Counter(distinct)


def test_448_trials_of_the_papers_space_are_21960_units_in_448_batches() -> None:
    searcher = GridSearch().begin(resnet56_space(), 0)
    plan = SearchPlan()
    for number in range(RESNET56_TRIALS):
        params = searcher.propose(number)
        assert params is not None
        plan.request(TrialId(number), node_path(root_key("study", 0), params, RESNET56_EPOCHS), RESNET56_EPOCHS)
    assert sum(stage.stop - stage.start for stage in stages_of(plan)) == RESNET56_UNIQUE
    batches = 0
    while (batch := plan.next_batch()) is not None:
        plan.begin(batches, batch)
        for stage in batch.stages:
            plan.add_checkpoint(CheckpointRef(stage.node, stage.stop))
        assert len(batch.stages[-1].trials) == 1
        plan.withdraw(batch.stages[-1].trials[0])
        plan.end(batches)
        batches += 1
    assert batches == RESNET56_TRIALS


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_requests_are_all_answered_and_nothing_saved_is_ever_retrained(
    data: st.DataObject,
) -> None:
    cluster = Cluster()
    for number in range(data.draw(st.integers(1, 40))):
        moves = ["arrive"] * 2 + ["assign"] * bool(len(cluster.workers) < 3)
        moves += ["train", "train", "train", "commit", "lose a worker"] * bool(cluster.workers)
        moves += ["lose a checkpoint"] * bool(cluster.durable) + ["leave"] * bool(cluster.wishes)
        move = data.draw(st.sampled_from(moves))
        match move:
            case "arrive":
                wish = data.draw(WISH)
                cluster.arrive(TrialId(data.draw(st.integers(0, number))), wish)
            case "leave":
                cluster.leave(data.draw(st.sampled_from(sorted(cluster.wishes))))
            case "assign":
                cluster.assign()
            case "train":
                lease = data.draw(st.sampled_from(sorted(cluster.workers)))
                if cluster.workers[lease].todo:
                    cluster.train(lease)
            case "commit":
                lease = data.draw(st.sampled_from(sorted(cluster.workers)))
                if cluster.workers[lease].to_commit:
                    cluster.commit(lease)
            case "lose a worker":
                cluster.lose(data.draw(st.sampled_from(sorted(cluster.workers))))
                cluster.settle()
            case _:
                cluster.lose_checkpoint(data.draw(st.sampled_from(sorted(cluster.durable, key=str))))
    cluster.finish()
    assert cluster.answered == set(cluster.wishes)
    assert not facts_of(cluster.plan).nodes
