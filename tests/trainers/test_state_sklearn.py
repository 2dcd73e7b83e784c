"""``trial.epochs(state={...})`` with scikit-learn, which only pickle restores: where it may, and where it may not."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch import ASHA, Sharing, StandaloneTrial, Study, check, load_state, loguniform
from asyncsearch.errors import StoreError, TrialsFailedError, UsageError
from asyncsearch.trainable import TrialContext
from asyncsearch.trainers.state.saved_state import SavedState
from tests.shares import takes_long

pytest.importorskip("sklearn")

from sklearn.linear_model import SGDClassifier  # needs sklearn
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

SPACE = {"lr": loguniform(1e-3, 0.3)}


def blobs() -> tuple[Any, Any]:
    x = np.random.default_rng(0).normal(size=(60, 4))
    return x, (x[:, 0] > 0).astype(int)


def perceptron(trial: TrialContext) -> None:
    x, y = blobs()
    scaler, model = StandardScaler(), MLPClassifier((8,), learning_rate_init=trial.params["lr"], random_state=1)
    for epoch in trial.epochs(state={"scaler": scaler, "model": model}):
        part = slice(10 * (epoch % 6), 10 * (epoch % 6) + 10)
        scaler.partial_fit(x[part])
        model.partial_fit(scaler.transform(x[part]), y[part], classes=[0, 1])
        trial.report(loss=model.loss_)


def make_study(store: Path, **options: Any) -> Study:
    scheduler = ASHA(max_resource=4, reduction_factor=2)
    return Study(perceptron, space=SPACE, metric="loss", mode="min", scheduler=scheduler, store=store, **options)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=takes_long)])
def test_an_estimator_resumes_bit_by_bit(processes: bool) -> None:
    result = check(perceptron, {"lr": 0.01}, units=4, processes=processes)
    assert result.ok, result


def test_a_search_pauses_and_resumes_estimators_from_its_own_folder(tmp_path: Path) -> None:
    study = make_study(tmp_path, backend="processes").run(num_trials=6, parallelism=2, display="none")
    best = study.best_trial
    alone = StandaloneTrial(best.params, max_resource=4, seed=study.config.seed)
    perceptron(alone)
    assert (best.resource, best.value) == (4, alone.reports[-1][1]["loss"])
    model = MLPClassifier()
    with study.checkpoint() as path:
        load_state(path, {"model": model})
    assert model.predict(blobs()[0]).shape == (60,)


@pytest.mark.parametrize("backend", ["inline", pytest.param("processes", marks=takes_long)])
def test_from_a_shared_folder_nothing_is_unpickled(tmp_path: Path, backend: str) -> None:
    study = make_study(tmp_path / "one", version="v1", backend=backend)
    with pytest.raises(TrialsFailedError, match="is restored by pickle"):
        study.run(num_trials=1, parallelism=1, display="none")
    [trial] = study.trials
    assert f"trusted='{tmp_path / 'plan'}'" in str(study.explain(trial))


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_shared_folder_that_is_trusted_by_name_is_unpickled(tmp_path: Path, backend: str) -> None:
    study = make_study(tmp_path / "one", version="v1", sharing=Sharing(trusted=tmp_path / "plan"), backend=backend)
    study.run(num_trials=4, parallelism=1, display="none")
    assert max(trial.resource for trial in study.trials) == 4


def test_trust_stays_with_a_study_that_is_resumed_from_its_store(tmp_path: Path) -> None:
    study = make_study(tmp_path / "one", version="v1", sharing=Sharing(trusted=tmp_path / "plan"), backend="inline")
    study.run(num_trials=2, parallelism=1, display="none")
    assert max(trial.resource for trial in study.trials) < 4
    resumed = Study.resume(tmp_path / "one").run(num_trials=4, parallelism=1, display="none")
    assert max(trial.resource for trial in resumed.trials) == 4


def test_trust_in_another_folder_than_the_shared_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(f"write Sharing(trusted='{tmp_path / 'plan'}')")):
        make_study(tmp_path / "one", version="v1", sharing=Sharing(trusted=tmp_path / "other"))
    with pytest.raises(UsageError, match="leave it out"):
        make_study(tmp_path / "one", sharing=Sharing(trusted=tmp_path / "plan"))


class Trap:
    """Its pickle runs code."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.place),)

    def __init__(self, place: Path) -> None:
        self.place = str(place)


def test_a_pickle_that_differs_from_its_checksum_is_not_unpickled(tmp_path: Path) -> None:
    SavedState({"model": SGDClassifier()}).save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "pickle-0").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(StoreError, match="it is not unpickled"):
        SavedState({"model": SGDClassifier()}).load(tmp_path / "checkpoint")
    assert not (tmp_path / "sprung").exists()


def test_an_estimator_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    model = SGDClassifier()
    model.call = lambda: None
    with pytest.raises(UsageError, match=re.escape("state['model'] cannot be saved")):
        SavedState({"model": model}).save(tmp_path / "checkpoint")


def test_another_estimator_is_refused(tmp_path: Path) -> None:
    SavedState({"model": SGDClassifier()}).save(tmp_path / "checkpoint")
    with pytest.raises(UsageError, match="it is of type StandardScaler now, and SGDClassifier was saved"):
        SavedState({"model": StandardScaler()}).load(tmp_path / "checkpoint")
