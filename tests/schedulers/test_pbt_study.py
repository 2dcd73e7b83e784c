"""PBT as a user meets it: checks before it runs, real training in this process, and its best schedule trained again."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, PBT, GridSearch, Study, choice, loguniform, randint, uniform
from asyncsearch.errors import CannotPauseError, ResourceError, SpaceError, TrialsFailedError, UsageError
from asyncsearch.sequences import multistep
from asyncsearch.trainable import Trainer, TrialContext
from asyncsearch.trial import TrialState

SPACE = {"lr": loguniform(1e-3, 1.0), "power": choice(1, 2, 3), "name": "net"}
SCHEDULER = PBT(max_resource=8, perturbation_interval=2)


def descend(trial: TrialContext) -> None:
    """Go down a hill, whose steepness depends on where one stands: the best lr changes on the way."""
    net: dict[str, Any] = {"x": 1.0, "seen": []}

    def save(path: Path) -> None:
        path.write_text(json.dumps(net))

    def load(path: Path) -> None:
        net.update(json.loads(path.read_text()))

    for epoch in trial.epochs(save=save, load=load):
        lr, power = trial.params["lr"], trial.params["power"]
        net["x"] -= lr * net["x"] ** power / epoch
        net["seen"].append(lr)
        assert len(net["seen"]) == epoch
        trial.report(loss=abs(net["x"]), seen=sum(net["seen"]))


class Plain(Trainer):
    def train(self) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        return {"loss": 1.0}

    def save(self, path: Path) -> None:
        path.touch()

    def load(self, path: Path) -> None:
        pass


def never_loops(trial: TrialContext) -> None:
    trial.report(loss=1.0)


def study(tmp_path: Path, trainable: Any = descend, space: Any = SPACE, name: str = "pbt", **options: Any) -> Study:
    options.setdefault("scheduler", SCHEDULER)
    return Study(trainable, space=space, metric="loss", mode="min", store=tmp_path / name, backend="inline", **options)


def test_the_schedule_that_was_found_can_be_trained_again_as_a_sequence(tmp_path: Path) -> None:
    found = study(tmp_path).run(num_trials=8, display="none")
    best = found.best_trial
    moved = [trial for trial in found.trials if isinstance(trial.params["lr"], dict)]
    assert moved
    for trial in {best.id: best, moved[0].id: moved[0]}.values():
        name = f"again-{trial.id}"
        again = study(tmp_path, space=trial.params, scheduler=FIFO(max_resource=8), name=name)
        again.run(num_trials=1, display="none")
        assert again.best_value == trial.value
        alone, then = dict(again.history(0)), found.history(trial.id)
        assert [alone[resource] for resource, _ in then[-2:]] == [metrics for _, metrics in then[-2:]]


def test_a_study_that_was_read_without_its_code_shows_the_same_trials(tmp_path: Path) -> None:
    found = study(tmp_path).run(num_trials=8, display="none")
    read = Study.open(tmp_path / "pbt")
    assert [(t.params, t.value, t.state) for t in read.trials] == [(t.params, t.value, t.state) for t in found.trials]
    assert any("exploited trial-" in read.explain(trial) for trial in read.trials)
    assert "left by trial-" in str(read.tree())


def test_a_waiting_trial_of_an_opened_study_is_ranked_in_its_population(tmp_path: Path) -> None:
    calls = iter(range(10**6))

    def breaks(trial: TrialContext) -> None:
        for epoch in trial.epochs(save=lambda path: path.touch(), load=lambda path: None):
            if next(calls) == 37:
                raise KeyboardInterrupt
            trial.report(loss=trial.params["lr"] / epoch)

    two = PBT(max_resource=8, perturbation_interval=2, population=4)
    made = study(tmp_path, breaks, scheduler=two)
    with contextlib.suppress(KeyboardInterrupt):
        made.run(num_trials=8, display="none")
    paused = [trial for trial in made.trials[4:] if trial.state is TrialState.PAUSED]
    assert paused
    for trial in paused:
        told = made.explain(trial)
        assert "of 4 at resource" in told or "of 3 at resource" in told or "of 2 at resource" in told
        assert Study.open(tmp_path / "pbt").explain(trial) == told


def test_a_study_goes_on_with_a_population_of_its_own(tmp_path: Path) -> None:
    study(tmp_path).run(num_trials=4, display="none")
    more = Study.resume(tmp_path / "pbt", backend="inline").run(num_trials=8, display="none")
    assert [trial.state.value for trial in more.trials] == ["COMPLETED"] * 8


def test_trials_that_never_meet_still_share_and_each_begins_at_its_turn(tmp_path: Path) -> None:
    assert study(tmp_path).config.share
    changing = {"lr": loguniform(1e-3, 1.0), "decay": multistep(0.1, milestones=choice([2], [4]))}
    assert study(tmp_path, space=changing).config.look_ahead == 0


def test_trials_that_share_nothing_take_over_weights_all_the_same(tmp_path: Path) -> None:
    apart = study(tmp_path, name="apart", share=False)
    assert not apart.config.share
    apart.run(num_trials=8, display="none")
    together = study(tmp_path).run(num_trials=8, display="none")
    assert [(t.params, t.value) for t in apart.trials] == [(t.params, t.value) for t in together.trials]
    moved = next(trial for trial in apart.trials if isinstance(trial.params["lr"], dict))
    assert moved.path[-1].node == moved.node
    assert "takes its weights" in apart.explain(moved)
    found = Study.open(tmp_path / "apart").evaluate(moved.params, 8)
    assert (found["loss"], found.resource) == (moved.value, 8)


@pytest.mark.parametrize("share", [True, False])
def test_a_study_evaluates_the_schedules_that_it_found_and_no_others(tmp_path: Path, share: bool) -> None:
    found = study(tmp_path, share=share).run(num_trials=8, display="none")
    moved = next(trial for trial in found.trials if isinstance(trial.params["lr"], dict))
    known = found.evaluate(moved.params, 8)
    assert (known["loss"], known.resource) == (moved.value, 8)
    later = study(tmp_path, share=share, name="later", scheduler=PBT(max_resource=12, perturbation_interval=2))
    with pytest.raises(SpaceError, match="write a number"):
        later.evaluate(moved.params, 8)


@pytest.mark.parametrize("share", [True, False])
def test_a_failed_trials_schedule_is_trained_to_where_it_was_to_go(tmp_path: Path, share: bool) -> None:
    broken = tmp_path / "broken"
    broken.touch()

    def breaks(trial: TrialContext) -> None:
        net = {"x": 1.0}

        def save(path: Path) -> None:
            path.write_text(json.dumps(net))

        def load(path: Path) -> None:
            net.update(json.loads(path.read_text()))

        for epoch in trial.epochs(save=save, load=load):
            if epoch == 7 and broken.exists():
                raise ValueError("broken")
            net["x"] *= 1 - trial.params["lr"] / epoch
            trial.report(loss=net["x"])

    found = study(tmp_path, breaks, share=share, max_failures=0)
    with pytest.raises(TrialsFailedError, match="all 8 trials failed"):
        found.run(num_trials=8, display="none")
    failed = next(trial for trial in found.trials if isinstance(trial.params["lr"], dict))
    assert failed.state.value == "FAILED"
    broken.unlink()
    known = found.evaluate(failed.params, 8)
    again = study(tmp_path, breaks, space=failed.params, scheduler=FIFO(max_resource=8), name="again")
    assert known["loss"] == again.run(num_trials=1, display="none").best_value


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"trainable": Plain}, UsageError, r"PBT\(.*changes values and Plain has no update\(hp\)"),
        ({"trainable": never_loops}, CannotPauseError, "does not loop over trial.epochs"),
        ({"space": {"x": 1}}, SpaceError, "No parameter of the space can be perturbed"),
        ({"scheduler": PBT(max_resource=8, perturbation_interval=2, perturb=["lrs"])}, SpaceError, "did you mean 'lr'"),
        ({"scheduler": PBT(max_resource=8, perturbation_interval=2, perturb=["name"])}, SpaceError, "it is a constant"),
        ({"space": {"lr": multistep(0.1, milestones=choice([2], [4]))}}, SpaceError, "it shapes a sequence"),
    ],
)
def test_what_cannot_work_is_said_before_anything_runs(
    options: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        study(tmp_path, **options)


def test_a_population_larger_than_the_trials_is_refused_before_a_run(tmp_path: Path) -> None:
    large = study(tmp_path, scheduler=PBT(max_resource=8, perturbation_interval=2, population=9))
    with pytest.raises(ResourceError, match="population=9 is larger than num_trials=8"):
        large.run(num_trials=8, display="none")
    with pytest.raises(ResourceError, match="population=9 is larger than num_trials=8"):
        large.preview(8)
    assert not (tmp_path / "pbt").exists()


THREE: dict[str, Any] = {"space": {"lr": choice(0.1, 0.2, 0.3), "power": 1}, "searcher": GridSearch()}
LARGE = PBT(max_resource=8, perturbation_interval=2, population=9)


@pytest.mark.parametrize("num_trials", [None, 9, 64])
def test_a_population_larger_than_the_proposals_is_refused_before_a_run(num_trials: int | None, tmp_path: Path) -> None:
    large = study(tmp_path, scheduler=LARGE, **THREE)
    for ask in (lambda: large.run(num_trials, display="none"), lambda: large.preview(num_trials)):
        with pytest.raises(ResourceError, match=r"population=9 is larger than num_trials=3.* has only 3 proposals"):
            ask()
    assert not (tmp_path / "pbt").exists()
    assert len(study(tmp_path, scheduler=SCHEDULER, **THREE).run(num_trials, display="none").trials) == 3


def test_a_study_begun_with_fewer_proposals_than_its_population_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PBT, "warnings", lambda self, num_trials: [])
        study(tmp_path, scheduler=LARGE, **THREE).run(64, display="none")
    for num_trials in (None, 64):
        assert len(study(tmp_path, scheduler=LARGE, resume=True, **THREE).run(num_trials, display="none").trials) == 3


def test_a_preview_says_how_much_is_trained_at_most(tmp_path: Path) -> None:
    told = str(study(tmp_path, space={"x": uniform(0, 1), "n": randint(1, 3)}).preview(16))
    assert "128 units of training" in told
