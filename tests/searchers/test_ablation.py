"""An ablation study trains one configuration, and the same without each component, with every seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncsearch import Ablation, StandaloneTrial, Study, choice, uniform
from asyncsearch.ablation import chosen
from asyncsearch.ablation.left_out import KINDS, NOTHING, Ablated, Component, TrialAblation
from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.space import Space
from asyncsearch.testing import SearcherConformance
from asyncsearch.trial import Params


def proposals(searcher: Ablation, space: dict[str, Any] | None = None) -> list[Params]:
    extended = searcher.extended(Space.of(space or {"lr": 0.1}))
    state = searcher.begin(extended, 0)
    length = state.length()
    assert length is not None
    assert state.propose(length) is None
    found = [state.propose(number) for number in range(length)]
    for params in found:
        assert params is not None
        extended.validate(params)
    return [params for params in found if params is not None]


def test_each_seed_has_the_base_and_every_variant_in_one_order() -> None:
    found = proposals(Ablation(features=["age"], layers=["fc"], custom=["mixup"], seeds=[4, 2]))
    words = ["nothing", "feature:age", "layer:fc", "custom:mixup"]
    assert [(one["seed"], one["ablated"]) for one in found] == [(seed, word) for seed in (4, 2) for word in words]
    assert all(one["lr"] == 0.1 for one in found)


def test_groups_and_pairs_are_left_out_together() -> None:
    features = {"age": 0, "sex": 1}
    searcher = Ablation(features=features, custom=["mixup"], groups={"all": ["age", "sex", "mixup"]}, pairs=True)
    age, sex, mixup = Component("feature", "0", "age"), Component("feature", "1", "sex"), Component("custom", "mixup")
    assert searcher.variants() == [
        Ablated((Component("feature", "0"),), "age"),
        Ablated((Component("feature", "1"),), "sex"),
        Ablated((mixup,)),
        Ablated((age, sex, mixup), "all"),
        Ablated((age, sex)),
        Ablated((age, mixup)),
        Ablated((sex, mixup)),
    ]


def test_a_pair_that_is_a_group_is_trained_once() -> None:
    searcher = Ablation(features=["age", "sex"], groups={"body": ["sex", "age"]}, pairs=True, seeds=1)
    assert [str(Ablated.of(one["ablated"])) for one in proposals(searcher)] == [
        "nothing", "feature age", "feature sex", "body",
    ]  # fmt: skip


def test_a_study_goes_on_with_the_variants_that_it_began_with() -> None:
    values = ["nothing", "feature:age", "both=feature:age", "feature:age+feature:sex"]
    space = Space.of({"ablated": choice(*values), "seed": choice(0), "lr": 0.1})
    state = Ablation(features=["age"], seeds=1).begin(space, 0)
    assert [params["ablated"] for params in map(state.propose, range(4)) if params] == values


def test_a_base_may_be_the_best_of_a_search() -> None:
    searched = {"lr": uniform(0.0, 1.0), "net": {"kind": choice("a", "b"), "width": 8}}
    base = {"lr": 0.25, "net": {"kind": "b", "width": 8}}
    found = proposals(Ablation(custom=["x"], seeds=1, base=base), searched)
    assert [{name: one[name] for name in base} for one in found] == [base, base]


def test_a_configuration_that_is_not_one_is_refused_with_the_names() -> None:
    with pytest.raises(SpaceError, match=r"lr, kind: .*best_params"):
        proposals(Ablation(custom=["x"]), {"lr": uniform(0.0, 1.0), "kind": choice("a", "b"), "width": 8})


@pytest.mark.parametrize("name", ["ablated", "seed"])
def test_the_parameters_that_it_adds_are_its_own(name: str) -> None:
    with pytest.raises(SpaceError, match=f"{name}: .*by another name"):
        Ablation(custom=["x"]).extended(Space.of({name: 1}))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "features=\\['age', 'bmi'\\]"),
        ({"features": "age"}, "write a list, features="),
        ({"features": None}, "features=None is no list of names"),
        ({"layers": 3}, "layers=3 is no list of names"),
        ({"layers": {"head": ["fc1", "fc2"]}}, "'fc2'\\] is no name of a layer: .* groups="),
        ({"features": [["age", "bmi"]], "fill": True}, "'bmi'\\] is no name of a feature: .* groups="),
        ({"features": ["a", "a"]}, "'a' is given twice"),
        ({"features": ["a"], "layers": ["a"]}, "'a' is given twice"),
        ({"layers": [""]}, "has an empty name"),
        ({"features": ["age"], "groups": {"g": ["ages"]}}, "did you mean 'age'"),
        ({"features": ["age"], "groups": {"g": []}}, "'g' is empty"),
        ({"features": ["age"], "groups": {"age": ["age"]}}, "name of a component"),
        ({"features": ["age"], "groups": [["age"]]}, "write name -> list"),
        ({"features": ["a", "b"], "groups": {"g": ["a", "a"]}}, "'g' names 'feature a' twice"),
        ({"features": {"a": 0}, "groups": {"g": ["a"]}}, "'g' leaves out what 'a' does"),
        ({"features": ["a", "b"], "groups": {"g": ["a", "b"], "h": ["b", "a"]}}, "'h' leaves out what 'g' does"),
        ({"layers": ["mix*"], "custom": ["mixup"]}, "'mixup' fits 'mix\\*'"),
        ({"features": {"a": 0, "b": 0}}, "'b' and 'a' are the same feature"),
        ({"features": ["age"], "groups": {"body": "age"}}, "'age' is no list of names"),
        ({"features": ["age"], "groups": {"body": 3}}, "groups: 3 is no list of names"),
        ({"features": ["age"], "seeds": True}, "different integers"),
        ({"features": ["age"], "seeds": [0, True]}, "different integers"),
        ({"features": ["age"], "seeds": [0.0]}, "different integers"),
        ({"features": ["age"], "seeds": [-1]}, "different integers"),
        ({"features": ["age"], "seeds": 0}, "seeds=3"),
        ({"features": ["age"], "seeds": [1, 1]}, "different integers"),
        ({"features": ["age"], "seeds": "3"}, "different integers"),
    ],
)
def test_what_cannot_be_is_answered_by_what_to_write(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Ablation(**arguments)


names = st.text(min_size=1, max_size=6)


@example([("custom", "%3A")], "%25=")
@given(st.lists(st.tuples(st.sampled_from(KINDS), names), min_size=1, max_size=4), st.one_of(st.just(""), names))
def test_what_is_left_out_is_read_from_the_parameter_as_it_was_written(
    parts: list[tuple[str, str]], label: str
) -> None:
    ablated = Ablated(tuple(Component(*part) for part in parts), label)
    assert Ablated.of(ablated.value) == ablated


@pytest.mark.parametrize("value", ["age", "column:age", "layer", 3, ["layer:fc"], "a=b"])
def test_a_parameter_of_that_name_that_is_no_ablation_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="by another name"):
        TrialAblation(value)


def test_user_code_asks_what_is_there() -> None:
    base, without = TrialAblation(None), TrialAblation("both=feature:age+custom:mixup")
    assert not base
    assert without
    assert [base.keeps(name) for name in ("age", "mixup", "lr")] == [True, True, True]
    assert [without.keeps(name) for name in ("age", "mixup", "lr")] == [False, False, True]
    assert (str(base), str(without)) == (NOTHING, "both")


@pytest.mark.parametrize(
    ("searcher", "names"),
    [
        (Ablation(features={"age": 0}), {"age", "0"}),
        (Ablation(features={"age": 0}, custom=["mixup"], pairs=True), {"age", "0", "mixup"}),
        (Ablation(features=["age", "sex"], groups={"body": ["age", "sex"]}), {"age", "sex", "body"}),
        (Ablation(layers=["body.*"]), {"body.*", "body.0"}),
        (Ablation(features=["s?"]), {"s?", "s1", "s*"}),
        (Ablation(layers={"head": abs}), {"head"}),
        (Ablation(custom=["s*"]), {"s*"}),
    ],
)
def test_what_is_left_out_is_known_by_each_of_its_names(searcher: Ablation, names: set[str]) -> None:
    without = TrialAblation(searcher.variants()[-1].value)
    asked = {"age", "0", "mixup", "sex", "body", "body.*", "body.0", "s*", "s?", "s1", "head", "lr"}
    assert {name for name in asked if not without.keeps(name)} == names


def test_a_function_changes_its_component_and_a_feature_is_always_one() -> None:
    both = Ablation(features={"rows": lambda x: [*x, "data"]}, layers={"net": lambda x: [*x, "net"]}, pairs=True)
    without = TrialAblation(both.variants()[-1].value)
    assert (without.data([]), without.model([])) == (["data"], ["net"])
    assert str(TrialAblation("filled:age")) == str(TrialAblation("feature:age")) == "feature age"
    with pytest.raises(UsageError, match=r"leaves 'rows' out is not known .* build the same Ablation"):
        TrialAblation("rows=data:0123").data([])
    assert chosen(["w[0]"], ["w[0]"], "Net") == ["w[0]"], "a name may look like a pattern"


def test_a_trial_has_the_seed_of_its_parameter(tmp_path: Any) -> None:
    def train(trial: Any) -> None:
        trial.report(loss=trial.seed + 100 * trial.ablation.keeps("x"))

    study = Study(
        train,
        space={"lr": 0.1},
        searcher=Ablation(custom=["x"], seeds=[7, 3]),
        metric="loss",
        mode="min",
        seed=50,
        store=tmp_path / "s",
        backend="inline",
    ).run(display="none")
    assert [trial.value for trial in study.trials] == [107.0, 7.0, 103.0, 3.0]
    assert StandaloneTrial({"seed": 7}).seed == 7
    assert StandaloneTrial({"seed": 7}, seed=1).seed == 1


class TestAblation(SearcherConformance):
    """The laws of all searchers."""

    parameters = {"lr": 0.1, "model": {"layers": 2, "width": 16}}  # noqa: RUF012
    draws = False

    def test_initial_points_come_first_and_in_order(self) -> None:
        """One initial point is the base; of two it cannot tell which is."""
        point: dict[str, Any] = {"lr": 0.01}
        free = {"lr": uniform(0.0, 1.0)}
        one, two = (self.make().extended(Space(free, initial=[point] * count)) for count in (1, 2))
        assert self.make().begin(one, 0).propose(0) == {"lr": 0.01, "ablated": "nothing", "seed": 0}
        with pytest.raises(SpaceError, match="one initial point"):
            self.make().begin(two, 0)

    def make(self) -> Ablation:
        return Ablation(features=["age", "bmi"], pairs=True, seeds=4)


@pytest.mark.parametrize("seeds", [3, np.int64(3), np.arange(3), [np.int32(0), 1, 2], (one for one in range(3))])
def test_seeds_are_integers_of_any_kind_that_the_journal_can_hold(seeds: Any) -> None:
    made = Ablation(features=["age"], seeds=seeds)
    assert made.seeds == (0, 1, 2)
    assert all(type(seed) is int for seed in made.seeds)
