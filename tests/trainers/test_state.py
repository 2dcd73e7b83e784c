"""``trial.epochs(state={...})`` with numpy and Python: restored in place, or refused with what to write instead."""

from __future__ import annotations

import collections
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch import ASHA, FIFO, StandaloneTrial, Study, check, load_state, loguniform
from asyncsearch.errors import StoreError, UsageError
from asyncsearch.sequences import multistep
from asyncsearch.trainable import TrialContext
from asyncsearch.trainers.state.saved_state import SavedState


def descend(trial: TrialContext) -> None:
    """Descends with momentum and noise, and depends on every object in its state."""
    random.seed(trial.seed)
    rng = np.random.default_rng(trial.seed)
    weights, velocity = np.ones(3), np.zeros(3)
    memory: dict[str, Any] = {"steps": 0, "best": None, "losses": collections.deque(maxlen=2)}
    state = {"weights": weights, "velocity": velocity, "rng": rng, "memory": memory}
    for _ in trial.epochs(state=state):
        velocity *= 0.9
        velocity -= trial.params["lr"] * (weights + 0.1 * rng.normal(size=3) + 0.1 * random.random())
        weights += velocity
        memory["steps"] += 1
        memory["losses"].append(float(weights @ weights) + sum(memory["losses"]) / memory["steps"])
        memory["best"] = weights.copy() if memory["best"] is None else np.minimum(weights, memory["best"])
        trial.report(loss=memory["losses"][-1] + memory["best"].sum())


def test_a_resumed_training_is_the_uninterrupted_one() -> None:
    result = check(descend, {"lr": 0.1}, units=6, cut=3, processes=False)
    assert result.ok, result


def test_check_names_what_the_state_leaves_out() -> None:
    def forgetful(trial: TrialContext) -> None:
        weights, velocity = np.ones(3), np.zeros(3)
        for _ in trial.epochs(state={"weights": weights}):
            velocity *= 0.9
            velocity -= trial.params["lr"] * weights
            weights += velocity
            trial.report(loss=weights.sum())

    result = check(forgetful, {"lr": 0.1}, units=4, processes=False)
    assert not result.ok
    assert "velocity" in str(result)


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_search_that_pauses_trials_resumes_them_where_they_were(tmp_path: Path, backend: str) -> None:
    space = {"lr": loguniform(1e-3, 0.3)}
    scheduler = ASHA(max_resource=9, reduction_factor=3)
    study = Study(descend, space=space, metric="loss", mode="min", scheduler=scheduler, store=tmp_path, backend=backend)
    study.run(num_trials=9, parallelism=2 if backend == "processes" else 1, display="none")
    best = study.best_trial
    alone = StandaloneTrial(best.params, max_resource=9, seed=study.config.seed)
    descend(alone)
    assert (best.resource, best.value) == (9, alone.reports[-1][1]["loss"])
    weights = np.zeros(3)
    with study.checkpoint() as path:
        load_state(path, {"weights": weights})
    assert weights.any()


def changing(trial: TrialContext, *, reads: bool = False, **options: Any) -> None:
    """Trains with the rate that it has read before the loop, unless it reads it inside."""
    rate, weights = trial.params["lr"], np.ones(1)
    for _ in trial.epochs(state={"weights": weights}, **options):
        weights -= (trial.params["lr"] if reads else rate) * weights
        trial.report(loss=weights[0])


def test_a_changed_value_that_the_loop_does_not_take_over_is_refused() -> None:
    params = {"lr": multistep(0.5, milestones=[2], gamma=0.1)}
    with pytest.raises(UsageError, match="lr changed before unit 3, and the loop did not read"):
        changing(StandaloneTrial(params, max_resource=4))
    changing(StandaloneTrial(params, max_resource=4), reads=True)
    changing(StandaloneTrial(params, max_resource=4), update=lambda values: None)
    changing(StandaloneTrial(params, max_resource=2))


def test_a_value_that_changed_during_a_pause_is_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changing(StandaloneTrial({"lr": 0.5}, max_resource=2, folder=tmp_path))
    params = {"lr": multistep(0.5, milestones=[2], gamma=0.1)}
    changing(StandaloneTrial(params, max_resource=4, folder=tmp_path), reads=True)
    assert capsys.readouterr().err == ""
    shutil.rmtree(tmp_path / "4")
    changing(StandaloneTrial(params, max_resource=4, folder=tmp_path))
    assert "lr changed before unit 3" in capsys.readouterr().err


