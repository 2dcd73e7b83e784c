"""Notes are texts beside metrics: in the journal, in tables, and decided by nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, StandaloneTrial, Study, choice
from asyncsearch.errors import UsageError
from asyncsearch.runner.notes import note_bytes, note_in
from asyncsearch.study.results import open_results
from asyncsearch.trial import TrialState


def train(trial: Any) -> None:
    trial.note("device", "cpu")
    for epoch in trial.epochs():
        trial.note("phase", f"epoch {epoch}")
        trial.report(loss=trial.params["x"] / epoch)


@pytest.mark.parametrize("backend", ["inline", "processes", "threads"])
def test_notes_are_kept_and_the_last_of_each_key_is_shown(backend: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"scheduler": FIFO(max_resource=2), "searcher": "grid", "backend": backend}
    study = Study(train, space={"x": choice(1, 2)}, metric="loss", mode="min", store=tmp_path / "st", **settings)
    study.run(parallelism=1, display="none")
    for seen in (study, open_results(tmp_path / "st")):
        assert [trial.notes for trial in seen.trials] == 2 * [{"device": "cpu", "phase": "epoch 2"}]
        assert seen.best_trial.notes["device"] == "cpu"
        assert list(seen.trials_dataframe()["notes.phase"]) == 2 * ["epoch 2"]
    assert "note device, text cpu" in study.explain(0)
    assert all(trial.state is TrialState.COMPLETED for trial in study.trials)


def test_one_who_evaluates_elsewhere_leaves_notes_too(tmp_path: Path) -> None:
    with Study.to_ask(space={"x": choice(1, 2)}, metric="loss", mode="min", store=tmp_path / "st") as study:
        trial = study.ask()
        assert trial is not None
        trial.note("who", "Ada")
        trial.tell(1.0)
        with pytest.raises(UsageError, match="is not being evaluated"):
            trial.note("who", "Bob")
    assert study.trials[0].notes == {"who": "Ada"}


def test_a_note_works_outside_a_search_and_a_wrong_one_is_answered() -> None:
    trial = StandaloneTrial({"x": 1}, max_resource=2)
    train(trial)
    assert trial.notes == {"device": "cpu", "phase": "epoch 2"}
    for key, text, words in (
        ("", "a", "the key is a name"),
        ("a", [1], "a note is text"),
        ("a", "x" * 3000, "too many"),
    ):
        with pytest.raises(UsageError, match=words):
            trial.note(key, text)


@pytest.mark.parametrize("content", [b"", b"{}", b"\0note\0", b"\0note\0[1, 2]", b"\0note\0{", b"\0note\0\xff"])
def test_what_is_no_note_is_none_whatever_a_worker_sends(content: bytes) -> None:
    assert note_in(content) is None
    assert note_in(note_bytes("a", 1.5)) == ("a", "1.5")
