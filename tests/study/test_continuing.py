"""A finished study goes on with more trials, and its journal leads to the same promotions again (ASHA paper, 5.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, SHA, Hyperband, MedianStopping, Study, uniform
from asyncsearch.actions import Promote
from asyncsearch.engine.handling import handle
from asyncsearch.errors import TrialsFailedError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers import Scheduler
from asyncsearch.simulate import Curves, Simulation
from asyncsearch.store import LocalStore
from asyncsearch.study import trial_dirs
from asyncsearch.trial import TrialState
from tests.engine.tools import Recorded, make_state
from tests.shares import first

SCHEDULERS: dict[str, Scheduler] = {
    "fifo": FIFO(max_resource=3),
    "median": MedianStopping(max_resource=9),
    "asha": ASHA(max_resource=9),
    "asha without end": ASHA(),
    "asha by stopping": ASHA(max_resource=9, variant="stopping"),
    "sha": SHA(max_resource=9),
    "sha in brackets": SHA(max_resource=9, bracket_size=9),
    "hyperband by shares": Hyperband(max_resource=9),
    "hyperband in rounds": Hyperband(max_resource=9, variant="rounds"),
    "hyperband in step": Hyperband(max_resource=9, variant="synchronous"),
}
PAUSING = [name for name, scheduler in SCHEDULERS.items() if scheduler.pauses]
ENDLESSLY_WIDER = [name for name in PAUSING if "asha" in name]
BRACKETED = [name for name in PAUSING if "hyperband" in name or "brackets" in name]


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] + 1 / epoch)


def study(store: Path, scheduler: Scheduler) -> Study:
    space = {"x": uniform(0.0, 1.0)}
    return Study(train, space=space, metric="loss", mode="min", scheduler=scheduler, store=store, backend="inline")


def promotions(records: list[Record]) -> list[Promote]:
    return [action for record in records for action in record.actions if isinstance(action, Promote)]


@pytest.mark.parametrize("name", first(tuple(SCHEDULERS), 3))
def test_a_finished_study_goes_on_with_more_trials(name: str, tmp_path: Path) -> None:
    before = study(tmp_path / "s", SCHEDULERS[name]).run(9, display="none").trials
    after = Study.resume(tmp_path / "s").run(27, display="none").trials
    assert (len(before), len(after)) == (9, 27)
    for old, new in zip(before, after, strict=False):
        assert old.params == new.params
        assert old.resource <= new.resource
    assert all(trial.state.is_finished or trial.state is TrialState.PAUSED for trial in after)
    ends = [sum(trial.state is TrialState.COMPLETED for trial in trials) for trials in (before, after)]
    reached = [max(trial.resource for trial in trials) for trials in (before, after)]
    assert ends[0] < ends[1] or reached[0] < reached[1], "more trials come to the end, or one comes farther"


@pytest.mark.parametrize("name", first(tuple(SCHEDULERS), 3))
def test_deciding_anew_over_a_journal_promotes_the_same_trials_in_order(name: str, tmp_path: Path) -> None:
    made = study(tmp_path / "s", SCHEDULERS[name])
    made.run(9, display="none")
    made.run(27, display="none")
    records = list(read_records(made.store))
    assert made._runnable is not None
    again = made._runnable.fresh_state()
    for record in records:
        assert tuple(handle(again, record.event, record.t)) == record.actions
    assert bool(promotions(records)) is SCHEDULERS[name].pauses


@pytest.mark.parametrize("name", ENDLESSLY_WIDER)
def test_with_more_trials_rungs_are_wider_and_older_trials_go_on(name: str) -> None:
    recorded = Recorded(make_state(SCHEDULERS[name]))
    workload = Curves(seed=1)
    Simulation(recorded.state, workload, workers=4, watch=recorded).run(81)
    first = len(recorded.steps)
    completed = max(trial.resource for trial in recorded.state.trials)
    Simulation(recorded.state, workload, workers=4, watch=recorded).run(243)
    later = [action for _, _, actions in recorded.steps[first:] for action in actions if isinstance(action, Promote)]
    assert any(promotion.trial < 81 for promotion in later), "trials of the first run were promoted in the second"
    assert max(trial.resource for trial in recorded.state.trials) >= completed


@pytest.mark.parametrize("name", PAUSING)
def test_two_runs_promote_at_least_what_the_first_one_did_and_never_again(name: str) -> None:
    recorded = Recorded(make_state(SCHEDULERS[name]))
    for num_trials in (27, 81):
        Simulation(recorded.state, Curves(seed=1), workers=4, watch=recorded).run(num_trials)
    moves = [
        (action.trial, action.from_resource)
        for _, _, actions in recorded.steps
        for action in actions
        if isinstance(action, Promote)
    ]
    assert len(moves) == len(set(moves))


@pytest.mark.parametrize("name", BRACKETED)
def test_a_story_names_the_bracket_wherever_it_is_told(name: str, tmp_path: Path) -> None:
    made = study(tmp_path / "s", SCHEDULERS[name]).run(27, display="none")
    paused = next(trial for trial in made.trials if trial.state in (TrialState.PAUSED, TrialState.STOPPED))
    told = made.explain(paused)
    assert "bracket " in told
    assert Study.resume(tmp_path / "s").explain(paused) == told
    assert Study.open(tmp_path / "s").explain(paused) == told


def test_an_opened_studys_trial_is_ranked_in_its_synchronous_bracket(tmp_path: Path) -> None:
    made = study(tmp_path / "s", SHA(max_resource=9, bracket_size=9)).run(18, display="none")
    opened = Study.open(tmp_path / "s")
    for trial in made.trials:
        if trial.state is TrialState.STOPPED and trial.resource == 1:
            assert f"bracket {trial.id // 9}: " in opened.explain(trial)
            assert " of 9 at resource 1" in opened.explain(trial)


def test_a_study_older_than_written_schedulers_is_explained_by_its_journal(
    tmp_path: Path,
) -> None:
    made = study(tmp_path / "s", ASHA(max_resource=9)).run(9, display="none")
    file = tmp_path / "s" / "study.json"
    described = json.loads(file.read_text())
    del described["scheduler_options"], described["sealed"]
    file.write_text(json.dumps(described))
    paused = next(trial for trial in made.trials if trial.state is TrialState.PAUSED)
    assert f"It stayed at {paused.resource}, where it has rank" in Study.open(tmp_path / "s").explain(paused)


def test_the_outcome_of_trials_failed_before_the_code_was_mended_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def search(train: Any, num_trials: int) -> None:
        options: dict[str, Any] = {"metric": "x", "mode": "min", "store": tmp_path / "s", "backend": "inline"}
        Study(train, space={"x": uniform(0, 1)}, resume=True, name="n", **options).run(num_trials, display="none")

    def wrong() -> Any:
        def train(trial: Any) -> float:
            raise KeyError("missing")

        return train

    def right() -> Any:
        def train(trial: Any) -> float:
            return float(trial.params["x"])

        return train

    with pytest.raises(TrialsFailedError):
        search(wrong(), 2)
    assert "before the code was changed" not in caplog.text
    search(right(), 5)
    assert "2 trials failed before the code was changed; they stay failed and count in num_trials" in caplog.text
    assert "raise num_trials by 2" in caplog.text


def test_a_total_below_the_trials_that_there_are_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study(tmp_path / "s", FIFO(max_resource=1)).run(3, display="none")
    for total, is_said in ((3, False), (2, True), (4, False)):
        Study.resume(tmp_path / "s").run(total)
        text = " ".join("".join(capsys.readouterr()).split())
        assert ("num_trials=2 is fewer than the 3 trials that the study has" in text) == is_said
        assert ("For 2 more write num_trials=5." in text) == is_said


def test_each_end_sweeps_the_store_and_the_next_start_only_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps: list[tuple[Any, ...]] = []
    sweep = trial_dirs.sweep

    def counted(*about: Any) -> None:
        sweeps.append(about)
        sweep(*about)

    monkeypatch.setattr(trial_dirs, "sweep", counted)
    study(tmp_path / "s", ASHA(max_resource=9)).run(3, display="none")
    sweeps.clear()
    left = CheckpointRef(NodeKey("left"), 1)
    store = LocalStore(str(tmp_path / "s"))
    first_head = store.read("head.json")
    assert first_head is not None
    store.commit(left, store.stage(left))
    Study.resume(tmp_path / "s").run(4, display="none")
    assert len(sweeps) == 1, "at its end"
    assert left not in store.checkpoints()
    store.write("head.json", first_head)  # a driver that dies may have noted nothing of its run
    Study.resume(tmp_path / "s").run(5, display="none")
    assert len(sweeps) == 3, "at its start, too"
