"""``KerasTrainer.train_pack``: each trainer's unit equals its own, stacked or in turn."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tensorflow: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from keras.src.backend.common.stateless_scope import in_stateless_scope  # noqa: E402

from asyncsearch import FIFO, PackOutcome, Study, uniform  # noqa: E402  # needs tensorflow
from asyncsearch.errors import UsageError  # noqa: E402
from asyncsearch.trainers.keras.packs.stacks import StackedMembers  # noqa: E402
from asyncsearch.trainers.packs import pack_training  # noqa: E402
from tests.shares import IS_ALL, first, takes_long  # noqa: E402
from tests.study.test_packs import shown  # noqa: E402
from tests.trainers.keras_pack_trainers import (  # noqa: E402
    DATA,
    MODELS,
    OPTIMIZERS,
    Net,
    Tokens,
    both,
    difference,
    gap,
    numbered,
    train_alone,
    train_together,
    trainer,
)

SMALL = 1e-12


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    pack_training._known.clear()
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda: [line for line in capsys.readouterr().err.splitlines() if line.startswith("asyncsearch:")]


PAIRS = [
    ("dense", "adagrad"), ("conv", "sgd"), ("batch_norm", "momentum"), ("dropout", "nesterov"), ("embedding", "adam"),
    ("layer_norm", "rmsprop"), ("attention", "adamw"),
]  # fmt: skip
"""Each kind of layer and each optimizer once; the test command takes the pairs of ``SOME``."""
SOME = [("batch_norm", "nesterov")]
"""The tests below have layers of dropout, with momentum and with Adam."""
MORE = [*((kind, "adam") for kind in sorted(set(MODELS) - {"lstm"})), *(("batch_norm", one) for one in OPTIMIZERS)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "optimizer"), sorted({*PAIRS, *MORE}) if IS_ALL else SOME)
def test_each_layer_and_each_optimizer_in_a_stack_trains_as_it_does_alone(kind: str, optimizer: str, said: Any) -> None:
    outcomes: list[PackOutcome] = []
    assert both(Net, numbered(3, kind=kind, optimizer=optimizer), outcomes=outcomes) < SMALL
    assert said() == []
    assert outcomes == [PackOutcome()] * 2


def test_values_that_change_between_or_inside_units_are_each_members() -> None:
    def inside(time: float) -> Any:
        return {"lr": 0.1 * (1 + time % 1)}

    first: list[dict[str, Any]] = [{"number": n, "lr": 0.1} for n in range(2)]
    changing = [[one, one | {"optimizer": kind}] for one, kind in zip(first, ("sgd", "momentum"), strict=True)]
    assert both(Net, changing, inside=inside) < SMALL


@pytest.mark.parametrize("kind", [pytest.param("dropout", marks=takes_long), "embedding"])
def test_each_member_is_clipped_by_its_own_norm(kind: str, said: Any) -> None:
    settings = numbered(3, kind=kind, optimizer="adam")
    for number, each in enumerate(settings):
        each[0]["clip_grad_norm"] = 0.02 * (1 + number)
        each.append(each[0] | {"clip_grad_norm": 1000.0 if number else 0.01})
    assert both(Net, settings) < SMALL
    assert said() == []


def test_members_with_and_without_a_limit_train_in_turn_as_alone() -> None:
    assert both(Net, [[{"number": 0, "clip_grad_norm": 0.02}], [{"number": 1}]], units=1) < SMALL


class Unlike(Net):
    """Each member is as wide as its number says, and the learning rate may be a schedule."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        keras.utils.set_random_seed(hp["number"])
        dense = keras.layers.Dense
        return keras.Sequential([dense(4 + hp["number"]), keras.layers.Dropout(0.2), dense(3, activation="softmax")])


class Clipped(Net):
    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.SGD(0.1 + hp["number"], clipnorm=0.1)


class OwnStep(Net):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return Stepping([keras.layers.Dense(3, activation="softmax")])


class Stepping(keras.Sequential):  # type: ignore[misc]
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


class Unstackable(Net):
    """Its loss fails where several members are computed at once."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        self.loss = whole_loss
        return super().model(hp)


def whole_loss(y: Any, predicted: Any) -> Any:
    if in_stateless_scope():
        raise ValueError("no stack")
    return keras.losses.sparse_categorical_crossentropy(y, predicted)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Unlike, "they are unlike: their layers, or settings of these, differ"),
        pytest.param(Clipped, "SGD has clipnorm=0.1: leave it out", marks=takes_long),
        pytest.param(Unstackable, 'at test_keras_packs.py, line 132, `raise ValueError("no stack")`', marks=takes_long),
    ],
)
def test_members_that_cannot_be_stacked_train_in_turn_as_alone_and_say_why(
    kind: type[Any], words: str, said: Any
) -> None:
    outcomes: list[PackOutcome] = []
    assert both(kind, numbered(2), outcomes=outcomes) < SMALL
    (line,) = said()
    assert "share each batch and are sequential, since their weights are not stacked: " in line
    assert words in line
    assert [words in one.sequential and one.refused == "" for one in outcomes] == [True, True]


class Looping(Net):
    """A recurrent layer over an embedding, which TensorFlow cannot compute for several members at once."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        layers = keras.layers
        return keras.Sequential([Tokens(), layers.Embedding(7, 2), layers.LSTM(3), layers.Dense(3, "softmax")])


