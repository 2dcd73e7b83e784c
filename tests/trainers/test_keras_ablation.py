"""Ablation studies of a Keras network, against training each variant by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from asyncsearch import FIFO, Ablation, KerasTrainer, StandaloneTrial, Study  # noqa: E402  # after the checks above
from asyncsearch.ablation.left_out import Ablated  # noqa: E402
from asyncsearch.checking.steps import try_variants  # noqa: E402
from asyncsearch.checking.training_runs import Task  # noqa: E402
from asyncsearch.errors import UsageError  # noqa: E402
from tests.digits import load_digits  # noqa: E402
from tests.shares import takes_long  # noqa: E402


class Digits(KerasTrainer):
    batch_size = 64

    def model(self, hp: Any) -> Any:
        dense = keras.layers.Dense
        return keras.Sequential(
            [
                keras.Input((64,)),
                dense(16, "relu", name="first"),
                keras.layers.Dropout(0.2, name="drop"),
                dense(16, "relu", name="hidden.1"),
                dense(16, "relu", name="hidden.2"),
                dense(10, "softmax", name="last"),
            ]
        )

    def optimizer(self, hp: Any) -> Any:
        return keras.optimizers.SGD(hp["lr"])

    def data(self, hp: Any) -> Any:
        x, y = load_digits()
        x = (x / 16).astype("float32")
        return (x[:200], y[:200]), (x[200:300], y[200:300])


def direct(net: Any) -> Any:
    return keras.Sequential([net.inputs[0], *net.layers[:1], *net.layers[-1:]])


class ByHand(Digits):
    """Leaves out what its own code says."""

    left_out = ""

    def model(self, hp: Any) -> Any:
        net = super().model(hp)
        kept = [layer for layer in net.layers if not layer.name.startswith("hidden")]
        if self.left_out == "hidden":
            return keras.Sequential([net.inputs[0], *kept])
        return direct(net) if self.left_out == "direct" else net

    def data(self, hp: Any) -> Any:
        parts = super().data(hp)
        if self.left_out == "rows":
            mean = parts[0][0][:, 24:30].mean(axis=0)
            for x, _ in parts:
                x[:, 24:30] = mean
        return parts


def trained_by_hand(left_out: str) -> float:
    trainer = ByHand()
    trainer.left_out = left_out
    trainer.trial = StandaloneTrial({"lr": 0.5}, seed=3)
    trainer.setup(trainer.trial.params)
    trainer.train()
    return float(trainer.evaluate()["loss"])


@takes_long
@pytest.mark.slow
def test_a_network_without_layers_and_features_equals_one_made_by_hand(tmp_path: Path) -> None:
    made = Study(
        Digits,
        space={"lr": 0.5},
        searcher=Ablation(
            features={"rows": "2[4-9]"}, layers={"hidden": "hidden.*", "direct": direct}, fill=True, seeds=[3]
        ),
        scheduler=FIFO(max_resource=1),
        metric="loss",
        mode="min",
        store=tmp_path / "s",
        backend="inline",
    ).run(display="none")
    found = {str(Ablated.of(trial.params["ablated"])): trial.value for trial in made.trials}
    assert found == {name: trained_by_hand(name) for name in ("nothing", "rows", "hidden", "direct")}
    assert len({*found.values()}) == 4


@pytest.mark.parametrize(
    ("searcher", "words"),
    [
        (Ablation(layers=["fc"]), "Digits without layer fc: Sequential has no layer 'fc': it has 'first'"),
        (Ablation(features=[64]), "Digits without feature 64: The data has no column '64'"),
        (Ablation(features=[28]), r"Digits without feature 28 cannot be computed; .*fill=True"),
        (Ablation(layers={"all": lambda net: keras.layers.Dense(10)}), "Digits without all cannot be computed"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_tried(tmp_path: Path, searcher: Ablation, words: str) -> None:
    values = [one.value for one in searcher.variants()]
    with pytest.raises(UsageError, match=words):
        try_variants(Task(Digits, {"lr": 0.5, "ablated": values}, 0, 1, 1, {}, tmp_path))
