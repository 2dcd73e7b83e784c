"""Schedulers as JSON values, so that whoever only looks at a study can have its scheduler without unpickling. Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.schedulers.asha import ASHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.hyperband import Hyperband
from asyncsearch.schedulers.median import MedianStopping
from asyncsearch.schedulers.pbt import PBT
from asyncsearch.schedulers.sha import SHA

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (ASHA, Hyperband, MedianStopping, PBT, SHA)}
"""Those that need nothing but numbers and words, and have something to say of where a trial stands."""


def options_of(scheduler: Scheduler) -> dict[str, Any] | None:
    """Return the kind and the options of a scheduler as JSON values; None: of this one there are none."""
    kind = type(scheduler)
    if _KINDS.get(kind.__name__) is not kind:
        return None
    return {"kind": kind.__name__, **{field.name: _plain(getattr(scheduler, field.name)) for field in fields(kind)}}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; numpy's floats are floats that cannot be written."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, float) else value


def from_options(options: dict[str, Any] | None) -> Scheduler | None:
    """Return the scheduler that ``options_of`` described; None: there is none, or this version does not know it."""
    if options is None or options.get("kind") not in _KINDS:
        return None
    given = {name: value for name, value in options.items() if name != "kind"}
    try:
        scheduler = _KINDS[options["kind"]](**given)
    except (TypeError, UsageError):
        return None
    assert isinstance(scheduler, Scheduler)
    return scheduler
