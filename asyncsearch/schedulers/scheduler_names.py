"""Checks that the scheduler of a study is one; what others call theirs is answered by the call to write. Pure."""

from __future__ import annotations

import re

from asyncsearch.errors import UsageError
from asyncsearch.schedulers.base_scheduler import Scheduler

_CALLS = {
    "asynchyperband": "ASHA(max_resource=81)",  # Ray's class behind ASHAScheduler
    "hyperband": "Hyperband(max_resource=81)",
    "bohb": "Hyperband(max_resource=81)",
    "asha": "ASHA(max_resource=81)",
    "successivehalving": "ASHA(max_resource=81)",
    "sha": "SHA(max_resource=81)",
    "median": "MedianStopping()",
    "pbt": "PBT(max_resource=100, perturbation_interval=5)",
    "populationbased": "PBT(max_resource=100, perturbation_interval=5)",
    "fifo": "FIFO()",
    "nop": "FIFO()",
    "none": "FIFO()",
}
"""Part of a name, in small letters -> the call."""
_MAX = ("_max_t", "max_t", "_max_resource", "max_resource")
"""Attributes in which schedulers of other libraries have the resource at which a trial is complete."""
_INTERVAL = ("_perturbation_interval", "perturbation_interval")
_SEARCHERS = ("tpe", "cmaes", "sobol", "nsgaii", "random", "grid", "optuna", "bayes", "gp")
"""Parts of names of searchers, which are another argument."""


def require_scheduler(given: object) -> Scheduler:
    """Return a scheduler as it is.

    Raises:
        UsageError: it is none.
    """
    if isinstance(given, Scheduler):
        return given
    kind = given if isinstance(given, type) else type(given)
    name = given if isinstance(given, str) else kind.__name__
    shown = repr(given) if isinstance(given, str) else name if isinstance(given, type) else f"{name}(...)"
    lower = name.lower()
    call = scheduler_call(given)
    if call is not None:
        raise UsageError(f"scheduler={shown} is not a scheduler: write scheduler={call}.")
    if any(part in lower for part in _SEARCHERS):
        own = repr(given) if isinstance(given, str) else f"{name}(...)"
        raise UsageError(f"scheduler={shown} proposes configurations: write searcher={own}.")
    calls = ", ".join(dict.fromkeys(_CALLS.values()))
    raise UsageError(f"scheduler={shown} is not a scheduler: write scheduler= with one of {calls}.")


def scheduler_call(given: object) -> str | None:
    """Return the call for what a name or an object of another library stands for, with its own numbers; None: none."""
    kind = given if isinstance(given, type) else type(given)
    name = given if isinstance(given, str) else kind.__name__
    lower = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    call = next((call for part, call in _CALLS.items() if part in lower), None)
    if call is None or isinstance(given, str | type):
        return call
    for argument, attributes in (("max_resource", _MAX), ("perturbation_interval", _INTERVAL)):
        numbers = (getattr(given, attribute, None) for attribute in attributes)
        number = next((one for one in numbers if isinstance(one, int | float) and one >= 1), None)
        if number is not None:
            call = re.sub(rf"{argument}=\d+", f"{argument}={int(number)}", call)
    return call
