"""What a unit of each node takes, and how a measure is handed on."""

from __future__ import annotations

from collections.abc import Iterable

from asyncsearch.ids import NodeKey
from asyncsearch.plan.costs import DEFAULT_COST, Costs
from asyncsearch.plan.nodes import PlanNode


class Family:
    """A parent, which takes the mean, and its children."""

    def __init__(self, children: int) -> None:
        self.origin = PlanNode(NodeKey(""), 0, None, DEFAULT_COST)
        self.nodes = {self.origin.key: self.origin}
        self.origin.children = {}
        for number in range(children):
            key = NodeKey(f"{number:02d}")
            self.nodes[key] = self.origin.children[key] = PlanNode(key, 0, self.origin, DEFAULT_COST)
        self.costs = Costs(self.origin)

    def drop(self, numbers: Iterable[int]) -> None:
        assert self.origin.children is not None
        for number in numbers:
            key = NodeKey(f"{number:02d}")
            del self.nodes[key], self.origin.children[key]

    def measure_elsewhere(self, seconds: float) -> None:
        """Measure a node that is not in the tree, so that the mean changes and nothing else."""
        self.costs.measure(NodeKey(f"elsewhere {seconds}"), seconds, None, is_kept=False)

    def changed(self) -> list[str]:
        return [node.key for node in self.costs.changed(self.nodes)]


def names(numbers: Iterable[int]) -> list[str]:
    return [f"{number:02d}" for number in numbers]


def test_a_measure_is_handed_on_to_a_few_nodes_at_a_time_nearest_first() -> None:
    family = Family(20)
    family.measure_elsewhere(1.0)
    assert family.changed() == []
    family.measure_elsewhere(3.0)
    assert [family.changed() for _ in range(3)] == [names(range(8)), names(range(8, 16)), names(range(16, 20))]
    assert {node.cost for node in family.nodes.values()} == {2 * DEFAULT_COST}


def test_nodes_that_are_gone_take_no_part_in_handing_costs_on() -> None:
    family = Family(20)
    family.measure_elsewhere(1.0)
    family.measure_elsewhere(3.0)
    family.drop(range(0, 20, 2))
    assert family.changed() == names(range(1, 17, 2))
    assert family.changed() == names((17, 19))


def test_a_restored_plan_inherits_costs_after_nodes_are_gone_as_any() -> None:
    family, again = Family(30), Family(30)
    family.measure_elsewhere(1.0)
    family.measure_elsewhere(3.0)
    family.drop(range(3, 27))
    again.drop(range(3, 27))
    again.costs.restore(family.costs.snapshot(family.nodes), again.nodes)
    assert family.changed() == again.changed() == names((0, 1, 2, 27, 28, 29))
    assert family.costs.snapshot(family.nodes) == again.costs.snapshot(again.nodes)


def test_one_that_came_again_under_its_key_is_not_the_one_that_waited() -> None:
    family = Family(2)
    family.measure_elsewhere(1.0)
    family.measure_elsewhere(3.0)
    family.drop([0])
    key = NodeKey("00")
    new = family.nodes[key] = PlanNode(key, 0, family.origin, family.costs.of(key, family.origin))
    assert new.cost == 2 * DEFAULT_COST
    assert family.changed() == names([1])


def test_a_measure_that_hardly_differs_changes_nothing() -> None:
    family = Family(2)
    family.measure_elsewhere(1.0)
    family.measure_elsewhere(1.1)
    assert family.changed() == []
