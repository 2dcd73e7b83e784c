"""What a process keeps of traced steps of Keras changes no bit of a training, and is used where all else is equal."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from asyncsearch.trainers.keras import kept_traces  # noqa: E402
from asyncsearch.trainers.keras import trainer as keras_trainer  # noqa: E402
from asyncsearch.trainers.keras.trainer import KerasTrainer  # noqa: E402  # needs tensorflow
from asyncsearch.trainers.packs.pack_training import known_of  # noqa: E402
from tests.shares import first, takes_long  # noqa: E402
from tests.trainers.tools import Run, Trial, is_resumed_bit_by_bit  # noqa: E402

layers: Any = keras.layers
X = np.random.default_rng(3).normal(size=(24, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
DATA = (X[:16], Y[:16]), (X[16:], Y[16:])


class Plain(KerasTrainer):
    batch_size = 8

    def model(self, hp: Mapping[str, Any]) -> Any:
        rate, l2 = hp.get("rate", 0.2), keras.regularizers.L2(hp.get("l2", 0.1))
        parts = [
            layers.Dense(hp.get("width", 4), hp.get("activation", "relu"), kernel_regularizer=l2),
            layers.Dropout(rate, seed=hp.get("seed")),
            layers.BatchNormalization(momentum=hp.get("momentum", 0.9)),
            layers.Dense(2, "softmax", kernel_constraint=hp.get("constraint")),
        ]
        return keras.Sequential([layers.Input((6,)), *parts])

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.Adam(hp["lr"], beta_1=hp.get("beta_1", 0.9), weight_decay=hp.get("decay"))

    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA


class Wired(Plain):
    """A functional model whose parts are connected as a value says."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        x = layers.Input((6,))
        one, other = layers.Dense(6, "tanh")(x), layers.Dense(6, "tanh")(x)
        found = [one * 2.0 + other, one + other * 2.0, one + other * 3.0][hp.get("wires", 0)]
        return keras.Model(x, layers.Dense(2, "softmax")(layers.Dropout(0.5)(found, training=hp.get("forced"))))


class Recurrent(Plain):
    metrics = ("accuracy", keras.metrics.SparseTopKCategoricalAccuracy(1, name="first"))
    clip_grad_norm = 0.1

    def model(self, hp: Mapping[str, Any]) -> Any:
        parts = [layers.Input((6,)), layers.Reshape((3, 2)), layers.LSTM(3, dropout=0.3), layers.Dense(2, "softmax")]
        return keras.Sequential(parts)

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        rate = keras.optimizers.schedules.ExponentialDecay(hp["lr"], 2, hp.get("falls", 0.5))
        return keras.optimizers.SGD(rate, momentum=0.9, nesterov=True, use_ema=True, ema_momentum=0.7)


KINDS = Plain, Wired, Recurrent
HP = {"lr": 0.1}
OTHERS: dict[str, dict[str, Any]] = {
    "rate": {"rate": 0.3}, "regularizer": {"l2": 0.2}, "width": {"width": 5}, "activation": {"activation": "tanh"},
    "seed of a layer": {"seed": 3}, "constant of a layer": {"momentum": 0.8}, "beta": {"beta_1": 0.8},
    "constraint": {"constraint": "non_neg"}, "decay": {"decay": 0.1}, "clipping": {"clip_grad_norm": 1.0},
}  # fmt: skip


def _decide_decay(trainer: Any) -> None:
    trainer.opt.exclude_from_weight_decay(var_names=["bias"])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "loss": lambda one: setattr(one, "loss", keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
    "metrics": lambda one: setattr(one, "metrics", ["accuracy", keras.metrics.SparseCategoricalCrossentropy()]),
    "constant of a metric": lambda one: setattr(
        one, "metrics", [keras.metrics.MeanMetricWrapper(max, name="accuracy")]
    ),
    "frozen layer": lambda one: setattr(one.net.layers[0], "trainable", False),
    "constant of the optimizer": lambda one: setattr(one.opt, "epsilon", 1e-3),
    "type of a layer": lambda one: setattr(one.net.layers[0], "dtype_policy", "mixed_bfloat16"),
    "attribute of a layer": lambda one: setattr(one.net.layers[1], "rate", 0.4),
}


class Own(layers.Dense):  # type: ignore[misc]
    """Has code of its own, whose reads nobody knows."""

    def call(self, x: Any) -> Any:
        return super().call(x) * 2


