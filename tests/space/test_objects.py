"""Any object as a value of a choice: its name in params, journal and tables, and the object itself in trials."""

from __future__ import annotations

import enum
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch import OptunaSearch, Space, Study, choice, uniform
from asyncsearch.errors import SpaceError
from asyncsearch.launch.bundle import pack
from asyncsearch.old_pickles import loads
from asyncsearch.sequences import objects, present
from asyncsearch.sequences.objects import name_of
from asyncsearch.trainable import TrialContext, WithFunctions


class Adam:
    """An optimizer."""


class SGD:
    """Another one."""


class Color(enum.Enum):
    """What JSON lacks."""

    RED = 1


def relu(x: float) -> float:
    return max(x, 0)


def other_relu() -> Any:
    def relu(x: float) -> float:
        return max(x, 0.1)

    return relu


ONE, OTHER, TABLE = Adam(), Adam(), np.arange(3)
SPACE: dict[str, Any] = {
    "x": uniform(0, 1),
    "optimizer": choice(Adam, SGD),
    "momentum": uniform(0, 1).when(optimizer=SGD),
    "model": choice(ONE, OTHER, "none"),
    "table": choice(TABLE, functools.partial(relu, 3), {"of": Color.RED}),
}


def trains(trial: TrialContext) -> None:
    params = trial.params
    assert params["optimizer"] in (Adam, SGD)
    assert ("momentum" in params) == (params["optimizer"] is SGD)
    assert any(params["model"] is one for one in (ONE, OTHER, "none"))
    assert (
        params["table"] is TABLE or getattr(params["table"], "func", None) is relu or params["table"]["of"] is Color.RED
    )
    for unit in range(3):
        assert trial.params["table"] is params["table"]
        trial.report(loss=params["x"] + (params["optimizer"] is Adam) + unit)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process know no objects, as a new one."""
    monkeypatch.setattr(objects, "_known", objects._KnownObjects())


def test_a_trial_gets_the_object_and_everything_else_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(
        SPACE,
        constraints=[lambda params: params["optimizer"] is SGD or params["model"] is not ONE],
        initial=[{"optimizer": SGD, "model": OTHER, "table": TABLE}],
    )
    study = Study(
        trains, space=space, metric="loss", mode="min", searcher=OptunaSearch("tpe"), store=tmp_path, backend="inline"
    )
    study.run(8, display="none")
    assert {trial.state.name for trial in study.trials} == {"COMPLETED"}, study.trials[0].reason
    assert study.best_params["optimizer"] is SGD
    assert study.best_trial.params["optimizer"] is SGD
    first = study.trials[0].params
    assert first["optimizer"]["name"] == "SGD"
    assert "optimizer=SGD" in study.explain(0)
    assert "model=Adam object (2)" in str(study.trials[0])
    assert "array([0, 1, 2])" in [str(value) for value in study.trials_dataframe()["params.table"]]
    assert "choice(Adam, SGD)" in "\n".join(space.describe())

    forget(monkeypatch)
    read = Study.open(tmp_path)
    assert read.best_params["optimizer"]["name"] == "SGD"
    assert "'optimizer': SGD" in repr(read.best_params)


def test_two_searches_keep_objects_apart_that_are_just_alike(tmp_path: Path) -> None:
    mine = [Adam(), Adam()]
    studies = [
        Study(
            lambda trial: {"loss": 1.0},
            space={"model": choice(one)},
            metric="loss",
            mode="min",
            store=tmp_path / str(at),
            backend="inline",
        )
        for at, one in enumerate(mine)
    ]
    for study in studies:
        study.run(1, display="none")
    for study, one in zip(studies, mine, strict=True):
        assert study.best_params["model"] is one


def test_a_worker_knows_the_objects_with_the_trainable(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(SPACE)
    sent = pack(WithFunctions(trains, {}, {}, space.objects)).data
    params = space.plain({"x": 0.5, "optimizer": Adam, "model": OTHER, "table": TABLE})
    forget(monkeypatch)
    with pytest.raises(SpaceError, match="'Adam' of a choice is not known here"):
        present(params, 0)
    loads(sent)
    known = present(params, 0)
    assert known["optimizer"] is Adam
    assert known["table"].tolist() == [0, 1, 2]


def test_a_name_stays_after_an_edit_of_what_it_names() -> None:
    before = Space({"f": choice(relu, Adam)})
    edited = other_relu()
    edited.__qualname__ = "relu"
    after = Space({"f": choice(edited, Adam)})
    assert before.describe() == after.describe()
    found = after.plain(before.plain({"f": relu}))
    assert present(found, 0)["f"] is edited


NAMES = [
    (Adam, "Adam"),
    (other_relu(), "relu"),
    (Color.RED, "Color.RED"),
    (functools.partial(max, 3, key=Adam), "partial(max, 3, key=Adam)"),
    ([relu, {"a": Adam}, (1,)], "[relu, {'a': Adam}, (1,)]"),
    (Adam(), "Adam object"),
    (frozenset({"b", "a"}), "{'a', 'b'}"),
    (Adam().__str__, "object.__str__"),
    (iter(()), "tuple_iterator object"),
]


@pytest.mark.parametrize(("value", "name"), NAMES, ids=[name for _, name in NAMES])
def test_an_object_has_a_name_that_is_the_same_in_each_process(value: Any, name: str) -> None:
    assert name_of(value) == name


def test_objects_of_one_name_are_told_apart() -> None:
    assert choice(relu, other_relu(), Adam()).call() == (
        f"choice({__name__}.relu (1), {__name__}.relu (2), Adam object)"
    )
    many = choice(ONE, OTHER)
    assert [present({"m": many.accept(one)}, 0)["m"] for one in (ONE, OTHER)] == [ONE, OTHER]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: choice(Adam, 1, Adam), "has Adam, the same value twice"),
        (lambda: choice(float("nan"), Adam), "not finite"),
        (lambda: choice([uniform(0, 1)], Adam), "a domain among its values"),
        (lambda: choice(Adam, SGD).accept(relu), r"relu \(a function\) is none of choice\(Adam, SGD\)"),
        (lambda: Space({"a": choice(Adam), "b": uniform(0, 1).when(a=SGD)}), "can never be"),
        (lambda: Space({"a": Adam}), r"choice\(Adam\)"),
    ],
    ids=["twice", "nan", "domain", "other", "condition", "constant"],
)
def test_what_no_choice_can_have_is_refused(make: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        make()
