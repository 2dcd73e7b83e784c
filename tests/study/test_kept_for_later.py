"""What a search that is over keeps for a run with more trials: said in bytes where people look, dropped if asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch import ASHA, FIFO, SHA, Checkpoints, Hyperband, Study, uniform
from asyncsearch.actions import AnyAction, DeleteCheckpoint, EndRun
from asyncsearch.cli import main
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.store import LocalStore
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import make_state
from asyncsearch.trial import TrialState

SIZE = 1000
DROPPED = Checkpoints(keep_paused=False)


def train(trial: Any) -> None:
    done: list[int] = []
    with open(trial.params["units"], "a") as units:
        for unit in trial.epochs(
            save=lambda path: path.write_text("x" * SIZE), load=lambda path: done.append(len(path.read_text()))
        ):
            units.write(f"{trial.name} {unit}\n")
            trial.report(loss=trial.params["x"] + 1 / unit)


def made(folder: Path, scheduler: Scheduler | None = None, **options: Any) -> Study:
    return Study(
        train,
        space={"x": uniform(0, 1), "units": str(folder / "units")},
        metric="loss",
        mode="min",
        scheduler=scheduler or ASHA(max_resource=9),
        seed=1,
        store=folder / "s",
        backend="inline",
        **options,
    )


def paused_with_checkpoint(study: Study) -> int:
    return sum(trial.state is TrialState.PAUSED and trial.checkpoint is not None for trial in study.trials)


def test_a_finished_search_says_what_it_keeps_for_more_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = made(tmp_path)
    study.run(27, display="plain")
    count = paused_with_checkpoint(study)
    words = f"{count} checkpoints of paused trials ({count * SIZE / 1000:.3g} kB) kept for a run with more trials"
    assert count > 3
    assert words in capsys.readouterr().out
    main(["show", str(study.store.shown)])
    assert words in capsys.readouterr().out
    main(["clean", str(study.store.shown), "--dry-run"])
    said = capsys.readouterr().out
    assert f"among them {count} checkpoints of paused trials" in said
    assert "Checkpoints(keep_paused=False)" in said


@pytest.mark.parametrize("scheduler", [FIFO(max_resource=2), SHA(max_resource=9)], ids=["fifo", "sha"])
def test_a_search_without_trials_that_may_go_on_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheduler: Scheduler
) -> None:
    made(tmp_path, scheduler).run(9, display="plain")
    assert "kept for" not in capsys.readouterr().out


@pytest.mark.parametrize("scheduler", [ASHA(max_resource=9), Hyperband(max_resource=9)], ids=["asha", "hyperband"])
def test_what_is_dropped_is_trained_again_and_ends_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheduler: Scheduler
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "dropped").mkdir()
    kept, dropped = made(tmp_path / "kept", scheduler), made(tmp_path / "dropped", scheduler, checkpoints=DROPPED)
    for study in (kept, dropped):
        study.run(27, display="none")
    assert LocalStore(str(tmp_path / "dropped" / "s")).checkpoints() == [dropped.best_trial.checkpoint]
    capsys.readouterr()
    values = []
    for folder, options in (("kept", {}), ("dropped", {"checkpoints": DROPPED})):
        study = made(tmp_path / folder, scheduler, resume=True, **options)
        study.run(81, display="plain")
        values.append([(trial.state, trial.resource, trial.value) for trial in study.trials])
    assert values[0] == values[1]
    said = capsys.readouterr().out
    assert "that is promoted now trains again from the nearest one that is left" in said
    journal = "".join(file.read_text() for file in (tmp_path / "dropped" / "s" / "journal").iterdir())
    assert "its checkpoint was not kept: trains again from its beginning" in journal
    units = [len((tmp_path / folder / "units").read_text().splitlines()) for folder in ("kept", "dropped")]
    assert units[0] < units[1]


def test_a_search_that_is_over_drops_them_once_it_is_asked_to(tmp_path: Path) -> None:
    study = made(tmp_path)
    study.run(27, display="none")
    assert paused_with_checkpoint(study)
    again = made(tmp_path, resume=True, checkpoints=DROPPED)
    again.run(27, display="none")
    assert not paused_with_checkpoint(again)
    assert LocalStore(str(tmp_path / "s")).checkpoints() == [again.best_trial.checkpoint]


def test_the_best_trial_keeps_its_checkpoint_though_it_is_paused(tmp_path: Path) -> None:
    study = made(tmp_path, checkpoints=DROPPED)
    study.run(2, display="none")
    assert {trial.state for trial in study.trials} == {TrialState.PAUSED}
    with study.checkpoint() as path:
        assert path.stat().st_size == SIZE
    assert LocalStore(str(tmp_path / "s")).checkpoints() == [study.best_trial.checkpoint]


class Dropping(RandomCluster):
    """A cluster whose study keeps nothing for later runs."""

    def decided(self, actions: Sequence[AnyAction]) -> None:
        super().decided(actions)
        ends = [action for action in actions if isinstance(action, EndRun)]
        is_over = bool(ends) and ends[0].is_complete
        assert is_over or not any(isinstance(action, DeleteCheckpoint) and action.paused for action in actions)
        if is_over:
            waiting = {trial.checkpoint for trial in self.state.trials if trial.state is TrialState.PAUSED} - {None}
            assert len(waiting) <= self.state.config.keep_checkpoints, "more than that of the best one"


@pytest.mark.parametrize("scheduler", [ASHA(max_resource=9), Hyperband(max_resource=9)], ids=["asha", "hyperband"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200))
def test_whatever_happens_they_are_dropped_at_the_end_and_not_before(
    scheduler: Scheduler, seed: int, steps: int
) -> None:
    world = Dropping(lambda: make_state(scheduler, keep_paused=False), random.Random(seed))
    world.live(steps)
    world.require_memory()
    world.drain()
    world.require_memory()
