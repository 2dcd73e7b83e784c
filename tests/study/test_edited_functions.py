"""A function of time that is edited, between two runs or between two studies of one version, is another function."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, GridSearch, OptunaSearch, Sharing, Study, choice
from asyncsearch.errors import StoreError
from asyncsearch.sequences import custom_sequences, sequence
from asyncsearch.study.kept import kept_study
from asyncsearch.trial import TrialState

PEAK = 1.0


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test begin as a new process."""
    monkeypatch.setattr(custom_sequences, "_known", custom_sequences._KnownFunctions())


def rate_of(value: float) -> Callable[..., Any]:
    @sequence
    def rate(time: float, height: float) -> float:
        return value + 0 * height

    return rate


def train(trial: Any) -> None:
    def save(path: Path) -> None:
        path.write_text("")

    for _ in trial.epochs(save=save, load=lambda path: None):
        trial.report(loss=trial.params["height"], rate=trial.params["rate"])


def study(store: Path, value: float, **options: Any) -> Study:
    defaults: dict[str, Any] = {"scheduler": ASHA(max_resource=4, reduction_factor=2), "backend": "inline"}
    return Study(
        train,
        space={"rate": rate_of(value)(height=choice(1, 2)), "height": choice(*range(16))},
        metric="loss",
        mode="min",
        store=store,
        searcher=GridSearch(),
        **{**defaults, **options},
    )


def rates(made: Study) -> dict[int, set[Any]]:
    """Return trial -> the rates with which it was trained."""
    return {trial.id: {metrics["rate"] for _, metrics in made.history(trial)} for trial in made.trials}


def codes(made: Study) -> list[str]:
    return [trial.params["rate"]["code"] for trial in made.trials]


