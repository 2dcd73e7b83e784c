"""Every call that a trial has means the same, whatever runs the user's function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, Study, choice
from asyncsearch.trainable import TrialContext

NEEDS_MORE = {"gang", "process_group", "note_volume", "ablation", "saved_params"}
"""Names for gangs, ablation studies and changed parameters, which have tests of their own."""


def whole(trial: Any) -> None:
    """Use each of them, and leave what each gave in a note or in a report."""
    found = {
        "at": trial.at(0.0)["x"],
        "params": trial.params["x"],
        "has_sequences": trial.has_sequences,
        "name": trial.name,
        "seed": trial.seed,
        "once": trial.once(len, "abc"),
        "rank": trial.rank,
        "world_size": trial.world_size,
        "max_resource": trial.max_resource,
        "should_stop": trial.should_stop,
        "resource": trial.resource,
    }
    (trial.dir / "made").write_text("here")
    found["dir"] = (trial.dir / "made").read_text()
    trial.note("found", str(found))
    for epoch in trial.epochs(save=lambda path: path.write_text("state"), load=lambda path: path.read_text()):
        with trial.evaluating():
            value = trial.params["x"] / epoch
        trial.note("judged", str(trial.is_judged))
        trial.report({"loss": value}, other=2 * value, resource=epoch)
        if trial.params["x"] == 2 and epoch == 3:
            trial.stop("it is the second")


def outcome(backend: str, folder: Path) -> list[tuple[Any, ...]]:
    """Return what a search has of each trial."""
    study = Study(
        whole, space={"x": choice(1, 2, 3)}, searcher="grid", scheduler=ASHA(max_resource=9), metric="loss",
        mode="min", store=folder / backend / "study", backend=backend, seed=7,
    )  # fmt: skip
    study.run(parallelism=1, display="none")
    return [(one.state, one.reason, one.notes, study.history(one)) for one in study.trials]


def test_each_call_of_a_trial_means_the_same_on_every_backend(tmp_path: Path) -> None:
    inline = outcome("inline", tmp_path)
    assert "'once': 3" in str(inline)
    assert outcome("processes", tmp_path) == inline
    assert outcome("threads", tmp_path) == inline


def test_no_call_of_a_trial_is_left_out_here() -> None:
    names = {name for name in dir(TrialContext) if not name.startswith("_")} - NEEDS_MORE
    used = set(whole.__code__.co_names)
    assert names - used == set(), "use it above, or say where it is tested"


@pytest.mark.parametrize("backend", ["inline", "processes", "threads"])
def test_a_note_that_is_left_at_once_outlives_a_long_trial(backend: str, tmp_path: Path) -> None:
    study = Study(long, space={"x": choice(1)}, metric="loss", mode="min", store=tmp_path / "st", backend=backend)
    study.run(num_trials=1, parallelism=1, display="none")
    (trial,) = study.trials
    assert (trial.notes, trial.failures) == ({"who": "Ada"}, 0)


def long(trial: Any) -> None:
    """Report more often than a driver's answers take to come back."""
    trial.note("who", "Ada")
    for epoch in range(1, 2_000):
        trial.report(loss=1 / epoch)
