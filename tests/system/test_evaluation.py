"""A trainable that reports now and then: targets between its reports are evaluated, and each unit is trained once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch import ASHA, FIFO, SHA, Checkpoints, GridSearch, Study, choice
from asyncsearch.events import CheckpointCommitted
from asyncsearch.journal.opening import read_records
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.system.trained import Checkpointed

pytestmark = pytest.mark.usefixtures("forked_workers")

FOLDER = "ASYNCSEARCH_TEST_FOLDER"
EVERY = 4
"""Units from report to report."""


def reports_now_and_then(trial: TrialContext) -> None:
    net, x = Checkpointed(), trial.params["x"]

    def note(what: str) -> None:
        with (Path(os.environ[FOLDER]) / "done").open("a") as file:
            file.write(f"{what} {x} {len(net.units)}\n")

    def evaluate() -> dict[str, float]:
        note("evaluated")
        return {"loss": loss(x, len(net.units))}

    for unit in trial.epochs(save=net.save, load=net.load, evaluate=evaluate):
        net.units.append(unit)
        note("trained")
        if unit % EVERY == 0:
            trial.report(evaluate())


def loss(x: float, units: int) -> float:
    return x + 1 / units


def done(folder: Path, what: str) -> Counter[tuple[float, int]]:
    lines = [line.split() for line in (folder / "done").read_text().splitlines()]
    return Counter((float(x), int(at)) for kind, x, at in lines if kind == what)


def make(folder: Path, name: str = "study", **options: Any) -> Study:
    os.environ[FOLDER] = str(folder)
    settings: dict[str, Any] = {
        "space": {"x": choice(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)},
        "metric": "loss",
        "mode": "min",
        "searcher": GridSearch(),
        "scheduler": SHA(max_resource=9),
        "store": folder / "studies" / name,
        "backend": "inline",
    }
    return Study(reports_now_and_then, **(settings | options))


@pytest.mark.parametrize(("share", "backend"), [(True, "processes"), (False, "inline")])
def test_rungs_between_reports_are_evaluated_without_training(tmp_path: Path, share: bool, backend: str) -> None:
    study = make(tmp_path, share=share, backend=backend)
    assert study.config.can_evaluate
    study.run(parallelism=1, display="none")
    for trial in study.trials:
        assert trial.value == loss(trial.params["x"], trial.resource)
    assert Counter((trial.state, trial.resource) for trial in study.trials) == {
        (TrialState.STOPPED, 1): 6,
        (TrialState.STOPPED, 3): 2,
        (TrialState.COMPLETED, 9): 1,
    }
    assert study.best_trial.params == {"x": 0.1}
    trained = done(tmp_path, "trained")
    assert set(trained.values()) == {1}
    assert sum(trained.values()) == 6 * 1 + 2 * 3 + 9
    evaluated = done(tmp_path, "evaluated")
    assert set(evaluated.values()) == {1}
    assert Counter(at for _, at in evaluated) == {1: 9, 3: 3, 4: 1, 8: 1, 9: 1}
    assert dict(study.history(0)) == {at: {"loss": loss(0.1, at)} for at in (1, 3, 4, 8, 9)}
    saved = [r.event.checkpoint for r in read_records(study.store) if isinstance(r.event, CheckpointCommitted)]
    assert len(saved) == len(set(saved)), "an evaluation saves nothing"
    assert "evaluates its checkpoint at 1, without training" in str(study.explain(0))


def test_what_another_study_saved_in_silence_is_evaluated_not_retrained(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "version": "v1",
        "space": {"x": choice(0.1, 0.2)},
        "checkpoints": Checkpoints(keep_checkpoints=2),
    }
    first = make(tmp_path, "first", scheduler=FIFO(max_resource=6), **options)
    set_can_evaluate(first, False)
    first.run(parallelism=1, display="none")
    assert [trial.value_resource for trial in first.trials] == [4, 4]
    second = make(tmp_path, "second", scheduler=FIFO(max_resource=6), **options)
    second.run(parallelism=1, display="none")
    assert [(trial.value, trial.value_resource) for trial in second.trials] == [(loss(x, 6), 6) for x in (0.1, 0.2)]
    assert set(done(tmp_path, "trained").values()) == {1}
    third = make(tmp_path, "third", scheduler=FIFO(max_resource=6), **options)
    third.run(parallelism=1, display="none")
    assert [trial.value for trial in third.trials] == [trial.value for trial in second.trials]
    assert done(tmp_path, "evaluated")[0.1, 6] == 1, "what one study evaluated, others know"


def test_eval_evaluates_a_shared_checkpoint_without_training(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "version": "v1",
        "space": {"x": choice(0.1, 0.2)},
        "checkpoints": Checkpoints(keep_checkpoints=2),
    }
    first = make(tmp_path, "first", scheduler=FIFO(max_resource=6), **options)
    set_can_evaluate(first, False)
    first.run(parallelism=1, display="none")
    trained = done(tmp_path, "trained")
    second = make(tmp_path, "second", scheduler=FIFO(max_resource=6), **options)
    assert second.evaluate({"x": 0.2}, 6) == {"loss": loss(0.2, 6)}
    assert done(tmp_path, "trained") == trained
    assert second.evaluate({"x": 0.2}, 6) == {"loss": loss(0.2, 6)}
    assert done(tmp_path, "evaluated")[0.2, 6] == 1


@pytest.fixture
def silent(tmp_path: Path) -> Study:
    """A study that shares with nobody, whose trials end two units after their last report."""
    study = make(
        tmp_path,
        space={"x": choice(0.1, 0.2)},
        scheduler=FIFO(max_resource=6),
        checkpoints=Checkpoints(keep_checkpoints=2),
    )
    set_can_evaluate(study, False)
    return study.run(parallelism=1, display="none")


def test_eval_evaluates_a_checkpoint_of_its_own_study_without_training(tmp_path: Path, silent: Study) -> None:
    trained = done(tmp_path, "trained")
    set_can_evaluate(silent, True)
    found = silent.evaluate({"x": 0.2}, 6)
    assert (found, found.resource) == ({"loss": loss(0.2, 6)}, 6)
    assert done(tmp_path, "trained") == trained
    assert silent.evaluate({"x": 0.2}, 6) == found
    assert done(tmp_path, "evaluated")[0.2, 6] == 1, "it is known by now"
    assert silent.evaluate({"x": 0.2}, 5) == {"loss": loss(0.2, 4)}
    assert Study.open(silent.store.url).evaluate({"x": 0.2}, 6) == found


def test_eval_says_where_metrics_were_reported_if_it_cannot_evaluate(tmp_path: Path, silent: Study) -> None:
    trained = done(tmp_path, "trained")
    for resource in (4, 5, 6):
        found = silent.evaluate({"x": 0.2}, resource)
        assert (found, found.resource) == ({"loss": loss(0.2, 4)}, 4)
    assert done(tmp_path, "trained") == trained


def test_eval_goes_on_from_where_its_own_study_paused(tmp_path: Path) -> None:
    study = make(tmp_path, scheduler=ASHA(max_resource=9)).run(parallelism=1, display="none")
    assert study.trials[1].resource < 9
    found = study.evaluate(study.trials[1].params, 9)
    assert (found, found.resource) == ({"loss": loss(0.2, 9)}, 9)
    assert {at: n for (x, at), n in done(tmp_path, "trained").items() if x == 0.2} == dict.fromkeys(range(1, 10), 1)


def test_eval_trains_from_the_beginning_if_the_checkpoint_cannot_be_had(
    tmp_path: Path, silent: Study, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = silent.trials[1].checkpoint
    assert checkpoint is not None
    silent.store.delete(checkpoint)
    set_can_evaluate(silent, True)
    assert silent.evaluate({"x": 0.2}, 6) == {"loss": loss(0.2, 6)}
    assert done(tmp_path, "trained")[0.2, 6] == 2
    assert "trained from the beginning" in caplog.text


def set_can_evaluate(study: Study, can_evaluate: bool) -> None:
    runnable = study._runnable
    assert runnable is not None
    study.config = msgspec.structs.replace(study.config, can_evaluate=can_evaluate)
    runnable.definition = msgspec.structs.replace(runnable.definition, config=study.config)
