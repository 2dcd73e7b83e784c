"""Checks that the scheduler of a study is one; what others call theirs is answered by the call to write. Pure."""

from __future__ import annotations

from asyncsearch.errors import UsageError
from asyncsearch.schedulers.base_scheduler import Scheduler

_CALLS = {
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
    lower = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    call = next((call for part, call in _CALLS.items() if part in lower), None)
    if call is not None:
        raise UsageError(f"scheduler={shown} is not a scheduler: write scheduler={call}.")
    if any(part in lower for part in _SEARCHERS):
        own = repr(given) if isinstance(given, str) else f"{name}(...)"
        raise UsageError(f"scheduler={shown} proposes configurations: write searcher={own}.")
    calls = ", ".join(dict.fromkeys(_CALLS.values()))
    raise UsageError(f"scheduler={shown} is not a scheduler: write scheduler= with one of {calls}.")
