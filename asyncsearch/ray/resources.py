"""The resources of a trial, in each form in which a program names them, as one dictionary: a trial is one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.space.configurations import ConfigView
from asyncsearch.ray.trial.trainables import StepTrainable

_CORES, _GPUS = ("cpu", "CPU", "num_cpus"), ("gpu", "GPU", "num_gpus")
_OWN = "default_resource_request"
_SAME = "here each trial has the same: write with_resources(train, {'cpu': 2})."


def resources_of(given: Any, trainable: Any, configs: Callable[[], Sequence[Any]]) -> Any:
    """Return the resources of each trial, by the program or else by the class that is trained. None if nothing is said.

    Args:
        given: a dictionary, bundles, or a function of a configuration.
        trainable: what is trained.
        configs: returns some of the configurations, for functions of one.

    Raises:
        UsageError: it is none of these, or differs between configurations.
    """
    if given is None and isinstance(trainable, type):
        own = getattr(trainable, _OWN)
        given = own if getattr(own, "__func__", own) is not getattr(StepTrainable, _OWN).__func__ else None
    if callable(given) and not hasattr(given, "required_resources"):
        known = configs()
        if not known:
            raise UsageError(f"Resources as a function of a configuration that sample_from draws: {_SAME}")
        found = [given(ConfigView(config)) for config in known]
        if any(_flat(one) != _flat(found[0]) for one in found):
            raise UsageError(f"The resources of trials are {found[0]!r} and others, by a function, and {_SAME}")
        given = found[0]
    if given is not None and _flat(given) is None:
        raise UsageError(f"The resources {given!r} of a trial are no dictionary: write {{'cpu': 2, 'gpu': 1}}.")
    return given


def _flat(given: Any) -> dict[str, Any] | None:
    if given is None:
        return {}
    found = getattr(given, "required_resources", given)
    return dict(found) if isinstance(found, Mapping) else None


def cpus_of(resources: Any) -> float:
    """Return how many cores a trial asks for."""
    found = _flat(resources) or {}
    return float(next((found[name] for name in _CORES if found.get(name)), 1))


def gpus_of(resources: Any) -> float | None:
    """Return how many GPUs a trial asks for. None if nothing is said."""
    found = _flat(resources) or {}
    asked = next((found[name] for name in _GPUS if found.get(name)), None)
    return None if asked is None else float(asked)


def without_counterpart(resources: Any) -> list[str]:
    """Return sentences on resources of other names, which nobody counts here."""
    others = [name for name in _flat(resources) or {} if name not in (*_CORES, *_GPUS)]
    return [f"The resources {', '.join(others)} of a trial are counted by nobody here: cores and GPUs are."] * bool(
        others
    )
