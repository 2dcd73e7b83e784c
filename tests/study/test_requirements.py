"""What can be known of a trainable before it runs is said before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch.engine.config import can_share
from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.schedulers import ASHA, FIFO, MedianStopping
from asyncsearch.sequences import multistep
from asyncsearch.space import Space, choice, randint, uniform
from asyncsearch.study.study import Study
from asyncsearch.trainable import Trainer, TrialContext

LR = {"lr": multistep(0.1, milestones=choice([2], [3]))}


class Plain(Trainer):
    """Trains and does not save."""

    def train(self) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        return {"loss": 1.0}


class Pausing(Plain):
    def save(self, path: Path) -> None:
        pass

    def load(self, path: Path) -> None:
        pass


class Updating(Plain):
    def update(self, hp: dict[str, Any]) -> None:
        pass


def counts_by_itself(trial: TrialContext) -> None:
    trial.report(loss=1.0)


def make(trainable: Any, tmp_path: Path, space: Any = None, **options: Any) -> Study:
    options.setdefault("scheduler", FIFO(max_resource=4))
    return Study(trainable, space=space or LR, metric="loss", mode="min", store=tmp_path / "study", **options)


def test_a_trainer_needs_to_know_how_many_units_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Plain trains unit by unit .* write FIFO\(max_resource="):
        make(Plain, tmp_path, {"x": uniform(0, 1)}, scheduler=FIFO())


def test_without_an_end_a_trainer_needs_rungs_at_which_it_is_paused(tmp_path: Path) -> None:
    space = {"x": uniform(0, 1)}
    assert make(Pausing, tmp_path / "paused", space, scheduler=ASHA()).scheduler.max_resource is None
    with pytest.raises(UsageError, match=r"write ASHA\(max_resource="):
        make(Pausing, tmp_path, space, scheduler=ASHA(variant="stopping"))
    with pytest.raises(UsageError, match=r"write MedianStopping\(max_resource="):
        make(Pausing, tmp_path, space, scheduler=MedianStopping())
    with pytest.raises(CannotPauseError, match="pauses trials, and Plain has no save"):
        make(Plain, tmp_path, space, scheduler=ASHA())


def test_sequences_need_an_end(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has sequences and FIFO\(\).* write FIFO\(max_resource="):
        make(counts_by_itself, tmp_path, scheduler=FIFO())


def test_sequences_need_a_trainer_that_takes_new_values(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Plain has no update\(hp\)"):
        make(Plain, tmp_path)


@pytest.mark.parametrize("trainable", [Updating, counts_by_itself])
def test_what_is_shared_up_to_a_split_must_be_resumed_there(trainable: Any, tmp_path: Path) -> None:
    with pytest.raises(CannotPauseError, match="share=False"):
        make(trainable, tmp_path)
    assert make(trainable, tmp_path, share=False).config.share is False


def test_a_space_in_which_no_two_trials_meet_is_not_searched_for_sharing(tmp_path: Path) -> None:
    assert can_share(Space(LR))
    assert can_share(Space({"x": choice(1, 2), "y": randint(1, 9)}))
    assert not can_share(Space({"x": choice(1, 2), "y": uniform(0, 1)}))
    assert not can_share(Space({"x": randint(1, 10**9)}))
    config = make(counts_by_itself, tmp_path, {"x": uniform(0, 1)}, scheduler=FIFO()).config
    assert (config.share, config.look_ahead) == (False, 0)