def test_a_step_that_cannot_be_stacked_is_said_once_and_not_by_tensorflow(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[logging.LogRecord] = []
    monkeypatch.setattr(tensorflow.get_logger(), "handle", records.append)
    assert both(Looping, numbered(2)) < SMALL
    assert [one.getMessage() for one in records] == []
    assert ["tf.vectorized_map fails on Sequential" in line for line in said()] == [True]


def test_members_leave_and_a_packed_prefix_goes_on_alone(tmp_path: Path) -> None:
    packed, alone = ([trainer(Net, *each) for each in numbered(3, optimizer="adam")] for _ in range(2))
    train_together(packed)
    train_together(packed[:2])
    packed[2].save(tmp_path / "state")
    other = trainer(Net, *numbered(3, optimizer="adam")[2])
    other.load(tmp_path / "state")
    train_alone(other)
    for one in alone:
        train_alone(one), train_alone(one)
    assert max(map(difference, [*packed[:2], other], alone)) < SMALL


def test_members_with_other_samples_are_not_mixed() -> None:
    packed, alone = ([trainer(Net, {"number": n}, seed=n // 2) for n in range(4)] for _ in range(2))
    train_together(packed)
    for one in alone:
        train_alone(one)
    assert max(map(difference, packed, alone)) < SMALL


def test_units_and_evaluations_of_a_pack_reuse_what_tensorflow_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = [trainer(Net, *each) for each in numbered(2)]
    seeds: list[int] = []
    monkeypatch.setattr(tensorflow.random, "set_seed", seeds.append)
    train_together(packed)
    assert seeds == []  # to set one discards every prepared function


class Shifted:
    """Samples that draw by TensorFlow as they are read."""

    def __len__(self) -> int:
        return len(DATA[0])

    def __getitem__(self, number: int) -> Any:
        return DATA[0][number] + float(tensorflow.random.normal(())), DATA[1][number]


SHIFTED = Shifted()


class Augmented(Net):
    def data(self, hp: Mapping[str, Any]) -> Any:
        return SHIFTED, DATA


class Guessing(Net):
    def evaluate(self) -> Mapping[str, Any]:
        return {"drawn": float(tensorflow.random.uniform(()))}


@pytest.mark.parametrize("kind", first([Guessing, Augmented]))
def test_draws_by_tensorflow_outside_a_packs_steps_are_seeded_as_alone(kind: type[Any]) -> None:
    packed, alone = ([trainer(kind, *each) for each in numbered(2)] for _ in range(2))
    metrics = train_together(packed)
    assert gap(metrics[0], train_alone(alone[0])) < SMALL
    assert difference(packed[0], alone[0]) < SMALL


def test_alike_members_at_other_places_of_training_are_one_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, alone = ([trainer(Net, *each) for each in numbered(3)] for _ in range(2))
    sizes: list[int] = []
    own = StackedMembers.end

    def end(stack: StackedMembers) -> None:
        sizes.append(len(stack.trainers))
        own(stack)

    monkeypatch.setattr(StackedMembers, "end", end)
    train_together(packed[:2])
    train_together(packed)
    for one, units in zip(alone, (2, 2, 1), strict=True):
        for _ in range(units):
            train_alone(one)
    assert sizes == [2, 3]
    assert max(map(difference, packed, alone)) < SMALL


class OwnBatch(Net):
    def _train_batch(self, batch: Any) -> None:
        super()._train_batch(batch)


class Eager(Net):
    run_eagerly = True


class Drawing(keras.layers.Layer):  # type: ignore[misc]
    """Draws from the generator of the process."""

    def call(self, x: Any) -> Any:
        return x + tensorflow.random.normal(tensorflow.shape(x), dtype=x.dtype)


class Noisy(Net):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return keras.Sequential([Drawing(), keras.layers.Dense(3, activation="softmax")])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OwnBatch, "OwnBatch._train_batch (test_keras_packs.py, line"),
        (Eager, "run_eagerly=True of Eager traces nothing: leave it out"),
        (Noisy, "draws by RandomStandardNormal from TensorFlow's own generator"),
    ],
)
def test_what_no_pack_can_do_trains_one_after_another_and_names_the_line(
    kind: type[Any], words: str, said: Any
) -> None:
    packed = [trainer(kind, *each) for each in numbered(2)]
    assert words in kind.train_pack(packed).refused
    assert [words in line for line in said()] == [True]
    assert [one.steps for one in packed] == [3, 3]


def test_a_batch_size_that_one_trainer_cannot_have_is_its_own_error() -> None:
    wrong = [{"number": 1, "batch_size": 10_000}]
    packed = [trainer(Net, *each) for each in (*numbered(1), wrong, *numbered(1))]
    assert Net.train_pack(packed) == PackOutcome()
    found = Net.evaluate_pack(packed)
    assert [isinstance(one, UsageError) for one in found] == [False, True, False]
    assert [one.steps for one in packed] == [3, 0, 3]


def test_the_same_pack_gives_the_same_bits() -> None:
    packs = [[trainer(Net, *each) for each in numbered(2)] for _ in range(2)]
    train_together(packs[0])
    train_together([trainer(Net, *each) for each in numbered(2)])
    train_together(packs[1])
    assert max(map(difference, *packs)) == 0.0


def test_a_study_says_why_its_trials_step_in_turn(tmp_path: Path) -> None:
    method = FIFO(max_resource=1)
    options: dict[str, Any] = {
        "metric": "accuracy",
        "mode": "max",
        "scheduler": method,
        "store": tmp_path,
        "backend": "inline",
    }
    found = Study(OwnStep, space={"number": uniform(0.0, 1.0)}, pack=2, **options).run(2, parallelism=1, display="none")
    words = "are sequential, not one computation: Stepping.train_step (test_keras_packs.py, line"
    assert words in shown(found)
    assert words in " ".join(found.explain("trial-0").split())
