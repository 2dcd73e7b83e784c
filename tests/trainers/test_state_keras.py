"""``trial.epochs(state={...})`` with Keras: a loop over ``fit`` or over batches resumes bit by bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch import ASHA, StandaloneTrial, Study, check, load_state, loguniform
from asyncsearch.errors import UsageError
from asyncsearch.trainable import TrialContext
from tests.shares import takes_long
from tests.trainers.tools import saved_and_loaded

pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")


def network() -> Any:
    """Return a network that has no variables before it has seen data."""
    layers = keras.layers
    return keras.Sequential(
        [layers.Dense(8, "relu"), layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(2)]
    )


def plain_fit(trial: TrialContext) -> None:
    keras.utils.set_random_seed(trial.seed)
    x = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
    y = (x[:, 0] > 0).astype("int32")
    net = network()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.Adam(trial.params["lr"]), loss)
    for _ in trial.epochs(state={"net": net}):
        history = net.fit(x, y, batch_size=16, verbose=0)
        trial.report(loss=history.history["loss"][0])


def test_a_plain_fit_resumes_bit_by_bit_from_a_network_that_is_not_built() -> None:
    result = check(plain_fit, {"lr": 0.05}, units=2, processes=False)
    assert result.ok, result


@pytest.mark.slow
@takes_long
@pytest.mark.usefixtures("keras_workers")
def test_a_search_pauses_and_resumes_a_plain_fit_on_processes(tmp_path: Path) -> None:
    scheduler = ASHA(max_resource=4, reduction_factor=2)
    space = {"lr": loguniform(1e-3, 0.3)}
    study = Study(plain_fit, space=space, metric="loss", mode="min", scheduler=scheduler, store=tmp_path)
    study.run(num_trials=4, parallelism=2, display="none")
    best = study.best_trial
    alone = StandaloneTrial(best.params, max_resource=4, seed=study.config.seed)
    plain_fit(alone)
    assert best.resource == 4
    assert best.value == pytest.approx(alone.reports[-1][1]["loss"], rel=1e-4)  # this process has more threads
    net = network()
    with study.checkpoint() as path, pytest.raises(UsageError, match=re.escape("call compile()")):
        load_state(path, {"net": net})
    net.compile("adam")
    with study.checkpoint() as path:
        load_state(path, {"net": net})
    assert net.built


def test_an_optimizer_of_a_loop_of_ones_own_is_saved_once_it_is_built(tmp_path: Path) -> None:
    variable = keras.Variable(np.ones(3, "float32"))
    old, new = keras.optimizers.Adam(0.5), keras.optimizers.Adam(0.1)
    old.build([variable])
    old.apply([keras.ops.ones(3)])
    with pytest.raises(UsageError, match=re.escape("call opt.build(net.trainable_variables)")):
        saved_and_loaded(tmp_path / "first", old, new)
    new.build([variable])
    saved_and_loaded(tmp_path, old, new)
    assert [v.numpy().tolist() for v in new.variables] == [v.numpy().tolist() for v in old.variables]


def test_variables_seeds_and_metrics_are_restored_in_place(tmp_path: Path) -> None:
    def members(value: float) -> dict[str, Any]:
        mean = keras.metrics.Mean()
        mean.update_state(value)
        seeds = keras.random.SeedGenerator(int(value))
        return {"mean": mean, "seeds": seeds, "half": keras.Variable(np.full(2, value), dtype="bfloat16")}

    new = saved_and_loaded(tmp_path, members(3.0), members(1.0))
    assert float(new["mean"].result()) == 3.0
    assert new["seeds"].state.numpy().tolist() == keras.random.SeedGenerator(3).state.numpy().tolist()
    assert np.asarray(new["half"].value.numpy(), float).tolist() == [3.0, 3.0]


def test_another_network_or_optimizer_is_refused_by_name(tmp_path: Path) -> None:
    def made(units: int, optimizer: str) -> Any:
        net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
        net.compile(optimizer)
        return net

    with pytest.raises(UsageError, match=re.escape("shape (2, 4)")):
        saved_and_loaded(tmp_path / "shape", made(3, "sgd"), made(4, "sgd"))
    with pytest.raises(UsageError, match="its optimizer is SGD, and Adam was saved"):
        saved_and_loaded(tmp_path / "optimizer", made(3, "adam"), made(3, "sgd"))
