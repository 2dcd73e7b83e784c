"""A study that its stop rule ends keeps what it has, says why, and goes on only with another rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Elapsed, Plateau, Reached, Study, WorkerOptions, choice
from asyncsearch.actions import EndRun
from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.trial import Trial, TrialState
from tests.agent.conftest import MIB


def train(trial: Any) -> None:
    counters = {"epoch": 0}
    for epoch in trial.epochs(state={"counters": counters}):
        trial.report(loss=abs(trial.params["x"] - 7) + 1 / epoch, other=float(epoch))


def study_of(place: Path, **options: Any) -> Study:
    settings: dict[str, Any] = {"scheduler": FIFO(max_resource=4), "searcher": "grid", "backend": "inline"} | options
    return Study(train, space={"x": choice(*range(12))}, metric="loss", mode="min", store=place / "st", **settings)


def test_a_study_that_its_rule_has_ended_goes_on_only_with_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_of(tmp_path, stop_when=Reached(2.25)).run(display="plain")
    out = " ".join(capsys.readouterr().out.split())
    assert "as its stop_when holds: loss has reached 2.25: 2.25" in out
    study = study_of(tmp_path, stop_when=Reached(2.25), resume=True).run(display="plain")
    trained = len(study.trials)
    assert trained < 12
    out = " ".join(capsys.readouterr().out.split())
    assert "The study has ended by its stop_when=Reached(2.25): loss has reached 2.25: 2.25. Nothing is trained" in out
    study = study_of(tmp_path, stop_when=Plateau(trials=2), resume=True).run(display="plain")
    out = " ".join(capsys.readouterr().out.split())
    assert "stop_when was Reached(2.25) in the last run, and is Plateau(trials=2) now." in out
    assert trained < len(study.trials) < 12
    assert study.best_trial.params["x"] == 7
    file = read_study_file(study.store)
    assert file is not None
    assert file.stop_rules == {"stop_when": "Plateau(trials=2)"}


def test_a_function_that_raises_is_an_error_of_the_run_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"stop_when=.*<lambda> raised AttributeError: .*'bset'"):
        study_of(tmp_path, stop_when=lambda progress: progress.bset < 1).run(display="none")
    assert study_of(tmp_path, resume=True).run(display="none").best_trial.params["x"] == 7


def test_callbacks_get_each_trial_that_ends_and_their_errors_end_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Trial] = []

    def note(study: Study, trial: Trial) -> None:
        assert len(study.trials) >= trial.id
        seen.append(trial)

    def broken(study: Study, trial: Trial) -> None:
        raise KeyError("nothing")

    study = study_of(tmp_path).run(display="plain", callbacks=[broken, note])
    assert [trial.id for trial in seen] == list(range(12))
    assert [trial.metrics for trial in seen] == [trial.metrics for trial in study.trials]
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("raised KeyError: 'nothing'") == 1
    assert "after trial-0; the search goes on" in out
    assert "Callbacks raised 12 times in all" in out
    with pytest.raises(UsageError, match=r"callbacks=3 must be functions of a study and a trial"):
        study.run(callbacks=3)  # type: ignore[arg-type]


def hungry(trial: Any) -> None:
    trial.report(loss=1.0)
    if trial.params["x"] == 1:
        kept = [bytearray(b"x" * MIB)]
        while True:  # until it is ended
            kept.append(bytearray(b"x" * MIB))


def test_a_trial_beyond_its_memory_is_ended_and_fails_in_words(tmp_path: Path) -> None:
    options = {"searcher": "grid", "metric": "loss", "mode": "min", "workers": WorkerOptions(trial_memory=400 * MIB)}
    space = {"x": choice(1, 2)}
    study = Study(hungry, space=space, store=tmp_path / "st", backend="processes", **options)  # type: ignore[arg-type]
    failed, modest = study.run(parallelism=1, display="none").trials
    assert (failed.state, failed.failures, failed.losses) == (TrialState.FAILED, 1, 0)
    assert "more than trial_memory=419430400 (400 MiB), and was ended" in failed.reason
    assert modest.state is TrialState.COMPLETED
    with pytest.raises(UsageError, match="trial_memory= ends the process of a trial"):
        Study(hungry, space=space, store=tmp_path / "in", backend="inline", **options).run()  # type: ignore[arg-type]


def slow(trial: Any) -> None:
    import threading

    trial.report(loss=1.0)
    threading.Event().wait(60)


def test_time_alone_ends_a_run_in_which_nothing_is_reported(tmp_path: Path) -> None:
    study = Study(
        slow,
        space={"x": choice(1, 2)},
        metric="loss",
        mode="min",
        store=tmp_path / "st",
        backend="processes",
        stop_when=Elapsed(0.5),
        workers=WorkerOptions(stop_grace=0.2),
    )
    study.run(num_trials=2, parallelism=1, display="none")
    *_, last = [action for record in read_records(study.store) for action in record.actions]
    assert isinstance(last, EndRun)
    assert last.reason.endswith("0.5 s have passed")
