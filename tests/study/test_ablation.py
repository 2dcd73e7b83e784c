"""Ablation studies of a real network and a real table, against training each variant by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch import ASHA, FIFO, Ablation, StandaloneTrial, Study
from asyncsearch.ablation.left_out import Ablated
from asyncsearch.checking.steps import try_variants
from asyncsearch.checking.training_runs import Task
from asyncsearch.errors import UsageError
from asyncsearch.trial import TrialState
from tests.digits import load_digits

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from asyncsearch import TorchTrainer  # noqa: E402

UNITS = 2


class Digits(TorchTrainer):
    batch_size = 64

    def model(self, hp: Any) -> Any:
        return nn.Sequential(
            nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 32), nn.Linear(32, 10)
        ).double()

    def optimizer(self, hp: Any, model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), hp["lr"])

    def data(self, hp: Any) -> Any:
        x, y = load_digits()
        x, y = torch.tensor(x / 16), torch.tensor(y)
        return (x[:600], y[:600]), (x[600:900], y[600:900])


def study(store: Path, trainable: Any, searcher: Ablation, **options: Any) -> Study:
    defaults: dict[str, Any] = {"scheduler": FIFO(max_resource=UNITS), "metric": "accuracy", "mode": "max"}
    return Study(
        trainable,
        space={"lr": 0.5},
        searcher=searcher,
        store=store,
        **{"backend": "inline", **defaults, **options},
    )


def shallow(net: Any) -> Any:
    return nn.Sequential(net[0], net[1], net[4])


def without_zeros(data: Any) -> Any:
    x, y = data
    return x[y > 0], y[y > 0]


class ByHand(Digits):
    """Leaves out what its own code says."""

    left_out = ""

    def model(self, hp: Any) -> Any:
        net = super().model(hp)
        if self.left_out == "layer:3":
            net[3] = nn.Identity()
        return shallow(net) if self.left_out == "shallow" else net

    def data(self, hp: Any) -> Any:
        (x, y), (x_valid, y_valid) = super().data(hp)
        if self.left_out == "filled:28":
            mean = x[:, 28].mean()
            x[:, 28], x_valid[:, 28] = mean, mean
        parts = (x, y), (x_valid, y_valid)
        return tuple(map(without_zeros, parts)) if self.left_out == "zeros" else parts


def trained_by_hand(left_out: str, seed: int) -> float:
    trainer = ByHand()
    trainer.left_out = left_out
    trainer.trial = StandaloneTrial({"lr": 0.5}, seed=seed)
    trainer.setup(trainer.trial.params)
    for _ in range(UNITS):
        trainer.train()
    return float(trainer.evaluate()["accuracy"])


def test_a_network_without_layers_and_features_equals_one_made_by_hand(tmp_path: Path) -> None:
    searcher = Ablation(
        layers={"3": "3", "shallow": shallow}, features={"middle": 28, "zeros": without_zeros}, fill=True, seeds=2
    )
    made = study(tmp_path / "s", Digits, searcher).run(parallelism=1, display="none")
    keys = {"nothing": "nothing", "layer 3": "layer:3", "middle": "filled:28", "shallow": "shallow", "zeros": "zeros"}
    found = {
        (keys[str(Ablated.of(trial.params["ablated"]))], trial.params["seed"]): trial.value or 0.0
        for trial in made.trials
    }
    assert found == {(left_out, seed): trained_by_hand(left_out, seed) for left_out in keys.values() for seed in (0, 1)}
    table = made.ablation()
    assert {"nothing", *(one.ablated for one in table)} == {*keys}
    for one in table:
        pairs = [found[keys[one.ablated], seed] - found["nothing", seed] for seed in (0, 1)]
        assert one.difference == pytest.approx(sum(pairs) / 2)
    assert [one.ablated for one in Study.open(made.store.shown).ablation()] == [one.ablated for one in table]


def test_a_table_without_a_column_equals_one_that_was_cut_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    linear = pytest.importorskip("sklearn.linear_model")
    datasets = pytest.importorskip("sklearn.datasets")
    frame, target = datasets.load_diabetes(return_X_y=True, as_frame=True)

    def score(part: Any, seed: int) -> float:
        rows = np.random.default_rng(seed).permutation(len(part))
        train, valid = rows[:300], rows[300:]
        model = linear.Ridge().fit(part.iloc[train], target.iloc[train])
        return float(model.score(part.iloc[valid], target.iloc[valid]))

    def train(trial: Any) -> None:
        trial.report(r2=score(trial.ablation.data(frame), trial.seed))

    searcher = Ablation(features=["bmi", "sex", "s1", "s2"], groups={"blood": ["s1", "s2"]}, seeds=5)
    made = study(tmp_path / "s", train, searcher, scheduler=FIFO(), metric="r2").run(display="none")
    lost = {"bmi": ["bmi"], "sex": ["sex"], "s1": ["s1"], "s2": ["s2"], "blood": ["s1", "s2"]}
    for one in made.ablation():
        name = one.ablated.removeprefix("feature ")
        wanted = [score(frame.drop(columns=lost[name]), seed) - score(frame, seed) for seed in range(5)]
        assert one.difference == pytest.approx(np.mean(wanted))
    assert made.ablation().effects[0].ablated == "feature bmi"


def test_a_scheduler_may_stop_hopeless_variants_compared_at_their_ends(tmp_path: Path) -> None:
    def train(trial: Any) -> None:
        for epoch in trial.epochs(state={}):
            trial.report(loss=1 / epoch + trial.seed + 10 * (not trial.ablation.keeps("useful")))

    searcher = Ablation(custom=["useful", *"abcdefgh"], seeds=2)
    made = study(
        tmp_path / "s", train, searcher, scheduler=ASHA(max_resource=9, reduction_factor=3), metric="loss", mode="min"
    ).run(display="none", parallelism=1)
    assert any(trial.state is TrialState.PAUSED for trial in made.trials)
    assert {one.ablated: one.difference for one in made.ablation()} == {"useful": 10.0} | dict.fromkeys("abcdefgh", 0.0)


def test_what_does_not_fit_is_refused_before_a_worker_starts(tmp_path: Path) -> None:
    made = study(tmp_path / "s", Digits, Ablation(layers=["fc"]), backend="processes")
    with pytest.raises(UsageError, match="Digits without layer fc: Sequential has no layer 'fc': it has '0'"):
        made.run(display="none")
    assert not (tmp_path / "s" / "journal").exists()


@pytest.mark.parametrize(
    ("searcher", "words"),
    [
        (Ablation(features=[64]), "Digits without feature 64: The data has no column '64'"),
        (Ablation(features=[28]), r"Digits without feature 28 cannot be computed; .*fill=True"),
        (Ablation(layers={"net": lambda net: net.eval() and None}), "'net' out returned None for a Sequential"),
    ],
)
def test_each_variant_is_tried_by_what_it_lacks(tmp_path: Path, searcher: Ablation, words: str) -> None:
    values = [one.value for one in searcher.variants()]
    with pytest.raises(UsageError, match=words):
        try_variants(Task(Digits, {"lr": 0.5, "ablated": values}, 0, 1, 1, {}, tmp_path))


def test_an_incomputable_base_is_called_so_without_a_hint_on_features(tmp_path: Path) -> None:
    class Narrow(Digits):
        def model(self, hp: Any) -> Any:
            return torch.nn.Linear(7, 10)

    with pytest.raises(UsageError, match="Narrow with everything cannot be computed") as raised:
        try_variants(Task(Narrow, {"lr": 0.5, "ablated": ["nothing"]}, 0, 1, 1, {}, tmp_path))
    assert "fill=True" not in str(raised.value)
