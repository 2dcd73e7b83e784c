"""The table: what arguments and attributes are called by Optuna, Ray Tune, Hyperopt, scikit-learn and others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from asyncsearch.arguments import shown
from asyncsearch.other_libraries.algorithms import scheduler_call

T = TypeVar("T")

Replacement = str | Callable[[Any], str]
"""What to write: text, in which ``{value}`` is the value given; or a function of that value."""

DATABASE = re.compile(r"(?i:sqlite|mysql|mariadb|postgres|redis|mongo|mssql|oracle|duckdb|cockroach)[a-zA-Z0-9+]*://")
"""A URL at which another library would keep a study."""


def instead_of(argument: str, value: object, answers: Mapping[str, Replacement]) -> str:
    """Return the text to write instead of an argument, which is one of ``answers``."""
    answer = answers[argument]
    return answer(value) if callable(answer) else answer.format(value=shown(value))


def argument_answers(places: Collection[str], known: Collection[str]) -> dict[str, Replacement]:
    """Return argument -> what to write, of a function or of a class and its bases, the most special one last.

    ``known`` are its arguments: it gets no answer that is one of another class of its kind.
    """
    found = {name: answer for place in places for name, answer in ARGUMENTS.get(place, {}).items()}
    return {
        name: answer
        for name, answer in found.items()
        if not isinstance(answer, str) or (own := _RENAMED.fullmatch(answer)) is None or own[1] in known
    }


def attribute_answer(owner: str, name: str) -> str:
    """Return the text to write instead of an attribute that an owner does not have. Empty if it is not known."""
    return ATTRIBUTES[owner].get(name, "")


def mode_of(direction: object) -> str:
    """Return the argument for a direction of another library; both modes where it names none."""
    word = str(getattr(direction, "name", direction)).lower()
    modes = [mode for mode in ("min", "max") if word.startswith(mode)] or ["min", "max"]
    return " or ".join(f"mode={mode!r}" for mode in modes)


def _folder(place: object) -> str:
    """Return the argument for a study that another library would keep in a place, which may be a database."""
    if not isinstance(place, str | Path) or "<" in str(place):
        return "store='studies/mine'"
    text = str(place)
    if not DATABASE.match(text):
        return f"store={text!r}"
    # Only of a file the name is shown: other URLs may hold a password.
    name = Path(text.partition("?")[0]).stem if text.startswith("sqlite") else ""
    folder = f"studies/{name or 'mine'}"
    return f"store={folder!r}"


def _searcher(value: object) -> str:
    return f"searcher={value!r}" if isinstance(value, str) else f"searcher={type(value).__name__}(...)"


def _perturbed(value: object) -> str:
    names = [str(name) for name in value] if isinstance(value, Mapping) else ["lr"]
    space = ", ".join(f"{name!r}: loguniform(1e-4, 1e-1)" for name in names[:1]) + (", ..." if names[1:] else "")
    return f"perturb={names!r}, and their values into Study(..., space={{{space}}})"


def _table(rows: Mapping[str, Mapping[str, T]]) -> dict[str, dict[str, T]]:
    """Return the answers by place and name: the keys of a row are parted by spaces, ``{name}`` is each of its names."""

    def of(name: str, answer: Any) -> Any:
        return answer.replace("{name}", name) if isinstance(answer, str) else answer

    return {
        place: {name: of(name, answer) for names, answer in answers.items() for name in names.split()}
        for places, answers in rows.items()
        for place in places.split()
    }


def _workers(call: str) -> Callable[[Any], str]:
    """Return the answer to a number of workers, of which none, 0 and -1 mean all; ``call``: in which ours is given."""

    def answer(value: object) -> str:
        if value is None or (isinstance(value, int) and value < 1):
            return f"{call.format('')} without parallelism=, by a worker for each slot or core".strip()
        return call.format(f"parallelism={shown(value)}")

    return answer


def _seed(value: object) -> str:
    return f"seed={value}" if type(value) is int and value >= 0 else "seed=0, a number"


def _last_of(value: object) -> str:
    """Return the argument for an end that does not belong to a range elsewhere, and does to ours."""
    return f"high={value - 1}, which is drawn too" if type(value) is int else "high=1023, which is drawn too"


_RENAMED = re.compile(r"(\w+)=\{value\}")
_ASHA = "scheduler=ASHA(max_resource=81)"
_COUNTS = {
    "n_trials num_samples max_trials trials max_evals": "num_trials",
}
_WORKERS = "n_jobs num_workers n_workers max_concurrent max_concurrent_trials"
_REPORTS = (
    "what is to be done after a report into the trainable, after trial.report(...); to look at results while it runs, "
    "open the store in another process: Study.open('studies/digits').trials"
)
_IN_STUDY = {"version share store save_every max_failures resume": "Study(..., {name}={value})"}
_BOUNDS: dict[str, Replacement] = {"min lower start a": "low={value}", "max upper stop end b": "high={value}"}
_ENDS: dict[str, Replacement] = dict.fromkeys(("upper", "stop", "end"), _last_of)
"""Ends that are not drawn, in Python and in Ray."""

ARGUMENTS: Mapping[str, Mapping[str, Replacement]] = _table(
    {
        "Study": {
            "direction directions goal": mode_of,
            "minimize": lambda value: mode_of("min" if value else "max"),
            "maximize": lambda value: mode_of("max" if value else "min"),
            **{names: f"study.run({ours}={{value}})" for names, ours in _COUNTS.items()},
            _WORKERS: _workers("study.run({})"),
            "num_trials parallelism timeout display logs": "study.run({name}={value})",
            "max_resource max_resources max_epochs max_t epochs": "scheduler=ASHA(max_resource={value})",
            "min_resource grace_period": "scheduler=ASHA(max_resource=81, min_resource={value})",
            "reduction_factor": "scheduler=ASHA(max_resource=81, reduction_factor={value})",
            "search_space param_space param_distributions param_grid": "space={value}",
            "params config hyperparameters": "space={value}",
            "sampler search_alg algo optimizer tuner": _searcher,
            "pruner": lambda value: f"scheduler={scheduler_call(value) or 'ASHA(max_resource=81)'}",
            "objective train function func fn trainable_fn": "the function first, Study(train, ...)",
            "storage path folder dir storage_path local_dir project_name": _folder,
            "study_name experiment_name": "name={value}",
            "load_if_exists restore": "resume=True to go on with the study in the store",
            "overwrite": "store= with another folder: a study is never written over",
            "random_state": _seed,
            "early_stopping early_stop": _ASHA,
            "algorithm method strategy": f"searcher={{value}}, or {_ASHA}",
            "verbose show_progress_bar progress": "study.run(display='auto') or study.run(logs=True)",
            "gpus_per_trial num_gpus_per_trial": "devices_per_trial={value}",
            "gpus num_gpus resources_per_trial": "devices_per_trial=1, the number of each trial",
            "gang gang_size world_size nproc_per_trial workers_each": "workers_per_trial={value}",
            "pack_size max_pack pack_limit num_packed trials_per_worker": "pack={value}",
            "packed packing auto_pack": "pack='auto'",
            "pack_strategy packing_strategy": "pack_opt={value}",
            "pack_by": "pack_by = {value} in the class of the trainable",
            "checkpoint save_checkpoints": "checkpoints=Checkpoints(keep_checkpoints=3)",
            "callbacks": _REPORTS,
        },
        "run preview run_together Cluster submit": {
            **{names: f"{ours}={{value}}" for names, ours in _COUNTS.items()},
            "n": "num_trials={value}",
            f"{_WORKERS} workers": _workers("{}"),
            "timeout_s time_budget_s max_time time_limit": "timeout={value}",
            "verbose show_progress_bar progress": "display='auto' or display='none'",
            "max_resource max_resources max_epochs epochs": "Study(..., scheduler=ASHA(max_resource={value}))",
            "callbacks": _REPORTS,
            "func objective": "the trainable into Study(train, ...)",
            "space metric mode scheduler searcher store seed resume backend name": "Study(..., {name}={value})",
        },
        "Study.resume": {
            **{names: f"Study.resume(store).run({ours}={{value}})" for names, ours in _COUNTS.items()},
            _WORKERS: _workers("Study.resume(store).run({})"),
            "num_trials parallelism timeout logs": "Study.resume(store).run({name}={value})",
        },
        "Sharing": _IN_STUDY
        | {
            "folder path dir url shared_folder plan": "shared={value}",
            "packed take_packed allow_packed tolerance": "tolerant=True",
            "quota max_bytes size max_size": "quota_bytes={value}",
        },
        "WorkerOptions": _IN_STUDY
        | {
            "parallelism num_workers n_workers max_workers workers n_jobs processes": _workers("study.run({})"),
            "timeout time_limit max_time": "trial_timeout={value}",
            "retries max_retries": "Study(..., max_failures={value})",
            "heartbeat_timeout": "lease_timeout={value}",
        },
        "Checkpoints": _IN_STUDY
        | {
            "keep": "keep_checkpoints={value}",
            "num_to_keep max_to_keep keep_last": "keep_checkpoints=3, the best trials whose last checkpoint is kept",
            "dir_size max_dir_bytes trial_dir_bytes artifact_bytes": "dir_bytes={value}",
            "every frequency checkpoint_frequency": "Study(..., save_every={value})",
        },
        "Scheduler": {
            "metric mode seed": "it in Study(...)",
            "num_trials n_trials": "study.run(num_trials={value})",
            "max_t max_epochs max_iter max_resources max_steps": "max_resource={value}",
            "epochs num_epochs budget max_budget R": "max_resource={value}",
            "grace_period min_t min_epochs min_resources": "min_resource={value}",
            "n_warmup_steps": lambda value: f"min_resource={value + 1 if type(value) is int else 1}",
            "eta factor halving_factor": "reduction_factor={value}",
            "n_startup_trials": "min_trials={value}",
        },
        "PBT": dict.fromkeys(
            ("hyperparam_mutations", "hyperparam_bounds", "mutations", "custom_explore_fn"), _perturbed
        ),
        "Searcher": {"metric mode seed space": "it in Study(...)"},
        "uniform": _BOUNDS | {"log": "loguniform(1e-4, 1e-1)", "step": "quniform(0.0, 1.0, {value})"},
        "randint": _BOUNDS | _ENDS | {"log": "lograndint(1, 1024)", "q": "randint(1, 100, step={value})"},
        "loguniform quniform": _BOUNDS,
        "lograndint": _BOUNDS | _ENDS,
        "choice": {
            "p probabilities": "choice('a', 'b', weights={value})",
            "values options choices categories": "choice(*{value})",
        },
        "check": {"epochs max_resource": "units={value}"},
        "StandaloneTrial": {"epochs": "max_resource={value}"},
    }
)
"""Function or class -> argument that it does not have -> what to write."""

ATTRIBUTES: Mapping[str, Mapping[str, str]] = _table(
    {
        "asyncsearch": {
            "Tuner create_study": "Study(train, ...)",
            "minimize fmin": "Study(train, ..., mode='min').run(num_trials=64)",
            "run": "Study(train, ...).run(num_trials=64)",
            "load_study": "Study.open(store)",
            "report": "trial.report(...) in the trainable",
            "SparkTrials": "Study(..., backend='spark')",
            "Optuna": "OptunaSearch()",
            "Asha": "ASHA(max_resource=81)",
            "SuccessiveHalvingPruner": "ASHA(max_resource=81, variant='stopping')",
            "Categorical": "choice('a', 'b')",
            "Real Float": "uniform(0.0, 1.0)",
            "Integer": "randint(1, 4)",
            "quantized": "quniform(0.0, 1.0, 0.1)",
            "hp": "from asyncsearch import choice, loguniform, randint, uniform",
            "tune": "from asyncsearch import ASHA, Study, choice, loguniform, uniform",
        },
        "study": {
            "optimize fit start search tune minimize maximize execute launch main": "study.run(num_trials=64)",
            "best_config best_hyperparameters get_best_params best_params_": "study.best_params",
            "best_score best_metric best_score_ best_loss best_accuracy": "study.best_value",
            "best best_result get_best_result get_best_trial best_trials": "study.best_trial",
            "results get_trials get_results": "study.trials",
            "dataframe get_dataframe to_dataframe to_pandas": "study.trials_dataframe()",
            "cv_results_ trials_df df results_df": "study.trials_dataframe()",
            "load": "Study.open(store)",
            "set_user_attr user_attrs": "trial.report(loss=..., size=...) in the trainable: numbers belong to a trial",
            "stop": "Study.run(timeout=...), or interrupt the cell: what is trained is kept",
            "ask tell": "Study(train, ...) and study.run(): the search calls the trainable",
            "plot": "plot_history(study), plot_rungs(study) or plot_timeline(study)",
            "best_model best_estimator_ best_checkpoint get_best_model": (
                "`with study.checkpoint() as path: load_state(path, {'net': net})`"
            ),
            "save dump": "Study(..., store='studies/digits'): every report is saved there as it arrives",
            "enqueue_trial add_trial points_to_evaluate": (
                "Study(..., space=Space({...}, initial=[{'lr': 0.1}])): these are tried first"
            ),
        },
        "trial": {
            "config hparams hyperparameters hyperparams parameters parameter param hp get": "write trial.params['lr']",
            "log log_metrics add_metric": "write trial.report({metric})",
            "set_user_attr user_attrs set_system_attr": (
                "write trial.report({metric}) for a number, and anything else into a file in trial.dir"
            ),
            "number trial_id id": "write trial.name",
            "max_epochs num_epochs budget": "write trial.max_resource",
            "logdir log_dir folder path artifacts tensorboard_dir": "write trial.dir",
            "should_prune prune": (
                "leave it out, trial.report(...) ends a trial that is not worth finishing, and trial.stop(reason) one "
                "by a rule of yours"
            ),
            "checkpoint save_checkpoint get_checkpoint load_checkpoint save load restore": (
                'write `for epoch in trial.epochs(state={"net": net, "opt": opt}):`, which saves and restores'
            ),
            "epoch step iteration range training_iteration": "write `for epoch in trial.epochs():`",
            "print info logger write": "write print(...), whose output is in the trial's log",
            "value values metrics result": "write trial.report({metric}) to say it",
        },
        "finished_trial": {
            "metric score result last_result values": "value",
            "loss accuracy": "metrics",
            "config hyperparameters hparams": "params",
            "number trial_id": "id",
            "epoch epochs step last_step training_iteration": "resource",
            "status": "state",
            "datetime_start": "started_s",
            "datetime_complete": "ended_s",
        },
    }
)
"""Owner -> attribute that it does not have -> what to write. A trial in its function, and one of ``study.trials``."""
