"""First lines of people, as in the libraries that they know, and the line that does it here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsearch.arguments import Replacement, checked, grouped
from asyncsearch.errors import UsageError
from asyncsearch.schedulers.scheduler_names import scheduler_call
from asyncsearch.store.opening import DATABASE
from asyncsearch.study.asked.options import Checkpoints, Sharing, WorkerOptions

STUDY = "Study(train, space={'lr': loguniform(1e-4, 1e-1)}, metric='accuracy', mode='max')"
"""A complete first line."""


def mode_of(direction: object) -> str:
    """Return the mode that a direction of another library names, as an argument; both where it names none."""
    word = str(getattr(direction, "name", direction)).lower()
    if word.startswith("min"):
        return "mode='min'"
    if word.startswith("max"):
        return "mode='max'"
    return "mode='min' or mode='max'"


def _folder(place: object) -> str:
    """Return the folder for a study that another library would keep in a place, which may be a database."""
    if not isinstance(place, str | Path) or "<" in str(place):
        return "studies/mine"
    text = str(place)
    if not DATABASE.match(text):
        return text
    name = Path(text.partition("?")[0]).stem if text.startswith("sqlite") else ""
    return f"studies/{name or 'mine'}"


def _short(value: object) -> str:
    """Return a value as it would be written, an object by its class."""
    return repr(value) if isinstance(value, str) else f"{type(value).__name__}(...)"


def missing_mode(given: Mapping[str, Any]) -> str:
    """Return the answer to a ``Study`` without ``mode``: both lines."""
    metric = given.get("metric", "loss")
    return (
        f"Study(metric={metric!r}) does not say which values of {metric!r} are better: write\n"
        f"    Study(..., metric={metric!r}, mode='min')  # the lowest\n"
        f"    Study(..., metric={metric!r}, mode='max')  # the highest"
    )


_RUN = {
    **dict.fromkeys(("n_trials", "num_samples", "max_trials", "trials", "max_evals"), "num_trials"),
    **dict.fromkeys(("n_jobs", "num_workers", "n_workers", "max_concurrent", "max_concurrent_trials"), "parallelism"),
}
_CALLBACKS = (
    "what is to be done after a report into the trainable, after trial.report(...); to look at results while it runs, "
    "open the store in another process: Study.open('studies/digits').trials"
)
_SPACE = ("search_space", "param_space", "param_distributions", "param_grid", "params", "config", "hyperparameters")

IN_STUDY: Mapping[str, Replacement] = {
    **grouped(sharing=Sharing, workers=WorkerOptions, checkpoints=Checkpoints),
    **dict.fromkeys(("direction", "directions", "goal"), mode_of),
    "minimize": lambda value: mode_of("min" if value else "max"),
    "maximize": lambda value: mode_of("max" if value else "min"),
    **{name: f"study.run({ours}={{value}})" for name, ours in _RUN.items()},
    **{name: f"study.run({name}={{value}})" for name in ("num_trials", "parallelism", "timeout", "display", "logs")},
    **dict.fromkeys(
        ("max_resource", "max_resources", "max_epochs", "max_t", "epochs"), "scheduler=ASHA(max_resource={value})"
    ),
    **dict.fromkeys(("min_resource", "grace_period"), "scheduler=ASHA(max_resource=81, min_resource={value})"),
    "reduction_factor": "scheduler=ASHA(max_resource=81, reduction_factor={value})",
    **dict.fromkeys(_SPACE, "space={value}"),
    **dict.fromkeys(("sampler", "search_alg", "algo", "optimizer", "tuner"), lambda value: f"searcher={_short(value)}"),
    "pruner": lambda value: f"scheduler={scheduler_call(value) or 'ASHA(max_resource=81)'}",
    **dict.fromkeys(
        ("objective", "train", "function", "func", "fn", "trainable_fn"), "the function first, Study(train, ...)"
    ),
    **dict.fromkeys(
        ("storage", "path", "folder", "dir", "storage_path", "local_dir", "project_name"),
        lambda value: f"store={_folder(value)!r}",
    ),
    **dict.fromkeys(("study_name", "experiment_name"), "name={value}"),
    **dict.fromkeys(("load_if_exists", "restore", "overwrite"), "resume=True to go on with the study in the store"),
    "random_state": "seed={value}",
    **dict.fromkeys(("early_stopping", "early_stop"), "scheduler=ASHA(max_resource=81)"),
    **dict.fromkeys(("algorithm", "method", "strategy"), "searcher={value}, or scheduler=ASHA(max_resource=81)"),
    **dict.fromkeys(("verbose", "show_progress_bar", "progress"), "study.run(display='auto') or study.run(logs=True)"),
    **dict.fromkeys(
        ("gpus", "num_gpus", "gpus_per_trial", "num_gpus_per_trial"),
        "devices_per_trial={value}",
    ),
    "resources_per_trial": "devices_per_trial=1",
    **dict.fromkeys(
        ("gang", "gang_size", "world_size", "nproc_per_trial", "workers_each"),
        "workers_per_trial={value}",
    ),
    **dict.fromkeys(("pack_size", "max_pack", "pack_limit", "num_packed", "trials_per_worker"), "pack={value}"),
    **dict.fromkeys(("packed", "packing", "auto_pack"), "pack='auto'"),
    **dict.fromkeys(("pack_strategy", "packing_strategy"), "pack_opt={value}"),
    **dict.fromkeys(("checkpoint", "save_checkpoints"), "checkpoints=Checkpoints(keep_checkpoints=3)"),
    "callbacks": _CALLBACKS,
}
"""Argument of ``Study`` that it does not have -> what to write."""

IN_RUN: Mapping[str, Replacement] = {
    **{name: f"{ours}={{value}}" for name, ours in _RUN.items()},
    "workers": "parallelism={value}",
    **dict.fromkeys(("timeout_s", "time_budget_s", "max_time", "time_limit"), "timeout={value}"),
    **dict.fromkeys(("verbose", "show_progress_bar", "progress"), "display='auto' or display='none'"),
    **dict.fromkeys(
        ("max_resource", "max_resources", "max_epochs", "epochs"), "Study(..., scheduler=ASHA(max_resource={value}))"
    ),
    "callbacks": _CALLBACKS,
    "func": "the trainable into Study(train, ...)",
    "objective": "the trainable into Study(train, ...)",
    **{
        name: f"Study(..., {name}={{value}})"
        for name in ("space", "metric", "mode", "scheduler", "searcher", "store", "seed", "resume", "backend", "name")
    },
    "n": "num_trials={value}",
}
"""Argument of ``Study.run`` that it does not have -> what to write."""

IN_RESUME: Mapping[str, Replacement] = {
    name: f"Study.resume(store).run({name}={{value}})" for name in ("num_trials", "parallelism", "timeout", "logs")
} | {name: f"Study.resume(store).run({ours}={{value}})" for name, ours in _RUN.items()}
"""Argument of ``Study.resume`` that it does not have -> what to write."""

OF_STUDY: Mapping[str, str] = {
    **dict.fromkeys(("optimize", "fit", "start", "search", "tune", "minimize", "maximize"), "study.run(num_trials=64)"),
    **dict.fromkeys(("best_config", "best_hyperparameters", "get_best_params", "best_params_"), "study.best_params"),
    **dict.fromkeys(("best_score", "best_metric", "best_score_", "best_loss", "best_accuracy"), "study.best_value"),
    **dict.fromkeys(("best", "best_result", "get_best_result", "get_best_trial", "best_trials"), "study.best_trial"),
    **dict.fromkeys(("results", "get_trials", "get_results"), "study.trials"),
    **dict.fromkeys(
        ("dataframe", "get_dataframe", "to_dataframe", "to_pandas", "cv_results_", "trials_df", "df", "results_df"),
        "study.trials_dataframe()",
    ),
    "load": "Study.open(store)",
    **dict.fromkeys(
        ("set_user_attr", "user_attrs"), "trial.report(loss=..., size=...) in the trainable: numbers belong to a trial"
    ),
    "stop": "Study.run(timeout=...), or interrupt the cell: what is trained is kept",
    "ask": "Study(train, ...) and study.run(): the search calls the trainable",
    "tell": "Study(train, ...) and study.run(): the search calls the trainable",
    "plot": "plot_history(study), plot_rungs(study) or plot_timeline(study)",
    **dict.fromkeys(("execute", "launch", "main"), "study.run(num_trials=64)"),
    **dict.fromkeys(
        ("best_model", "best_estimator_", "best_checkpoint", "get_best_model"),
        "`with study.checkpoint() as path: load_state(path, {'net': net})`",
    ),
    **dict.fromkeys(("save", "dump"), "Study(..., store='studies/digits'): every report is saved there as it arrives"),
    **dict.fromkeys(
        ("enqueue_trial", "add_trial", "points_to_evaluate"),
        "Study(..., space=Space({...}, initial=[{'lr': 0.1}])): these are tried first",
    ),
}
"""Attribute that ``Study`` does not have -> what to write."""


def require_groups(sharing: object, workers: object, checkpoints: object) -> None:
    """Refuse a value where a group of options is taken.

    Raises:
        UsageError: the message holds the group with the value.
    """
    if isinstance(sharing, str | Path):
        raise UsageError(f"sharing={str(sharing)!r}: write sharing=Sharing(shared={str(sharing)!r}).")
    if isinstance(workers, int):
        raise UsageError(
            f"workers={workers}: their number is an argument of run, write study.run(parallelism={workers})."
        )
    if isinstance(checkpoints, int):
        raise UsageError(f"checkpoints={checkpoints}: write checkpoints=Checkpoints(keep_checkpoints={checkpoints}).")
    checked(sharing, Sharing, "sharing")
    checked(workers, WorkerOptions, "workers")
    checked(checkpoints, Checkpoints, "checkpoints")


_HIGHER = "accuracy acc auc auroc auprc f1 r2 precision recall reward score iou map bleu rouge dice ndcg mrr kappa mcc"
_LOWER = "loss error err rmse mse mae mape logloss nll perplexity ppl wer cer cost latency regret"
_BETTER = dict.fromkeys(_HIGHER.split(), "max") | dict.fromkeys(_LOWER.split(), "min")
"""Word in the name of a metric -> the usual direction."""


def direction_notes(metric: str, mode: str) -> list[str]:
    """Return a note if a search looks for the worst values of its metric, as far as its name tells."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", metric).lower())
    # The last word says what is measured in "accuracy_loss" or "score_error"; a sign turns it round.
    last = next((word for word in reversed(words) if word in _BETTER), None)
    if last is None or "neg" in words or "negative" in words or _BETTER[last] == mode:
        return []
    which = "lowest" if mode == "min" else "highest"
    better = _BETTER[last]
    return [f"mode={mode!r} searches the {which} {metric}: if the {_other(which)} is the best, write mode={better!r}."]


def _other(which: str) -> str:
    return "highest" if which == "lowest" else "lowest"
