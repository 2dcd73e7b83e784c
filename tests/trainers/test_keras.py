"""KerasTrainer: what is interrupted trains on bit by bit, whatever is random, buffered or changed on the way."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch.errors import UsageError
from tests.trainers.tools import Run, Trial, Values, is_resumed_bit_by_bit

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tensorflow: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from asyncsearch.trainers.keras.trainer import KerasTrainer  # noqa: E402  # needs tensorflow
from tests.shares import takes_long  # noqa: E402

BASE: Values = {"lr": 0.1, "momentum": 0.9, "batch_size": 16, "optimizer": "sgd"}
ADAM = BASE | {"lr": 0.01, "optimizer": "adam"}


@pytest.fixture(autouse=True)
def _eager(request: pytest.FixtureRequest) -> Iterator[None]:
    """Train without tracing, which takes most of the time; the tests with Adam trace."""
    tensorflow.config.run_functions_eagerly("adam" not in request.node.name)
    yield
    tensorflow.config.run_functions_eagerly(False)


def blobs() -> tuple[Any, Any]:
    x = np.random.default_rng(1).normal(size=(100, 8)).astype("float32")
    return x, (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)


class Net(KerasTrainer):
    """Has all that a checkpoint can lose: batch norm, dropout with its seed, momentum; an epoch is 100 samples."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        layers = keras.layers
        return keras.Sequential(
            [
                layers.Dense(16),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.Dropout(0.3),
                layers.Dense(3, activation="softmax", dtype="float32"),
            ]
        )

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        if hp["optimizer"] == "adam":
            return keras.optimizers.AdamW(hp["lr"], weight_decay=1e-3)
        return keras.optimizers.SGD(hp["lr"], hp["momentum"])

    def data(self, hp: Mapping[str, Any]) -> Any:
        return blobs(), blobs()


class InsideEpochs(Net):
    samples_per_unit = 70


class Half(Net):
    def model(self, hp: Mapping[str, Any]) -> Any:
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy("mixed_float16")
        try:
            return super().model(hp)
        finally:
            keras.config.set_dtype_policy(before)


