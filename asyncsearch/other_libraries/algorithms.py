"""Schedulers and searchers by the names of other libraries: classes, objects or texts."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SCHEDULERS = {
    "asynchyperband": "ASHA(max_resource=81)",  # Ray's class behind ASHAScheduler
    "hyperband": "Hyperband(max_resource=81)",
    "bohb": "Hyperband(max_resource=81)",
    "asha": "ASHA(max_resource=81)",
    "successivehalving": "ASHA(max_resource=81)",
    "halving": "ASHA(max_resource=81)",
    "sha": "SHA(max_resource=81)",
    "median": "MedianStopping()",
    "pbt": "PBT(max_resource=100, perturbation_interval=5)",
    "populationbased": "PBT(max_resource=100, perturbation_interval=5)",
    "fifo": "FIFO()",
    "noppruner": "FIFO()",
    "none": "FIFO()",
}
"""Part of a name, in small letters -> the call; the first one counts."""
SEARCHER_NAMES = ("random", "grid", "sobol", "cmaes", "gp", "nsgaii", "tpe")
"""Names by which searchers of ours may be given."""
_SEARCHERS = {
    **{name: name for name in SEARCHER_NAMES},
    "bayes": "gp",
    "bo": "gp",
    "gaussian": "gp",
    "hyperopt": "tpe",
    "bohb": "tpe",
    "optuna": "tpe",
    "cma": "cmaes",
    "qmc": "sobol",
}
"""Part of a name, in small letters -> the nearest name of ours; the first one counts."""
_NUMBERS = {
    "max_resource": ("_max_t", "max_t", "_max_resource", "max_resource"),
    "perturbation_interval": ("_perturbation_interval", "perturbation_interval"),
}
"""Argument of ours -> attributes in which schedulers of other libraries have its value."""
_KINDS = re.compile(r".*(?:Search|Sampler|Optimization|Scheduler|Pruner|Training|Rule)")
"""Classes of searchers and schedulers in other libraries."""


def scheduler_call(given: object) -> str | None:
    """Return the call for a scheduler of another library, by its name or as an object with its own numbers.

    None if it is not known.
    """
    call = _first(_SCHEDULERS, given)
    if call is None or isinstance(given, str | type):
        return call
    for argument, attributes in _NUMBERS.items():
        numbers = (getattr(given, attribute, None) for attribute in attributes)
        number = next((one for one in numbers if isinstance(one, int | float) and one >= 1), None)
        if number is not None:
            call = re.sub(rf"{argument}=\d+", f"{argument}={int(number)}", call)
    return call


def answer_on_scheduler(given: object) -> str:
    """Return the sentence on a value that is no scheduler."""
    if (call := scheduler_call(given)) is not None:
        return f"scheduler={_shown(given)} is not a scheduler: write scheduler={call}."
    if (name := _first(_SEARCHERS, given)) is not None:
        own = repr(name) if isinstance(given, str) else f"{_name(given)}(...)"
        return f"scheduler={_shown(given)} proposes configurations: write searcher={own}."
    calls = ", ".join(dict.fromkeys(_SCHEDULERS.values()))
    return f"scheduler={_shown(given)} is not a scheduler: write scheduler= with one of {calls}."


def answer_on_searcher(given: object) -> str:
    """Return the sentence on a value that is no searcher, nor the name of one."""
    if isinstance(given, type):
        call = "GridSearch(points=5)" if given.__name__ == "GridSearch" else f"{given.__name__}()"
        return f"searcher={given.__name__} is a class, not a searcher: write searcher={call}."
    name, scheduler = _first(_SEARCHERS, given), scheduler_call(given)
    # BOHB is both: a searcher here, since ASHA with TPE is one.
    if name is None and scheduler is not None:
        own = repr(given) if repr(given).endswith(")") else scheduler
        return f"searcher={given!r} decides how far trials train: write scheduler={own}."
    names = ", ".join(map(repr, SEARCHER_NAMES))
    if not isinstance(given, str):
        return f"searcher={given!r} is not a Searcher: write one of {names}, or RandomSearch()."
    hint = f"write one of {names}" if name is None else f"write searcher={name!r}. The names are {names}"
    return f"searcher={given!r} is not the name of a searcher: {hint}."


def answer_on_class(name: str) -> str:
    """Return the text to write for a class of another library. Empty if it neither searches nor schedules."""
    if not _KINDS.fullmatch(name):
        return ""
    searcher = _first(_SEARCHERS, name)
    return f"Study(..., searcher={searcher!r})" if searcher else scheduler_call(name) or ""


def _first(answers: Mapping[str, str], given: object) -> str | None:
    name = re.sub("[-_ ]", "", _name(given).lower())
    return next((answer for part, answer in answers.items() if part in name), None)


def _name(given: object) -> str:
    if isinstance(given, str):
        return given
    return given.__name__ if isinstance(given, type) else type(given).__name__


def _shown(given: object) -> str:
    if isinstance(given, str):
        return repr(given)
    return _name(given) if isinstance(given, type) else f"{_name(given)}(...)"