class OwnModel(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(2, "softmax")

    def call(self, x: Any) -> Any:
        return self.dense(x)


def _model(*parts: Any) -> Callable[..., Any]:
    return lambda self, hp: keras.Sequential([layers.Input((6,)), *(part() for part in parts)])


def _patched(self: Any, hp: Any) -> Any:
    net = Plain.model(self, hp)
    call = net.layers[0].call
    net.layers[0].call = lambda x, **_: call(x) * 2
    return net


def _patched_optimizer(self: Any, hp: Any) -> Any:
    optimizer = keras.optimizers.SGD(0.1)
    apply = optimizer.apply
    optimizer.apply = lambda grads, variables=None: apply([2 * one for one in grads], variables)
    return optimizer


UNKNOWN: dict[str, dict[str, Any]] = {
    "layer": {"model": _model(lambda: Own(2, "softmax"))},
    "model": {"model": lambda self, hp: OwnModel()},
    "lambda": {"model": _model(lambda: layers.Lambda(lambda x: x[:, :2]), lambda: layers.Dense(2, "softmax"))},
    "activation": {"model": _model(lambda: layers.Dense(2, lambda x: keras.ops.softmax(2 * x)))},
    "method of a layer": {"model": _patched},
    "loss": {"loss": staticmethod(lambda y, found: keras.losses.sparse_categorical_crossentropy(y, found) * 2)},
    "metric": {"metrics": (lambda y, found: keras.ops.max(found),)},
    "optimizer": {"optimizer": lambda self, hp: type("OwnSGD", (keras.optimizers.SGD,), {})(0.1)},
    "step of the optimizer": {"optimizer": _patched_optimizer},
    "eager": {"run_eagerly": True},
}


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    for kind in KINDS:
        known_of(kind).steps.clear()


def built(kind: Any, hp: Mapping[str, Any] = HP) -> Any:
    return Run(kind, Trial([dict(hp)])).trainer


def everything(kind: Any, folder: Path, hp: Mapping[str, Any] = HP, seed: int = 5) -> Any:
    """Train, and return all that may differ: reports, variables, and what the generators draw next."""
    run = Run(kind, Trial([dict(hp)] * 2, seed=seed)).train(2)
    run.reports.append({"drawn": random.random(), "numpy": np.random.random()})  # noqa: NPY002
    return run.reports, run.save(folder)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The purposes of the steps that are traced."""
    found: list[str] = []
    trace = kept_traces._traced

    def noted(trainer: Any, purpose: str, *rest: Any) -> Any:
        found.append(purpose)
        return trace(trainer, purpose, *rest)

    monkeypatch.setattr(kept_traces, "_traced", noted)
    return found


@pytest.mark.parametrize("kind", [Recurrent, *(pytest.param(kind, marks=takes_long) for kind in (Plain, Wired))])
def test_a_kept_trace_gives_every_bit_of_a_fresh_one(kind: Any, tmp_path: Path, traced: list[str]) -> None:
    everything(kind, tmp_path / "other", HP | {"lr": 0.3} if kind is not Recurrent else HP, seed=6)
    traced.clear()
    kept = everything(kind, tmp_path / "kept")
    assert not traced
    forget()
    fresh = everything(kind, tmp_path / "fresh")
    assert sorted(traced) == ["test_step", "train_step"]
    assert kept == fresh


def test_a_kept_trace_gives_every_bit_of_keras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything(Plain, tmp_path / "other", seed=6)
    kept = everything(Plain, tmp_path / "kept")
    monkeypatch.setattr(kept_traces, "kept_step", lambda *_: None)
    assert kept == everything(Plain, tmp_path / "keras")


def test_a_training_that_pauses_beside_others_resumes_bit_by_bit(tmp_path: Path, traced: list[str]) -> None:
    everything(Recurrent, tmp_path / "other", seed=6)
    traced.clear()
    assert is_resumed_bit_by_bit(Recurrent, [dict(HP)] * 3, tmp_path, cut=1)
    assert not traced


@pytest.mark.parametrize("other", OTHERS)
def test_another_value_is_another_trace(other: str) -> None:
    assert key_of(built(Plain)) == key_of(built(Plain, {"lr": 0.5}))
    assert key_of(built(Plain)) != key_of(built(Plain, HP | OTHERS[other]))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_entries_is_another_trace(change: str) -> None:
    trainer = built(Plain, HP | {"decay": 0.1})
    before = key_of(trainer)
    CHANGES[change](trainer)
    trainer._settle()
    try:
        assert key_of(trainer) != before
    except kept_traces.NotKnownError:
        pass


def test_a_class_attribute_that_changes_between_entries_counts(tmp_path: Path) -> None:
    kind: Any = type("Changing", (Plain,), {})
    before = everything(kind, tmp_path / "before")
    kind.clip_grad_norm = 0.01
    after = everything(kind, tmp_path / "after")
    known_of(kind).steps.clear()
    assert after == everything(kind, tmp_path / "fresh")
    assert after != before


def test_other_wires_of_equal_layers_are_another_trace() -> None:
    found = [key_of(built(Wired, HP | {"wires": number})) for number in range(3)]
    forced = key_of(built(Wired, HP | {"forced": True}))
    assert len({*found, forced, key_of(built(Wired))}) == 4


def test_which_weights_decay_is_in_the_key() -> None:
    trainers = [built(Plain, HP | {"decay": 0.1}) for _ in range(2)]
    trainers[0].opt.built = False
    trainers[0].opt.exclude_from_weight_decay(var_names=["bias"])
    trainers[0].opt.built = True
    assert key_of(trainers[0]) != key_of(trainers[1])


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_code_that_is_not_of_keras_is_traced_by_itself(unknown: str) -> None:
    kind = type("Unknown", (Plain,), UNKNOWN[unknown])
    run = Run(kind, Trial([dict(HP)])).train(1)
    assert not known_of(kind).steps
    assert not kept_traces.is_known(run.trainer)


def test_each_size_of_a_batch_has_its_own_trace(tmp_path: Path, traced: list[str]) -> None:
    everything(Plain, tmp_path / "other", seed=6)
    kept = everything(Plain, tmp_path / "kept", HP | {"batch_size": 6})
    forget()
    assert kept == everything(Plain, tmp_path / "fresh", HP | {"batch_size": 6})
    assert traced.count("train_step") == 1 + 2 + 2


def test_trainers_that_take_turns_on_a_trace_keep_their_own_variables(tmp_path: Path) -> None:
    alone = [everything(Plain, tmp_path / f"alone {seed}", seed=seed) for seed in (5, 6)]
    runs = [Run(Plain, Trial([dict(HP)] * 2, seed=seed)) for seed in (5, 6)]
    for stop in (1, 2):
        for run in runs:
            run.train(stop)
    assert [run.save(tmp_path / f"turns {run.trial.seed}") for run in runs] == [found for _, found in alone]


def test_what_is_kept_holds_no_model(tmp_path: Path) -> None:
    run = Run(Plain, Trial([dict(HP)])).train(1)
    gone = [weakref.ref(run.trainer.net), weakref.ref(run.trainer.net.variables[0].value)]
    del run
    gc.collect()
    assert known_of(Plain).steps
    assert [one() for one in gone] == [None, None]


def test_tensorflow_is_seeded_where_something_may_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(keras_trainer, "seed_tensorflow", lambda seed, *_, **__: seeds.append(seed))
    counts = {}
    kinds = {"known": {}, "hook": {"update": lambda self, hp: None}, "layer": UNKNOWN["layer"], "loss": UNKNOWN["loss"]}
    for name, own in kinds.items():
        seeds.clear()
        Run(type("Seeded", (Plain,), own), Trial([dict(HP)])).train(1)
        counts[name] = len(seeds)
    assert counts == {"known": 1, "hook": 2, "layer": 2, "loss": 2}  # one of its setup


def test_a_step_that_draws_is_seeded_before_it_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def drawing_in(graph: Any) -> str:
        order.append("traced")
        return "RandomUniform"

    monkeypatch.setattr(kept_traces, "drawing_in", drawing_in)
    monkeypatch.setattr(keras_trainer, "seed_tensorflow", lambda *_, **__: order.append("seeded"))
    Run(Plain, Trial([dict(HP)])).train(1)
    assert order[:3] == ["seeded", "traced", "seeded"]
    assert set(known_of(Plain).steps.values()) == {None}


WORDS = np.array(["red", "blue", "green"] * 8).reshape(-1, 1)
NUMBERS = np.arange(24).reshape(-1, 1) % 3
TABLES: dict[str, tuple[Any, Callable[[], Any]]] = {
    "IntegerLookup": (NUMBERS, lambda: layers.IntegerLookup(vocabulary=[1, 2])),
    "StringLookup": (WORDS, lambda: layers.StringLookup(vocabulary=["red", "blue"])),
    "TextVectorization": (WORDS, lambda: layers.TextVectorization(vocabulary=["red"], output_sequence_length=1)),
}


@pytest.mark.parametrize("layer", first(tuple(TABLES)))
def test_a_layer_whose_table_cannot_be_read_is_traced_by_itself(layer: str) -> None:
    x, make = TABLES[layer]

    def model(self: Any, hp: Any) -> Any:
        given = layers.Input((1,), dtype="string" if x is WORDS else "int64")
        found = layers.Flatten()(layers.Embedding(5, 3)(make()(given)))
        return keras.Model(given, layers.Dense(2, "softmax")(found))

    own = {"model": model, "data": lambda self, hp: ((x[:16], Y[:16]), (x[16:], Y[16:]))}
    kind = type("WithTable", (Plain,), own)
    assert Run(kind, Trial([dict(HP)])).train(1).reports
    assert not known_of(kind).steps


def test_an_error_in_a_kept_step_is_said_as_by_keras() -> None:
    kind = type("Wrong", (Plain,), {"data": lambda self, hp: ((X[:16], Y[:16] + 7), DATA[1])})
    trainer = built(kind)
    # Two operations find it at once, and either may say so first.
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"is out of range|is not in \["):
        trainer.train()


def key_of(trainer: Any) -> Any:
    return kept_traces.Configuration(trainer).key