def saved_and_loaded(tmp_path: Path, old: Any, new: Any) -> Any:
    SavedState({"it": old}).save(tmp_path / "checkpoint")
    SavedState({"it": new}).load(tmp_path / "checkpoint")
    return new


GENERATORS: list[Callable[[int], Any]] = [
    random.Random,
    np.random.default_rng,
    np.random.RandomState,
    np.random.MT19937,
    np.random.SFC64,
    lambda seed: np.random.Generator(np.random.Philox(seed)),
]


def drawn(generator: Any) -> float:
    if isinstance(generator, random.Random):
        return generator.gauss(0, 1)
    if isinstance(generator, np.random.BitGenerator):
        return float(generator.random_raw())
    return float(generator.standard_normal())


@pytest.mark.parametrize("make", GENERATORS)
def test_a_generator_goes_on_where_it_was(tmp_path: Path, make: Callable[[int], Any]) -> None:
    old, new = make(1), make(2)
    drawn(old)
    assert drawn(saved_and_loaded(tmp_path, old, new)) == drawn(old)


def test_a_generator_does_not_spawn_a_child_twice(tmp_path: Path) -> None:
    old, new = np.random.default_rng(1), np.random.default_rng(1)
    old.spawn(2)
    child, expected = saved_and_loaded(tmp_path, old, new).spawn(1)[0], old.spawn(1)[0]
    assert child.random() == expected.random()


def test_the_global_generators_are_saved_without_being_named(tmp_path: Path) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    SavedState({}).save(tmp_path / "checkpoint")
    expected = random.random(), np.random.rand()  # noqa: NPY002
    SavedState({}).load(tmp_path / "checkpoint")
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002


VALUES: list[Any] = [
    {"a": 1, "b": [1.5, float("nan"), float("-inf")], "c": None, 3: (1, "x"), "d": {"e": b"\0"}, (1, 2): 1 + 2j},
    [True, 2**200, np.float32(0.1), np.int64(7), np.bool_(True)],
    {"array": np.arange(6, dtype=np.int16).reshape(2, 3), "empty": np.zeros((0, 2)), "text": np.array(["ab", "c"])},
    collections.deque([1, 2, 3], maxlen=3),
    {1, 2, 3},
    collections.OrderedDict(b=1, a={"float": "nan"}),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_collection_is_restored_in_place_with_its_types(tmp_path: Path, value: Any) -> None:
    new = type(value)()
    assert saved_and_loaded(tmp_path, value, new) is new
    assert [*map(repr, new)] == [*map(repr, value)]
    assert repr(new) == repr(value).replace(", maxlen=3", "")


def test_what_training_added_or_removed_is_so_after_restoring(tmp_path: Path) -> None:
    kept = np.zeros(2)
    new = {"gone": 1, "kept": kept, "count": 0}
    saved_and_loaded(tmp_path, {"kept": np.ones(2), "count": 5, "history": [1, 2]}, new)
    assert new["kept"] is kept
    assert (kept.tolist(), new["count"], new["history"], "gone" in new) == ([1, 1], 5, [1, 2], False)


class Counter:
    """Has the two methods that anything may have."""

    def __init__(self) -> None:
        self.count, self.past = 0, np.zeros(2)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "past": self.past}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.past = state["count"], state["past"]


def test_whatever_has_the_two_methods_is_saved(tmp_path: Path) -> None:
    old = Counter()
    old.count, old.past = 3, np.arange(2.0)
    new = saved_and_loaded(tmp_path, old, Counter())
    assert (new.count, new.past.tolist()) == (3, [0, 1])


REFUSED: list[tuple[Any, str]] = [
    (3, 'counters = {"step": 0}'),
    ("text", 'counters = {"step": 0}'),
    (None, 'counters = {"step": 0}'),
    (object(), "state_dict() and load_state_dict(state)"),
    (len, "state_dict() and load_state_dict(state)"),
    (Counter, "state_dict() and load_state_dict(state)"),
    (iter([1]), "make it anew in each epoch"),
    (random, "global generators are saved without being named"),
    (random.SystemRandom(), "random.Random(trial.seed)"),
    (np.array([object()]), "array.astype"),
    (np.ma.masked_array([1.0]), "array.data and array.mask"),
    (np.broadcast_to(np.zeros(1), (2,)), "array.copy()"),
    ([np.zeros(1), {"deep": object()}], "state['it'][1]['deep']"),
]


@pytest.mark.parametrize(("value", "advice"), REFUSED, ids=[advice for _, advice in REFUSED])
def test_what_cannot_be_saved_is_refused_before_any_training(value: Any, advice: str) -> None:
    trial = StandaloneTrial({}, max_resource=1)
    with pytest.raises(UsageError, match=re.escape(advice)) as error:
        trial.epochs(state={"it": value})
    assert "state['it']" in str(error.value)


