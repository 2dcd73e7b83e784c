"""The stage tree that is kept up to date is the one that Algorithm 1 generates afresh, whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan import search_plan as plan_module
from asyncsearch.plan.base_plan import Batch, PlanPath
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.trial import UNBOUNDED
from tests.examples import examples
from tests.plan.algorithm import SpanFacts
from tests.plan.tools import check, facts_of, paths, stages_of

TRIALS = st.integers(0, 7).map(TrialId)
TARGETS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9, 12, UNBOUNDED])
Known = list[list[int]]


class PlanBesideAlgorithm(RuleBasedStateMachine):
    """Any operations in any order; what the plan was told is written down beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = SearchPlan()
        self.listed = pytest.MonkeyPatch()
        self.requests: dict[TrialId, tuple[NodeKey, int, bool]] = {}
        self.saved: set[tuple[NodeKey, int]] = set()
        self.runs: dict[int, list[tuple[NodeKey, int, int]]] = {}
        """What each lease has still to train: node, position, stop."""
        self.marks: dict[int, set[tuple[NodeKey, int]]] = {}
        """Where each lease saves."""
        self.ends: dict[int, tuple[NodeKey, int]] = {}
        """Where each lease ends, and reports: also one to which nothing is left since others have saved it all."""
        self.unmeasured: set[tuple[NodeKey, int]] = set()
        self.evaluating: dict[int, tuple[NodeKey, int]] = {}
        self.paths: dict[TrialId, PlanPath] = {}
        self.leases = 0

    def teardown(self) -> None:
        self.listed.undo()

    @initialize(most=st.sampled_from([1, 2, 3, 10]))
    def list_at_most(self, most: int) -> None:
        self.listed.setattr(plan_module, "LISTED", most)

    @rule(trial=TRIALS, path=paths(), stop=TARGETS, is_urgent=st.sampled_from([False, False, False, True]))
    def request(self, trial: TrialId, path: PlanPath, stop: int, is_urgent: bool) -> None:
        self.plan.request(trial, path, stop, is_urgent=is_urgent)
        node = [key for start, key in path if start < stop][-1]
        self.requests[trial] = (node, stop, is_urgent)
        self.paths[trial] = path
        assert self.plan.target_of(trial) == stop

    @rule(trial=TRIALS)
    def withdraw(self, trial: TrialId) -> None:
        self.plan.withdraw(trial)
        self.requests.pop(trial, None)
        assert self.plan.target_of(trial) is None

    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        batch = self.plan.next_batch(self.draw_held(data))
        if batch is None:
            return
        assert batch.load is None or (batch.load.node, batch.load.resource) in self.saved
        for stage in batch.stages:
            inside = [at for node, at in self.saved if node == stage.node and stage.start < at <= stage.stop]
            assert not inside, "what is durable is not trained again"
            for run in self.runs.values():
                for node, position, stop in run:
                    assert node != stage.node or stage.stop <= position or stop <= stage.start, "trained twice at once"
        self.leases += 1
        self.plan.begin(self.leases, batch)
        if batch.stages[0].start == batch.stages[0].stop:
            self.begin_evaluation(batch)
            return
        self.marks[self.leases] = {(stage.node, stage.stop) for stage in batch.stages}
        run = self.runs[self.leases] = []
        for stage in batch.stages:
            if run and run[-1][0] == stage.node:
                run[-1] = (stage.node, run[-1][1], stage.stop)
            else:
                run.append((stage.node, stage.start, stage.stop))
        self.ends[self.leases] = run[-1][::2]

    @rule(data=st.data(), skip=st.sampled_from([0, 0, 1]))
    def commit(self, data: st.DataObject, skip: int) -> None:
        """A lease saves where it was to, in order; now and then it passed such a place before it was told."""
        lease = self.draw_lease(data)
        if lease is None:
            return
        ahead = [
            (key, at)
            for key, position, stop in self.runs[lease]
            for node, at in sorted(self.marks[lease])
            if node == key and position < at <= stop
        ]
        node, resource = ahead[min(skip, len(ahead) - 1)]
        self.save(node, resource)
        if not self.runs[lease]:
            self.end_run(lease)

    @rule(path=paths(), resource=st.integers(1, 12))
    def find(self, path: PlanPath, resource: int) -> None:
        """A checkpoint turns up that this plan did not order."""
        self.save([key for start, key in path if start < resource][-1], resource)

    def begin_evaluation(self, batch: Batch) -> None:
        (stage,) = batch.stages
        position = (stage.node, stage.stop)
        assert batch.load == CheckpointRef(*position)
        assert position in self.unmeasured
        assert position not in self.evaluating.values(), "evaluated twice at once"
        asking = [trial for trial, wish in sorted(self.requests.items()) if wish[:2] == position]
        assert list(stage.trials) == asking[: plan_module.LISTED]
        assert self.plan.wanted_stop(self.leases) == stage.stop
        self.evaluating[self.leases] = position

    @rule(data=st.data())
    def miss_metric(self, data: st.DataObject) -> None:
        """Nobody reported at a checkpoint."""
        saved = sorted(position for position in self.saved if position[1] != UNBOUNDED)  # else nobody knows where it is
        if saved:
            position = data.draw(st.sampled_from(saved))
            self.plan.expect_metric(CheckpointRef(*position))
            self.unmeasured.add(position)
            assert self.plan.lacks_metric(CheckpointRef(*position))

    @rule(data=st.data())
    def report_metric(self, data: st.DataObject) -> None:
        if self.unmeasured:
            position = data.draw(st.sampled_from(sorted(self.unmeasured)))
            self.plan.add_metric(CheckpointRef(*position))
            self.unmeasured.remove(position)

    @rule(data=st.data())
    def end_evaluation(self, data: st.DataObject) -> None:
        if self.evaluating:
            lease = data.draw(st.sampled_from(sorted(self.evaluating)))
            self.plan.end(lease)
            del self.evaluating[lease]

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        if self.saved:
            node, resource = data.draw(st.sampled_from(sorted(self.saved)))
            self.plan.remove_checkpoint(CheckpointRef(node, resource))
            self.saved.remove((node, resource))
            self.unmeasured.discard((node, resource))

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        lease = self.draw_lease(data)
        if lease is not None:
            self.end_run(lease)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        lease = self.draw_lease(data)
        if lease is None:
            return
        stop = data.draw(st.integers(max(1, self.runs[lease][0][1]), 13))
        self.plan.cut(lease, stop)
        run = [(node, position, min(stop, last)) for node, position, last in self.runs[lease] if position < stop]
        self.marks[lease] |= {(node, last) for node, _, last in run[-1:]}
        self.runs[lease] = run
        if run:
            self.ends[lease] = run[-1][::2]
        else:
            self.end_run(lease)

    @rule(data=st.data())
    def tell_to_save(self, data: st.DataObject) -> None:
        lease = self.draw_lease(data)
        if lease is None:
            return
        for node, resource in self.plan.splits(lease):
            self.plan.add_save_point(lease, node, resource)
            self.marks[lease].add((node, resource))
        assert self.plan.splits(lease) == []

    @rule(path=paths())
    def block(self, path: PlanPath) -> None:
        """Others begin to train in a node, or end."""
        node = path[-1][1]
        if node in self.plan.blocked:
            self.plan.unblock(node)
        else:
            self.plan.block(node)

    @rule(path=paths(), cost=st.sampled_from([0.001, 0.5, 1.0, 1.05, 2.0, 30.0]))
    def measure(self, path: PlanPath, cost: float) -> None:
        self.plan.set_cost(path[-1][1], cost)

    @invariant()
    def is_what_is_generated_afresh(self) -> None:
        held = [CheckpointRef(*position) for position in sorted(self.saved)]
        check(self.plan, held[::2], held[1::2])

    @invariant()
    def knows_what_it_was_told(self) -> None:
        facts = facts_of(self.plan)
        assert {trial: tuple(request) for trial, request in facts.requests.items()} == self.requests
        assert {(node, at) for node, resources in facts.saved.items() for at in resources} == self.saved
        running = {SpanFacts(lease, *span) for lease, run in self.runs.items() for span in run}
        assert set(facts.running) == running
        needed = {node for node, _, _ in self.requests.values()} | {span.node for span in running}
        needed |= {node for node, _ in self.evaluating.values()}
        for key in facts.nodes:
            assert any(other == key or other.startswith(f"{key}/") for other in needed), "a node that nobody needs"

    @invariant()
    def evaluates_what_is_asked_for_and_was_neither_reported_nor_will_be(self) -> None:
        """Trap f: a checkpoint without its metric is a stage of no units, once, and for nobody else's sake."""
        asked = {wish[:2] for wish in self.requests.values()}
        ends = set(self.ends.values())
        due = {p for p in self.unmeasured & asked if p[0] not in self.plan.blocked and p not in ends}
        due -= set(self.evaluating.values())
        assert {(s.node, s.stop) for s in stages_of(self.plan) if s.start == s.stop} == due

    @rule()
    def make_anew(self) -> None:
        """Costs that were measured, and to whom they were told by now, are known again."""
        if self.ends or self.evaluating:
            return
        again, known = SearchPlan(), self.plan.costs()
        assert known is not None
        for trial, (_, stop, is_urgent) in sorted(self.requests.items()):
            again.request(trial, self.paths[trial], stop, is_urgent=is_urgent)
        for position in sorted(self.saved):
            again.add_checkpoint(CheckpointRef(*position))
        for position in sorted(self.unmeasured):
            again.expect_metric(CheckpointRef(*position))
        for node in sorted(self.plan.blocked):
            again.block(node)
        again.restore_costs(known)
        assert facts_of(again) == facts_of(self.plan)
        assert again.costs() == known
        assert {(s.node, s.stop): s for s in stages_of(again)} == {(s.node, s.stop): s for s in stages_of(self.plan)}

    @invariant()
    def says_what_running_batches_are_for(self) -> None:
        for lease, run in self.runs.items():
            asked = [at for _, at, _ in self.requests.values()]
            wanted = self.plan.wanted_stop(lease)
            assert wanted == 0 or any(position < wanted <= stop for _, position, stop in run)
            assert wanted == 0 or max(asked) >= wanted
            nodes = [node for node, position, stop in run if position < wanted <= stop]
            assert bool(wanted) == bool(nodes and self.plan.subscribers_at(nodes[0], wanted))
            # In a node that others train as well, what comes after is theirs to save.
            if wanted and wanted < run[-1][2] != UNBOUNDED and run[-1][0] not in self.plan.blocked:
                left = self.plan.subscribers_at(run[-1][0], run[-1][2])
                assert all(self.requests[trial][:2] in self.saved for trial in left), "who reads on waits for training"

    def save(self, node: NodeKey, resource: int) -> None:
        self.plan.add_checkpoint(CheckpointRef(node, resource))
        if (node, resource) in self.saved:
            return
        self.saved.add((node, resource))
        for lease, run in self.runs.items():
            for index, (key, position, stop) in enumerate(run):
                if key == node and position < resource <= stop:
                    rest = [(node, resource, stop)] if resource < stop else []
                    self.runs[lease] = rest + run[index + 1 :]

    def end_run(self, lease: int) -> None:
        self.plan.end(lease)
        del self.runs[lease], self.ends[lease]

    def draw_lease(self, data: st.DataObject) -> int | None:
        leases = [lease for lease, run in self.runs.items() if run]
        return data.draw(st.sampled_from(leases)) if leases else None

    def draw_held(self, data: st.DataObject) -> list[CheckpointRef]:
        saved = [CheckpointRef(*position) for position in sorted(self.saved)]
        return data.draw(st.lists(st.sampled_from(saved), max_size=3)) if saved else []


PlanBesideAlgorithm.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
test_the_tree_is_always_what_algorithm_1_generates = PlanBesideAlgorithm.TestCase
