"""Trials that stop themselves: they count as stopped early, with their reason, and the others go on as ever."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, PBT, SHA, GridSearch, Hyperband, Study, Trainer, choice, uniform
from asyncsearch.actions import Assign, MoveTrial, StopRun
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers.fifo import FIFOState
from asyncsearch.trainable.context import StoppedItself
from asyncsearch.trial import TrialState

WORDS = "the loss rises"


def rising(trial: Any) -> None:
    for epoch in trial.epochs(state={"done": {"units": 0}}):
        trial.report(loss=trial.params["x"] + 1 / epoch)
        if epoch == 2 and trial.params["x"] < 0.2:
            trial.stop("the loss\nrises")


@pytest.mark.parametrize(
    "scheduler",
    [
        FIFO(max_resource=9),
        ASHA(max_resource=9),
        ASHA(max_resource=9, variant="stopping"),
        SHA(max_resource=9),
        Hyperband(max_resource=9, variant="synchronous"),
        PBT(max_resource=9, population=9, perturbation_interval=3),
    ],
    ids=["fifo", "asha", "stopping", "sha", "hyperband", "pbt"],
)
def test_a_trial_that_stops_itself_is_stopped_early(scheduler: Any, tmp_path: Path) -> None:
    study = Study(
        rising,
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        scheduler=scheduler,
        backend="inline",
        store=tmp_path,
    )
    study.run(18, display="none")
    own = [trial for trial in study.trials if trial.reason == WORDS]
    assert own
    for trial in own:
        assert (trial.state, trial.resource) == (TrialState.STOPPED, 2)
        assert trial.value is not None
        assert trial.value < 0.7
    assert max(trial.resource for trial in study.trials) == 9, "the others go on"


class Rising(Trainer):
    """Stops itself as the function does, in a pack with others."""

    def setup(self, hp: dict[str, Any]) -> None:
        self.x, self.units = hp["x"], 0

    def train(self) -> None:
        self.units += 1

    @classmethod
    def train_pack(cls, trainers: Sequence[Rising]) -> None:
        for trainer in trainers:
            trainer.train()

    def evaluate(self) -> dict[str, float]:
        if self.units == 3 and self.x < 0.2:
            self.trial.stop(WORDS)
        return {"loss": self.x + 1 / self.units}

    def save(self, path: Path) -> None:
        path.write_text(str(self.units))

    def load(self, path: Path) -> None:
        self.units = int(path.read_text())


class RisingTogether(Rising):
    """Stops itself inside the common step."""

    @classmethod
    def train_pack(cls, trainers: Sequence[Rising]) -> None:
        for trainer in trainers:
            if trainer.units == 2 and trainer.x < 0.2:
                trainer.trial.stop(WORDS)
            trainer.train()


@pytest.mark.parametrize("kind", [Rising, RisingTogether])
def test_a_member_of_a_pack_that_stops_itself_leaves_it(kind: type[Rising], tmp_path: Path) -> None:
    study = Study(
        kind,
        space={"x": choice(0.1, 0.3, 0.15, 0.4)},
        metric="loss",
        mode="min",
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=5),
        pack=4,
        backend="inline",
        store=tmp_path,
    )
    study.run(display="none")
    together = [
        len(action.work.lanes)
        for record in read_records(study.store)
        for action in record.actions
        if isinstance(action, Assign)
    ]
    assert max(together) > 1
    found = {trial.params["x"]: (trial.state, trial.resource) for trial in study.trials}
    assert found[0.1] == found[0.15] == (TrialState.STOPPED, 2)
    assert found[0.3] == found[0.4] == (TrialState.COMPLETED, 5)
    assert {trial.reason for trial in study.trials if trial.state is TrialState.STOPPED} == {WORDS}
    assert not any(trial.losses or trial.failures for trial in study.trials)


def searched_by_two(function: Any, max_resource: int, store: Path) -> Study:
    """Return a study of two trials, each on two workers, that has run."""
    study = Study(
        function,
        space={"x": choice(0.1, 0.3)},
        metric="loss",
        mode="min",
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=max_resource),
        workers_per_trial=2,
        backend="processes",
        store=store,
    )
    study.run(parallelism=2, display="none")
    return study


def rising_together(trial: Any) -> None:
    for epoch in trial.epochs():
        if trial.rank == 0:
            trial.report(loss=trial.params["x"] + 1 / epoch)
        if epoch == 2 and trial.params["x"] < 0.2:
            trial.stop(WORDS)


def test_a_gang_whose_ranks_stop_themselves_is_stopped_early(tmp_path: Path) -> None:
    study = searched_by_two(rising_together, 3, tmp_path)
    found = {trial.params["x"]: (trial.state, trial.resource, trial.reason) for trial in study.trials}
    assert found[0.1] == (TrialState.STOPPED, 2, WORDS)
    assert found[0.3][:2] == (TrialState.COMPLETED, 3)


def second_stops(trial: Any) -> None:
    for epoch in trial.epochs():
        trial.report(loss=trial.params["x"] + 1 / epoch)
        if trial.rank == 1:
            trial.stop(WORDS)


def test_a_stop_of_a_rank_above_0_stops_its_gang(tmp_path: Path) -> None:
    study = searched_by_two(second_stops, 100_000, tmp_path)
    assert [(trial.state, trial.reason) for trial in study.trials] == [(TrialState.STOPPED, WORDS)] * 2
    assert all(trial.value is not None and trial.resource < 100_000 for trial in study.trials)


def test_a_stop_without_a_report_is_no_failure(tmp_path: Path) -> None:
    study = Study(
        lambda trial: trial.stop() if trial.params["x"] > 0.5 else {"loss": 1.0},
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        backend="processes",
        store=tmp_path,
    )
    study.run(6, parallelism=1, display="none")
    found = {(trial.params["x"] > 0.5, trial.state, trial.reason) for trial in study.trials}
    assert found == {
        (True, TrialState.STOPPED, "its code stopped it"),
        (False, TrialState.COMPLETED, "its function returned, at 1"),
    }


SURROGATE, ESCAPED = "not text \udcff", r"not text \udcff"


def stops(trial: Any) -> None:
    trial.note("device", SURROGATE)
    trial.report(loss=1.0)
    trial.stop(SURROGATE)


class Garbled(FIFOState):
    def judge(self, trial: Any, resource: int) -> str | None:
        return SURROGATE

    def snapshot(self) -> Any:
        return {SURROGATE: SURROGATE}


@dataclass(frozen=True, kw_only=True)
class GarbledFIFO(FIFO):
    """A scheduler of the user's own, whose words are of bytes that were not text."""

    def begin(self, space: Any = None, seed: int = 0) -> Any:
        return Garbled(self.max_resource)


