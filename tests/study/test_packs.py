"""``Study(..., pack=)``: whole searches whose workers train several trials together, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch import ASHA, FIFO, PBT, SHA, PackOutcome, Sharing, Study, Trainer, choice, uniform
from asyncsearch.actions import Assign
from asyncsearch.errors import UsageError
from asyncsearch.events import PackMeasured
from asyncsearch.ids import CheckpointRef
from asyncsearch.journal.opening import read_records
from asyncsearch.report.live.lines import packing_line
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.table import table
from asyncsearch.shared.folder import NodeFacts, SharedFolder
from asyncsearch.store import LocalStore
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
    def train_pack(cls, trainers: Sequence[Line]) -> PackOutcome | None:
        for trainer in trainers:
            trainer.train()
        return None

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.loss}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.loss))

    def load(self, path: Path) -> None:
        self.loss = json.loads(path.read_text())


class Fixed(Line):
    """Takes as long for many as for one."""

    def train(self) -> None:
        self.train_pack([self])

    @classmethod
    def train_pack(cls, trainers: Sequence[Line]) -> None:
        sum(range(50_000))
        for trainer in trainers:
            trainer.loss *= 1 - trainer.hp["rate"]


class Hungry(Line):
    """More than two have too little memory together once they have trained a unit."""

    @classmethod
    def train_pack(cls, trainers: Sequence[Line]) -> None:
        if len(trainers) > 2 and trainers[0].trial.resource > 0:
            import torch

            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        super().train_pack(trainers)


class Unpacked(Line):
    @classmethod
    def train_pack(cls, trainers: Sequence[Line]) -> PackOutcome:
        super().train_pack(trainers)
        return PackOutcome(refused="model.py, line 7, calls an LSTM")


class Sequential(Line):
    @classmethod
    def train_pack(cls, trainers: Sequence[Line]) -> PackOutcome:
        super().train_pack(trainers)
        return PackOutcome(sequential="Net.train_step (model.py, line 7) is its own")


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
def test_a_packed_search_has_an_unpacked_ones_promotions_and_values(tmp_path: Path, backend: str) -> None:
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


def test_a_word_other_than_auto_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pack='fast': write a number of trials, as in pack=8, or 'auto'"):
        study(tmp_path / "s", pack="fast")


def shown(found: Study) -> str:
    """Return what ``asyncsearch show`` prints, without its line ends."""
    return " ".join(table(found._status()).split())


def measured(found: Study) -> list[PackMeasured]:
    return [event for record in read_records(found.store) if isinstance(event := record.event, PackMeasured)]


def test_auto_measures_how_many_train_fastest_and_keeps_it_in_the_store(tmp_path: Path) -> None:
    found = study(tmp_path / "s", Fixed, FIFO(max_resource=2), pack="auto", backend="processes")
    found.run(19, parallelism=1, display="none")
    (told,) = measured(found)
    assert [lanes for lanes, _ in told.seconds] == [1, 18], "a leap, since the search is short"
    assert "processor" in told.device
    assert {trial.state for trial in found.trials} == {TrialState.COMPLETED}
    assert lanes(found)[0] == 19
    assert "its pack was measured on" in " ".join(found.explain("trial-0").split())
    assert re.search(r"3\d units trained in packs of up to 19; that saved about", shown(found))


def test_a_pack_short_of_memory_goes_on_in_halves_from_its_checkpoints(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = study(tmp_path / "s", Hungry, FIFO(max_resource=3), pack=4, save_every=1, backend="processes")
    found.run(4, parallelism=1, display="none")
    assert lanes(found) == [4, 2], "the other two join these as they leave"
    assert {trial.state for trial in found.trials} == {TrialState.COMPLETED}
    assert sum(trial.failures + trial.losses for trial in found.trials) == 0
    story = " ".join(found.explain("trial-3").split())
    assert "4 trainings had too little memory together; 2 are tried next" in story
    assert "from its checkpoint at 1" in story
    assert "memory is enough for 2 together" in shown(found)


def hinted(found: Study, capsys: pytest.CaptureFixture[str], trials: int) -> bool:
    found.run(trials, parallelism=1, display="plain")
    return 'Study(pack="auto")' in capsys.readouterr().out


def test_a_search_of_small_trials_says_that_it_could_have_been_packed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = study(tmp_path / "s", backend="inline")
    assert hinted(made, capsys, 9)
    assert not hinted(study(tmp_path / "few", backend="inline"), capsys, 3)
    assert not hinted(study(tmp_path / "function", function, FIFO(max_resource=1), backend="inline"), capsys, 9)
    assert not hinted(study(tmp_path / "packed", pack=4, backend="inline"), capsys, 9)
    assert not hinted(study(tmp_path / "one", pack=1, backend="inline"), capsys, 9)
    assert 'pack="auto"' not in Study.open(made.store.url).summary(), "it is said once"


def test_a_search_with_long_units_is_not_told_to_pack() -> None:
    done = {TrialState.COMPLETED: 8}
    short = StudyStatus(
        name="s", metric="m", mode="min", counts=done, trained=8, elapsed_s=8.0, workers_had=1, could_pack=True
    )
    assert "1 s a unit" in packing_line(short)
    assert packing_line(msgspec.structs.replace(short, elapsed_s=9.0)) == ""
    assert packing_line(msgspec.structs.replace(short, is_unfinished=True)) == ""
    assert packing_line(msgspec.structs.replace(short, workers_wanted=1)) == "", "it is not over"


def test_why_a_trainable_trains_in_turn_is_kept_and_its_trials_train_alone(tmp_path: Path) -> None:
    found = study(tmp_path / "s", Unpacked, FIFO(max_resource=1), pack=2, backend="processes")
    found.run(4, parallelism=1, display="none")
    assert [told.refusal for told in measured(found)] == ["model.py, line 7, calls an LSTM"]
    assert lanes(found) == [2, 1, 1]
    assert "one after another, not together: model.py, line 7, calls an LSTM" in shown(found)


def test_why_trials_of_a_pack_step_in_turn_is_told_once_and_they_stay(tmp_path: Path) -> None:
    found = study(tmp_path / "s", Sequential, FIFO(max_resource=2), pack=2, backend="inline")
    found.run(4, parallelism=1, display="none")
    words = "are sequential, not one computation: Net.train_step (model.py, line 7) is its own"
    assert [told.sequential for told in measured(found)] == ["Net.train_step (model.py, line 7) is its own"]
    assert lanes(found) == [2], "the others join these as they leave"
    assert f"some of a pack {words}" in shown(found)
    assert f"some of its pack {words}" in " ".join(found.explain("trial-0").split())


def test_a_strategy_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pack_opt='best' is not known"):
        study(tmp_path / "s", pack=2, pack_opt="best")


def test_a_function_is_told_what_to_write_instead(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"function is a function, .* as a TorchTrainer or a KerasTrainer"):
        study(tmp_path / "s", function, scheduler=ASHA(max_resource=9, variant="stopping"), pack=2)


def test_a_trainer_that_trains_one_alone_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Alone has no train_pack\(trainers\): write it"):
        study(tmp_path / "s", Alone, pack=2)


def test_pbt_that_may_not_share_does_not_pack(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pack=2 and share=False: under PBT"):
        study(tmp_path / "s", scheduler=PBT(max_resource=9, perturbation_interval=3), share=False, pack=2)


def shared(folder: Path, name: str, resource: int, **options: Any) -> Study:
    """Run a study of two trials that shares with the others in a folder."""
    found = Study(
        Line,
        space={"rate": choice(0.1, 0.3)},
        metric="loss",
        mode="min",
        searcher="grid",
        scheduler=FIFO(max_resource=resource),
        store=folder / name,
        version="1",
        backend="processes",
        **options,
    )
    return found.run(2, parallelism=1, display="none")


def trained_of(found: Study) -> int:
    """Return how many units a study trained itself."""
    return sum(trial.trained for trial in found.trials)


def test_a_study_takes_over_others_packed_training_only_if_tolerant(tmp_path: Path) -> None:
    assert trained_of(shared(tmp_path, "packed", 3, pack=2)) == 6
    tolerant = shared(tmp_path, "tolerant", 3, sharing=Sharing(tolerant=True))
    assert trained_of(tolerant) == 0
    assert "3 units of it reported by packs of other studies" in " ".join(tolerant.explain("trial-0").split())
    strict = shared(tmp_path, "strict", 3)
    assert trained_of(strict) == 6
    assert "packs" not in strict.explain("trial-0")
    assert trained_of(shared(tmp_path, "again", 3, pack=2)) == 0


def test_a_tolerant_studys_training_on_a_packed_start_counts_as_packed(tmp_path: Path) -> None:
    shared(tmp_path, "packed", 3, pack=2)
    tolerant = shared(tmp_path, "tolerant", 9, sharing=Sharing(tolerant=True))
    assert trained_of(tolerant) == 12
    assert "which another study trained in a pack" in " ".join(tolerant.explain("trial-0").split())
    folder, node = SharedFolder(LocalStore(tmp_path / "plan")), tolerant.trials[0].node
    assert folder.read(node) == NodeFacts()
    assert folder.is_packed(CheckpointRef(node, 9))


def test_tolerant_needs_somebody_to_share_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Sharing\(tolerant=True\), and the study shares with nobody"):
        study(tmp_path / "s", sharing=Sharing(tolerant=True))


def test_pack_of_one_is_a_study_that_does_not_pack(tmp_path: Path) -> None:
    found = study(tmp_path / "s", scheduler=FIFO(max_resource=2), pack=1, backend="inline").run(3, display="none")
    assert lanes(found) == [1, 1, 1]