class Noisy:
    """Draws from the generators of python and numpy, as augmentation does."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Any:
        x, y = blobs()
        return x[index] + np.float32(random.random() + np.random.rand()), y[index]  # noqa: NPY002


class Augmented(Net):
    def data(self, hp: Mapping[str, Any]) -> Any:
        return Noisy(), blobs()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer_class", "units"),
    [
        (Net, [BASE] * 4),
        pytest.param(Net, [ADAM] * 4, marks=takes_long),
        pytest.param(Net, [BASE | {"batch_size": size} for size in (16, 16, 32, 8)], marks=takes_long),
        pytest.param(InsideEpochs, [ADAM | {"batch_size": size} for size in (16, 16, 32, 8)], marks=takes_long),
        pytest.param(
            Net,
            [BASE | {"lr": lr, "momentum": m} for lr, m in ((0.1, 0.9), (0.1, 0.8), (0.05, 0.7), (0.05, 0.5))],
            marks=takes_long,
        ),
        pytest.param(Net, [BASE, BASE, ADAM, ADAM], marks=takes_long),
        (Net, [BASE, ADAM, ADAM, BASE]),
        (Augmented, [BASE] * 4),
        (Half, [BASE] * 4),
    ],
    ids=[
        "sgd",
        "adam",
        "batch size at a unit",
        "batch size inside an epoch",
        "lr and momentum",
        "another optimizer at the cut",
        "another optimizer on the way",
        "random numbers of python and numpy",
        "float16 with a scaled loss",
    ],
)
def test_two_and_two_units_are_four(trainer_class: type[Any], units: list[Values], tmp_path: Path) -> None:
    assert is_resumed_bit_by_bit(trainer_class, units, tmp_path)


@pytest.mark.parametrize("cut", [pytest.param(1, marks=takes_long), 2])
def test_values_that_change_inside_a_unit_are_the_same_after_a_cut(cut: int, tmp_path: Path) -> None:
    def inside(time: float) -> Values:
        return {"lr": 0.1 * (1 + time % 2)}

    units = [BASE | inside(unit) for unit in range(3)]
    assert is_resumed_bit_by_bit(InsideEpochs, units, tmp_path, inside, cut)


def test_the_learning_rate_of_a_step_is_the_value_at_its_samples() -> None:
    rates: list[float] = []

    class Watched(Net):
        def _train_batch(self, batch: Any) -> None:
            rates.append(float(self.opt.learning_rate))
            super()._train_batch(batch)

    Run(Watched, Trial([BASE | {"batch_size": 50}] * 2, lambda time: {"lr": time})).train(2)
    assert rates == [0.0, 0.5, 1.0, 1.5]


def test_a_new_value_leaves_the_optimizers_state_alone_and_is_used() -> None:
    """Trap 6 of notes/stages.md, section 2.4, and a momentum that a traced function has as a constant."""
    trainer = Run(Net, Trial([BASE])).train(1).trainer
    optimizer, state = trainer.opt, [value.value.numpy() for value in trainer.opt.variables]
    trainer.update({"lr": 0.0, "momentum": 0.5})
    assert trainer.opt is optimizer
    slots = [value.value.numpy() for value in optimizer.variables][2:]
    assert all(map(np.array_equal, state[2:], slots))
    trainer.samples = 84  # a unit of one batch
    trainer._unit_samples = 16
    trainer.train()
    halved = [value.value.numpy() for value in optimizer.variables][2:]
    assert all(np.allclose(after, before / 2) for before, after in zip(slots, halved, strict=True)), "lr is 0"


def test_the_norm_of_a_step_is_at_most_the_limit_of_its_unit() -> None:
    class Clipped(Net):
        clip_grad_norm = 0.01
        batch_size = 100

    values = {"lr": 0.5, "momentum": 0.0, "optimizer": "sgd"}
    units = [values, values | {"clip_grad_norm": 0.002}, values | {"clip_grad_norm": None}]
    run = Run(Clipped, Trial(units))
    for stop, limit in enumerate((0.01, 0.002, None), 1):
        before = [one.numpy() for one in run.trainer.net.trainable_variables]
        run.train(stop)
        after = [one.numpy() for one in run.trainer.net.trainable_variables]
        norm = sum(float(((b - a) ** 2).sum()) for a, b in zip(before, after, strict=True)) ** 0.5
        assert norm == pytest.approx(0.5 * limit, rel=1e-4) if limit else norm > 0.01


def test_a_limit_that_is_no_norm_is_refused() -> None:
    with pytest.raises(UsageError, match="clip_grad_norm=0 is no norm"):
        Run(Net, Trial([BASE | {"clip_grad_norm": 0}]))


def test_evaluate_changes_nothing() -> None:
    """Trap 5 of notes/stages.md, section 2.4."""
    run = Run(Net, Trial([BASE])).train(1)

    def state() -> list[Any]:
        numpy_state: Any = np.random.get_state()  # noqa: NPY002
        generators = [random.getstate(), numpy_state[1].tolist()]
        return [generators, [value.value.numpy().tolist() for _, value in run.trainer._variables()]]

    before = state()
    assert run.trainer.evaluate() == run.trainer.evaluate() == run.reports[0]
    assert set(run.reports[0]) == {"loss", "accuracy"}
    assert state() == before


def test_metrics_are_those_of_all_validation_samples() -> None:
    class Validated(Net):
        def data(self, hp: Mapping[str, Any]) -> Any:
            x = np.random.default_rng(2).normal(size=(1500, 8)).astype("float32")
            return blobs(), (x, np.repeat([0, 1], [1024, 476]))

    trainer = Run(Validated, Trial([BASE])).trainer
    x, y = trainer._validation_data
    found, right = trainer.evaluate(), trainer.net(x, training=False).numpy().argmax(1) == y
    assert found["accuracy"] == pytest.approx(right.mean())
    assert right.mean() != pytest.approx(right[1024:].mean())


def test_a_batch_larger_than_the_data_is_an_error() -> None:
    with pytest.raises(UsageError, match="batch_size=101 is larger than the training data, which has 100 samples"):
        Run(Net, Trial([BASE | {"batch_size": 101}])).train(1)


def test_data_with_an_order_of_its_own_is_an_error() -> None:
    class Wrong(Net):
        def data(self, hp: Mapping[str, Any]) -> Any:
            import tensorflow

            return tensorflow.data.Dataset.from_tensor_slices(blobs()), blobs()

    with pytest.raises(UsageError, match="has an order of its own"):
        Run(Wrong, Trial([BASE]))


def test_a_learning_rate_schedule_that_changes_is_an_error() -> None:
    class Scheduled(Net):
        def optimizer(self, hp: Mapping[str, Any]) -> Any:
            return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(hp["lr"], 10, 0.9))

    with pytest.raises(UsageError, match="let the hyper-parameter be a sequence"):
        Run(Scheduled, Trial([BASE, BASE | {"lr": 0.2}])).train(2)


def test_a_checkpoint_of_another_network_is_an_error(tmp_path: Path) -> None:
    class Wider(Net):
        def model(self, hp: Mapping[str, Any]) -> Any:
            layers = keras.layers
            return keras.Sequential(
                [
                    layers.Dense(8),
                    layers.BatchNormalization(),
                    layers.Dropout(0.3),
                    layers.Dense(3, activation="softmax"),
                ]
            )

    Run(Net, Trial([BASE])).train(1).save(tmp_path / "saved")
    with pytest.raises(UsageError, match="does not fit variable"):
        Run(Wider, Trial([BASE]), 1, tmp_path / "saved")