def reports(trial: Any) -> None:
    for epoch in trial.epochs():
        trial.report(loss=1 / epoch)


def test_words_of_undecodable_bytes_of_a_users_scheduler_are_escaped(tmp_path: Path) -> None:
    options: dict[str, Any] = {"space": {"x": uniform(0, 1)}, "metric": "loss", "mode": "min", "store": tmp_path / "s"}
    study = Study(reports, **options, scheduler=GarbledFIFO(max_resource=9), backend="inline")
    study.run(2, display="none")
    study = Study.resume(tmp_path / "s")
    study.run(3, display="none")
    assert [(trial.state, trial.reason) for trial in study.trials] == [(TrialState.STOPPED, ESCAPED)] * 3


@pytest.mark.parametrize("rule", ["", "stop_when", "stop_trial_when"])
def test_a_reason_of_undecodable_bytes_is_escaped(rule: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {rule: lambda progress: SURROGATE} if rule else {}
    study = Study(
        stops, space={"x": uniform(0, 1)}, metric="loss", mode="min", backend="inline", store=tmp_path / "s", **options
    )
    study.run(2, display="none")
    assert study.trials[0].notes == {"device": ESCAPED}
    actions = [action for record in read_records(study.store) for action in record.actions]
    assert any(ESCAPED in action.reason for action in actions if isinstance(action, StopRun | MoveTrial))


def test_a_stop_in_a_child_of_a_trial_comes_back_as_itself() -> None:
    unsendable: Any = threading.Lock()
    sent = pickle.loads(pickle.dumps(StoppedItself(WORDS, unsendable)))
    assert (type(sent), str(sent)) == (StoppedItself, WORDS)
