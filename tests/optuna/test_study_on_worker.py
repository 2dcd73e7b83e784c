"""What an objective reads of its study on a worker: as in Optuna, or an error that says why not."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.study import Study

import asyncsearch.optuna as ours
from asyncsearch import Study as SearchStudy
from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.searchers import GridSearch
from asyncsearch.space import Space

PUBLIC = sorted(name for name in dir(Study) if not name.startswith("_"))
CALLS: dict[str, tuple[Any, ...]] = {
    "add_trial": (optuna.create_trial(value=9.0),),
    "add_trials": ([optuna.create_trial(value=9.0)],),
    "ask": (),
    "enqueue_trial": ({"x": 0.25},),
    "get_trials": (),
    "optimize": (lambda _trial: 0.0,),
    "set_metric_names": (["loss"],),
    "set_system_attr": ("system", 1),
    "set_user_attr": ("user", 1),
    "stop": (),
    "tell": (0, 1.0),
    "trials_dataframe": (),
}
SAID = {
    "ask": "A study makes its trials on the driver",
    "sampler": "the driver has: read what the objective needs of it before optimize",
    "pruner": "the driver has: read what the objective needs of it before optimize",
}
"""What is no answer on a worker, and the words for it; such an error ends the search or the trial."""


def answer(name: str, study: Any) -> str:
    """Return what an objective gets for a name of its study, as text."""
    try:
        found = getattr(study, name)
        found = found(*CALLS[name]) if name in CALLS else found
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if name == "trials_dataframe":
        return str(sorted(found.columns))
    if isinstance(found, list) and found and isinstance(found[0], optuna.trial.FrozenTrial):
        return str([(one.number, one.values, one.params, one.state) for one in found])
    return str(getattr(found, "values", found)) if isinstance(found, optuna.trial.FrozenTrial) else str(found)


def heard(create_study: Any, name: str) -> tuple[list[str], int, str]:
    """Return what two trials got for a name, how many trials there were in the end, and the error that ended it."""
    study = create_study(sampler=optuna.samplers.RandomSampler(seed=1), study_name="read", direction="minimize")
    study.set_user_attr("given", [1, 2])

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        trial.set_user_attr("heard", answer(name, trial.study))
        return float(x)

    ended = ""
    try:
        study.optimize(objective, n_trials=2)
    except Exception as error:
        ended = str(error)
    return [trial.user_attrs.get("heard", "") for trial in study.trials], len(study.trials), ended


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_of_a_study_answers_in_an_objective(name: str, quiet: None) -> None:
    ours.workers(1, backend="inline", display="none")
    mine = heard(ours.create_study, name)
    if name in SAID:
        assert SAID[name] in json.dumps(mine)
    else:
        assert mine == heard(optuna.create_study, name)


def test_all_methods_of_a_study_are_called_here() -> None:
    assert {name for name in PUBLIC if inspect.isfunction(inspect.getattr_static(Study, name))} <= CALLS.keys()


def test_a_space_that_is_not_known_before_it_runs_says_so(quiet: None, tmp_path: Path) -> None:
    ours.workers(1, backend="inline", display="none", store=str(tmp_path / "kept"))
    ours.create_study(study_name="read").optimize(lambda trial: float(trial.suggest_float("x", 0, 1)), n_trials=2)
    kept = SearchStudy.resume(tmp_path / "kept" / "read" / "1", backend="inline")
    assert "not known before a trial asks" in " ".join(str(kept.preview(num_trials=3)).split())
    with pytest.raises(UsageError, match="run that program again"):
        kept.run(3)
    with pytest.raises(SpaceError, match="not known before a trial asks for them"):
        GridSearch().begin(Space.open(), 0)