EDITED = "The function 'rate' has been edited since the study was last run"


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_trial_goes_on_with_the_function_that_it_began_with(
    tmp_path: Path, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = study(tmp_path / "s", 1.0, backend=backend).run(8, parallelism=1, display="none")
    assert any(trial.state is TrialState.PAUSED for trial in first.trials)
    assert EDITED not in caplog.text
    trained = {trial.id: trial.resource for trial in first.trials}
    custom_sequences._known.versions.clear()
    made = study(tmp_path / "s", 2.0, backend=backend, resume=True).run(32, parallelism=1, display="none")
    assert caplog.text.count(EDITED) == 1
    assert any(trial.resource > trained[trial.id] for trial in made.trials[:8]), "older trials are trained further"
    assert rates(made) == {trial: {1.0} if trial < 8 else {2.0} for trial in range(32)}
    assert len(set(codes(made))) == 2


def test_each_edit_is_kept_and_an_unedited_study_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def run(trials: int, value: float) -> Study:
        caplog.clear()
        custom_sequences._known.versions.clear()
        options: dict[str, Any] = {"resume": True, "scheduler": FIFO(max_resource=2)}
        return study(tmp_path / "s", value, **options).run(trials, display="none")

    said = []
    for trials, value in ((4, 1.0), (8, 2.0), (12, 3.0)):
        run(trials, value)
        said.append(caplog.text.count(EDITED))
    made = run(16, 3.0)
    assert [*said, caplog.text.count(EDITED)] == [0, 1, 1, 0]
    assert [min(rates(made)[trial]) for trial in range(16)] == [1.0] * 4 + [2.0] * 4 + [3.0] * 8
    assert [function["name"] for function in json.loads((tmp_path / "s" / "study.json").read_text())["functions"]] == [
        "rate"
    ] * 3


def test_the_study_of_a_store_goes_on_with_each_trial_as_it_began(tmp_path: Path) -> None:
    study(tmp_path / "s", 1.0).run(4, display="none")
    study(tmp_path / "s", 2.0, resume=True).run(8, display="none")
    custom_sequences._known.versions.clear()
    made = Study.resume(tmp_path / "s").run(32, display="none")
    assert {min(rates(made)[trial]) for trial in range(4, 8)} == {2.0}
    assert all(len(found) == 1 for found in rates(made).values())


def test_studies_of_one_version_do_not_take_results_of_another_function(tmp_path: Path) -> None:
    made = {
        value: study(
            tmp_path / str(value), value, version="v1", sharing=Sharing(shared=tmp_path / "shared"), name=str(value)
        ).run(4, display="none")
        for value in (1.0, 2.0)
    }
    assert [set().union(*rates(found).values()) for found in made.values()] == [{1.0}, {2.0}]
    again = study(tmp_path / "again", 1.0, version="v1", sharing=Sharing(shared=tmp_path / "shared"), name="again").run(
        4, display="none"
    )
    assert {trial.trained for trial in again.trials} == {0}, "the same function is trained once"


def test_a_searcher_that_learns_goes_on_after_an_edit(tmp_path: Path) -> None:
    space = {"rate": choice(rate_of(1.0)(height=1), 3.0), "height": choice(1, 2, 3)}
    options: dict[str, Any] = {"metric": "loss", "mode": "min", "backend": "inline", "scheduler": FIFO(max_resource=1)}
    Study(train, space=space, searcher=OptunaSearch(), store=tmp_path / "s", **options).run(6, display="none")
    space = {"rate": choice(rate_of(2.0)(height=1), 3.0), "height": choice(1, 2, 3)}
    made = Study(train, space=space, searcher=OptunaSearch(), store=tmp_path / "s", resume=True, **options)
    made.run(12, display="none")
    assert set().union(*rates(made).values()) == {1.0, 2.0, 3.0}


def test_the_metrics_of_a_trial_are_found_under_the_function_that_it_had(tmp_path: Path) -> None:
    first = study(tmp_path / "s", 1.0, scheduler=FIFO(max_resource=2)).run(2, display="none")
    made = study(tmp_path / "s", 2.0, scheduler=FIFO(max_resource=2), resume=True).run(3, display="none")
    assert [made.evaluate(first.trials[0].params, 2)["rate"], made.evaluate(made.trials[2].params, 2)["rate"]] == [
        1.0,
        2.0,
    ]


def test_a_function_that_another_program_changed_is_not_unpickled(tmp_path: Path) -> None:
    study(tmp_path / "s", 1.0).run(2, display="none")
    for file in (tmp_path / "s" / "functions").iterdir():
        file.write_bytes(b"other")
    study(tmp_path / "s", 1.0, resume=True).run(3, display="none")
    with pytest.raises(StoreError, match=r"is not the file that the study wrote.*Restore it, or use a new store="):
        study(tmp_path / "s", 2.0, resume=True).run(4, display="none")


def test_bytecode_of_another_python_is_not_run_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    study(tmp_path / "s", 1.0).run(8, display="none")
    custom_sequences._known.versions.clear()
    monkeypatch.setattr(kept_study, "THIS_PYTHON", "3.99")
    made = study(tmp_path / "s", 2.0, resume=True).run(32, display="none")
    assert "whether it was edited cannot be told" in caplog.text
    assert EDITED not in caplog.text
    assert all(trial.state is not TrialState.FAILED for trial in made.trials)


def factor() -> float:
    return PEAK


def helped(trial: Any) -> None:
    trial.report(loss=factor())


def test_an_edited_helper_of_the_trainable_is_said_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def run(trials: int) -> str:
        caplog.clear()
        space = {"x": choice(1, 2, 3)}
        options: dict[str, Any] = {"metric": "loss", "mode": "min", "backend": "inline", "resume": True}
        Study(helped, space=space, store=tmp_path / "s", **options).run(trials, display="none")
        return caplog.text

    assert "changed" not in run(1) + run(2)
    monkeypatch.setitem(globals(), "PEAK", 2.0)
    assert "PEAK, used by " in run(3)
    monkeypatch.undo()
    monkeypatch.setattr(factor, "__code__", (lambda: 3.0).__code__)
    assert "PEAK, factor, used by " in run(4)
    monkeypatch.undo()
    assert "changed" not in run(5)


def test_a_study_of_an_earlier_version_says_that_an_edit_cannot_be_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study(tmp_path / "s", 1.0, scheduler=FIFO(max_resource=2)).run(2, display="none")
    file = tmp_path / "s" / "study.json"
    described = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in described.items() if name not in NEW_FIELDS}))
    study(tmp_path / "s", 2.0, scheduler=FIFO(max_resource=2), resume=True).run(4, display="none")
    assert caplog.text.count("'rate' was edited since the study was last run cannot be told") == 1
    assert "changed" not in caplog.text
    assert EDITED not in caplog.text


NEW_FIELDS = ("parts", "python", "functions", "sealed")