class Booster:
    def save_model(self, path: str) -> None: ...
    def load_model(self, path: str) -> None: ...


def test_a_model_that_saves_itself_is_sent_to_save_and_load() -> None:
    with pytest.raises(UsageError, match=re.escape("save=model.save_model, load=model.load_model")):
        SavedState({"booster": Booster()})


def test_a_state_without_names_is_refused() -> None:
    with pytest.raises(UsageError, match=re.escape('trial.epochs(state={"net": net, "opt": opt})')):
        StandaloneTrial({}, max_resource=1).epochs(state=np.zeros(3))  # type: ignore[arg-type]


def test_state_beside_save_or_load_is_refused() -> None:
    with pytest.raises(UsageError, match="leave out either"):
        StandaloneTrial({}, max_resource=1).epochs(state={}, save=lambda path: None)


MISFITS: list[tuple[Any, Any, str]] = [
    (np.zeros(3), np.zeros(2), "shape (2,)"),
    (np.zeros(3), np.zeros(3, np.float32), "float32"),
    (np.zeros(3), {"a": 1}, "it is of kind 'dict' now, and one of kind 'array' was saved"),
    (Counter(), np.random.default_rng(1), "it is of kind 'numpy generator' now"),
    (np.random.default_rng(1), np.random.RandomState(1), "it is of type RandomState now"),
    ({"a": np.zeros(1)}, {"a": np.zeros(1), "b": Counter()}, "'b' is in it now"),
    ({"a": Counter()}, {}, "it is None now, and an object of kind 'state_dict' was saved"),
]


@pytest.mark.parametrize(("old", "new", "why"), MISFITS, ids=lambda value: str(value)[:30])
def test_an_object_unlike_the_saved_one_is_refused(tmp_path: Path, old: Any, new: Any, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        saved_and_loaded(tmp_path, old, new)


def test_another_set_of_names_is_refused(tmp_path: Path) -> None:
    SavedState({"a": np.zeros(1)}).save(tmp_path / "checkpoint")
    with pytest.raises(UsageError, match="holds 'a', and state= names 'a', 'b'"):
        SavedState({"a": np.zeros(1), "b": np.zeros(1)}).load(tmp_path / "checkpoint")
    with pytest.raises(UsageError, match="holds 'a', and not 'b'"):
        load_state(tmp_path / "checkpoint", {"b": np.zeros(1)})


def test_a_checkpoint_of_another_save_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("mine")
    with pytest.raises(StoreError, match="load= that fits the save="):
        SavedState({}).load(tmp_path / "checkpoint")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    SavedState({}).save(tmp_path / "checkpoint")
    file = tmp_path / "checkpoint" / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 2}))
    with pytest.raises(StoreError, match="newer version"):
        SavedState({}).load(tmp_path / "checkpoint")


def test_a_part_that_turns_out_unsaveable_is_named(tmp_path: Path) -> None:
    counter = Counter()
    counter.count = object()  # type: ignore[assignment]
    with pytest.raises(UsageError, match=re.escape("state['it'].state_dict()['count'] is of type object")):
        SavedState({"it": counter}).save(tmp_path / "checkpoint")


def test_the_runner_imports_no_framework_for_a_state() -> None:
    code = """
import sys, tempfile, pathlib
from asyncsearch.trainers.state.saved_state import SavedState
path = pathlib.Path(tempfile.mkdtemp()) / "checkpoint"
state = {"counters": {"step": 1}}
SavedState(state).save(path)
SavedState(state).load(path)
print(*(name for name in ("numpy", "torch", "tensorflow", "keras", "sklearn", "pickle") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_an_object_replaced_in_the_mapping_is_the_one_that_is_saved(tmp_path: Path) -> None:
    def exchanging(trial: TrialContext) -> None:
        state = {"weights": np.zeros(1)}
        for _ in trial.epochs(state=state):
            state["weights"] = state["weights"] + 1
            trial.report(total=state["weights"].sum())

    space = {"lr": loguniform(1e-3, 1)}
    study = Study(
        exchanging,
        space=space,
        metric="total",
        mode="max",
        scheduler=FIFO(max_resource=3),
        store=tmp_path,
        save_every=1,
    )
    study.run(num_trials=1, parallelism=1, display="none")
    found = np.zeros(1)
    with study.checkpoint() as path:
        load_state(path, {"weights": found})
    assert found == 3
