"""The life of a ``Trainer`` whose hyper-parameters change: setup, load, update, train, evaluate, save."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import SaveAt
from asyncsearch.errors import UsageError
from asyncsearch.ids import NodeKey
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.protocol import Amendment
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.sequences import multistep, values, warmup
from asyncsearch.trainable import Trainer, TrialPaused, as_function
from asyncsearch.trial import Params
from asyncsearch.work import Stage
from tests.agent.driver import lease, make_stage
from tests.agent.recorder import Recorder

END = 8
PARAMS: Params = {
    "lr": warmup(2, multistep(0.3, [5], 0.1)).to_json(),
    "bs": values([16, 32], [3]).to_json(),
    "optimizer": values(["sgd", "adam"], [6]).to_json(),
    "width": 4,
}
CALLS: list[tuple[Any, ...]] = []


class Tracing(Trainer):
    """Notes its calls, and has a state in which each of them leaves its mark."""

    def setup(self, hp: Params) -> None:
        CALLS.append(("setup", hp))
        self.hp = dict(hp)
        self.weight, self.kind, self.momentum = 1.0, hp["optimizer"], 0.0

    def update(self, hp: Params) -> None:
        CALLS.append(("update", hp))
        self.hp |= hp
        if "optimizer" in hp:
            self.kind, self.momentum = hp["optimizer"], 0.0  # another optimizer begins with an empty state

    def train(self) -> None:
        CALLS.append(("train", self.trial.resource, self.trial.params))
        assert self.trial.params == self.hp
        self.momentum = 0.9 * self.momentum + self.hp["lr"]
        self.weight = self.weight * 1.1 + self.momentum / self.hp["bs"]

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": self.weight, "lr": self.hp["lr"]}

    def save(self, path: Path) -> None:
        state = {"weight": self.weight, "momentum": self.momentum, "kind": self.kind, "lr": self.hp["lr"]}
        path.write_text(json.dumps(state))

    def load(self, path: Path) -> None:
        state = json.loads(path.read_text())
        CALLS.append(("load", state["kind"]))
        assert state["kind"] == self.kind, "an optimizer's state fits into that optimizer only"
        self.weight, self.momentum, self.hp["lr"] = state["weight"], state["momentum"], state["lr"]


class Constant(Trainer):
    """Cannot take changed values over."""

    def setup(self, hp: Params) -> None:
        CALLS.append(("setup", hp))

    def train(self) -> None:
        CALLS.append(("train",))

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": 1.0}


@pytest.fixture(autouse=True)
def _forget() -> None:
    CALLS.clear()


def stage(start: int, stop: int, *, save: bool = True) -> Stage:
    node = NodeKey(f"{start:032x}")
    return make_stage(node=node, params=PARAMS, start=start, stop=stop, max_resource=END, save=save)


def run(folder: Path, stages: list[Stage], load: Path | None = None, *amendments: Amendment) -> Recorder:
    """Train a lane as a runner does, however it ends."""
    folder.mkdir(exist_ok=True)
    link = Recorder(folder)
    link.coming += amendments
    try:
        as_function(Tracing)(SearchContext(stages, link, load))
    except TrialPaused:
        pass
    return link


def since_load() -> list[tuple[Any, ...]]:
    """What was called after setup and load, if there was one."""
    return [call for call in CALLS if call[0] not in ("setup", "load")]


def test_update_gets_the_values_that_changed_and_only_those(tmp_path: Path) -> None:
    """Trap 2.4.6: full values once, then changes."""
    run(tmp_path, [stage(0, END)])
    assert CALLS[0] == ("setup", {"lr": 0.0, "bs": 16, "optimizer": "sgd", "width": 4})
    updates = [
        (CALLS[at + 1][1], call[1]) for at, call in enumerate(CALLS) if call[0] == "update"
    ]  # (units done, what changed)
    assert updates == [
        (1, {"lr": 0.15}),
        (2, {"lr": 0.3}),
        (3, {"bs": 32}),
        (5, {"lr": 0.03}),
        (6, {"optimizer": "adam"}),
    ]


@pytest.mark.parametrize("cut", range(1, END))
def test_a_path_that_is_cut_anywhere_is_trained_as_if_it_was_not(tmp_path: Path, cut: int) -> None:
    """Traps 2.4.2 and 2.4.7: same calls in each unit, same floats, whichever batch a unit is in."""
    whole = run(tmp_path, [stage(0, END, save=False)])
    expected = since_load()
    CALLS.clear()
    first = run(tmp_path / "first", [stage(0, cut)])
    CALLS[:] = since_load()
    second = run(tmp_path / "second", [stage(cut, END, save=False)], tmp_path / "first" / f"0-{cut}")
    assert since_load() == expected
    assert first.reports + second.reports == whole.reports


@pytest.mark.parametrize("stops", [(3, 8), (1, 2, 3, 4, 5, 6, 7, 8), (6, 7, 8)])
def test_stages_of_one_batch_are_trained_as_one(tmp_path: Path, stops: tuple[int, ...]) -> None:
    whole = run(tmp_path, [stage(0, END)])
    expected = list(CALLS)
    CALLS.clear()
    batch = run(tmp_path, [stage(start, stop) for start, stop in zip((0, *stops), stops, strict=False)])
    assert expected == CALLS
    assert batch.reports == whole.reports


@pytest.mark.parametrize("point", range(1, END))
def test_a_checkpoint_requested_meanwhile_is_as_good_as_a_planned_one(tmp_path: Path, point: int) -> None:
    """Trap 2.4.8: a split of what is running already."""
    whole = run(tmp_path, [stage(0, END)], None, SaveAt(lease(0), NodeKey("0" * 32), point))
    assert (0, point) in whole.saves
    rest = run(tmp_path / "rest", [stage(point, END)], tmp_path / f"0-{point}")
    assert rest.reports == whole.reports[point:]


def test_setup_gets_the_checkpoints_values_and_update_the_changes_since(tmp_path: Path) -> None:
    """Trap 2.4.6: what is loaded must fit, and what it brings back must not hide the new values."""
    run(tmp_path, [stage(0, 6)])
    CALLS.clear()
    run(tmp_path, [stage(6, END)], tmp_path / "0-6")
    assert CALLS[:4] == [
        ("setup", {"lr": 0.03, "bs": 32, "optimizer": "sgd", "width": 4}),
        ("load", "sgd"),
        ("update", {"optimizer": "adam"}),
        ("train", 6, {"lr": 0.03, "bs": 32, "optimizer": "adam", "width": 4}),
    ]


@pytest.mark.parametrize("at", range(1, END + 1))
def test_an_evaluation_alone_reports_what_training_would_have_reported(tmp_path: Path, at: int) -> None:
    """Trap 2.2.f: a checkpoint without metrics."""
    whole = run(tmp_path, [stage(0, at)])
    CALLS.clear()
    alone = run(tmp_path, [stage(at, at)], tmp_path / f"0-{at}")
    assert alone.reports == whole.reports[-1:]
    assert [call[0] for call in CALLS] == ["setup", "load"]


def test_what_setup_does_to_its_dictionary_changes_nothing(tmp_path: Path) -> None:
    class Greedy(Tracing):
        def setup(self, hp: Params) -> None:
            super().setup(hp)
            hp.clear()

    link = Recorder(tmp_path)
    as_function(Greedy)(SearchContext([stage(0, END)], link))
    assert [call[1] for call in CALLS if call[0] == "update"][:2] == [{"lr": 0.15}, {"lr": 0.3}]


def test_a_trainer_without_update_is_refused_before_it_trains(tmp_path: Path) -> None:
    trial = SearchContext([make_stage(stop=3, max_resource=3, params=PARAMS)], Recorder(tmp_path))
    with pytest.raises(UsageError, match=r"Constant has no update\(\) and a hyper-parameter is a sequence: write"):
        as_function(Constant)(trial)
    assert CALLS == []


def test_a_trainer_without_update_trains_constants(tmp_path: Path) -> None:
    as_function(Constant)(SearchContext([make_stage(stop=3, max_resource=3)], Recorder(tmp_path)))
    assert [call[0] for call in CALLS] == ["setup", "train", "train", "train"]
    assert Tracing.can_update()
    assert not Constant.can_update()


def test_outside_a_search_a_trial_shows_present_values_too(tmp_path: Path) -> None:
    inside = run(tmp_path, [stage(0, END)])
    expected = list(CALLS)
    CALLS.clear()
    trial = StandaloneTrial(PARAMS, max_resource=END)
    as_function(Tracing)(trial)
    assert expected == CALLS
    assert trial.reports == inside.reports


def test_outside_a_search_a_sequence_may_be_given_as_it_is(tmp_path: Path) -> None:
    trial = StandaloneTrial({"lr": multistep(0.1, [1])}, max_resource=2)
    assert [trial.params["lr"] for _ in trial.epochs()] == [0.1, 0.01]


def test_outside_a_search_a_trial_resumes_with_the_values_of_then(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", [stage(0, END)])
    reports = []
    for end in (4, 6, END):
        trial = StandaloneTrial(PARAMS, max_resource=end, folder=tmp_path / "alone")
        as_function(Tracing)(trial)
        reports += trial.reports
    assert reports == whole.reports
