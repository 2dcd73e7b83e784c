"""``Study(..., pack=)``: whole searches whose workers train several trials together, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, PBT, SHA, Sharing, Study, Trainer, uniform
from asyncsearch.actions import Assign
from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState


class Line(Trainer):
    """Its loss falls by its rate with each unit."""

    def setup(self, hp: dict[str, Any]) -> None:
        self.hp, self.loss = dict(hp), 1.0

    def update(self, hp: dict[str, Any]) -> None:
        self.hp |= hp

    def train(self) -> None:
        self.loss *= 1 - self.hp["rate"]

    @classmethod
    def train_pack(cls, trainers: Sequence[Line]) -> None:
        for trainer in trainers:
            trainer.train()

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.loss}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.loss))

    def load(self, path: Path) -> None:
        self.loss = json.loads(path.read_text())


class Alone(Line):
    train_pack = Trainer.train_pack


def function(trial: Any) -> float:
    return 1.0


def study(store: Path, trainable: Any = Line, scheduler: Any = None, **options: Any) -> Study:
    scheduler = SHA(max_resource=9) if scheduler is None else scheduler
    space = {"rate": uniform(0.1, 0.9)}
    return Study(trainable, space=space, metric="loss", mode="min", scheduler=scheduler, store=store, **options)


def lanes(found: Study) -> list[int]:
    """Return how many trials each assignment had."""
    actions = [action for record in read_records(found.store) for action in record.actions]
    return [len(action.work.lanes) for action in actions if isinstance(action, Assign)]


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_packed_search_finds_the_same_promotions_and_values_as_an_unpacked_one(tmp_path: Path, backend: str) -> None:
    def results(name: str, **options: Any) -> list[tuple[Any, ...]]:
        found = study(tmp_path / name, backend=backend, **options).run(9, parallelism=1, display="none")
        assert (max(lanes(found)) > 1) == bool(options)
        return [(trial.state, trial.resource, trial.value) for trial in found.trials]

    alone = results("alone")
    assert results("packed", pack=4) == alone
    assert [state for state, _, _ in alone].count(TrialState.COMPLETED) == 1


def test_a_packed_study_goes_on_after_it_was_opened_again(tmp_path: Path) -> None:
    study(tmp_path / "s", scheduler=FIFO(max_resource=2), pack=3, backend="inline").run(3, display="none")
    again = Study.resume(tmp_path / "s", backend="inline").run(6, display="none")
    assert lanes(again) == [3, 3]
    assert {trial.state for trial in again.trials} == {TrialState.COMPLETED}


def test_explain_names_how_many_trained_together(tmp_path: Path) -> None:
    found = study(tmp_path / "s", scheduler=FIFO(max_resource=2), pack=3, backend="inline").run(3, display="none")
    assert "packed with 2 other trainings" in " ".join(str(found.explain("trial-1")).split())


@pytest.mark.parametrize("pack", [0, -1, 2.5, True, 2000])
def test_pack_is_a_number_of_trials(tmp_path: Path, pack: Any) -> None:
    with pytest.raises(UsageError, match="is not a number of trainings: write an integer from 1"):
        study(tmp_path / "s", pack=pack)


def test_pack_auto_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pack='auto': .* Write a number, as in pack=8"):
        study(tmp_path / "s", pack="auto")


def test_a_strategy_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pack_opt='best' is not known"):
        study(tmp_path / "s", pack=2, pack_opt="best")


def test_a_function_is_told_what_to_write_instead(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"function is a function, .* a class derived from asyncsearch.Trainer"):
        study(tmp_path / "s", function, scheduler=ASHA(max_resource=9, variant="stopping"), pack=2)


def test_a_trainer_that_trains_one_alone_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Alone has no train_pack\(trainers\): write it"):
        study(tmp_path / "s", Alone, pack=2)


def test_pbt_that_may_not_share_does_not_pack(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pack=2 and share=False: under PBT"):
        study(tmp_path / "s", scheduler=PBT(max_resource=9, perturbation_interval=3), share=False, pack=2)


def test_a_study_that_packs_trains_for_no_other_study(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pack=2 and version=: other studies"):
        study(tmp_path / "s", version="1", pack=2)
    study(tmp_path / "s", version="1", pack=2, sharing=Sharing(shared=False))


def test_pack_of_one_is_a_study_that_does_not_pack(tmp_path: Path) -> None:
    found = study(tmp_path / "s", scheduler=FIFO(max_resource=2), pack=1, backend="inline").run(3, display="none")
    assert lanes(found) == [1, 1, 1]
