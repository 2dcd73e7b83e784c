"""Schedulers as JSON values, so that a study can be explained without unpickling its scheduler. Pure."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.schedulers.base_scheduler import Scheduler


def options_of(scheduler: Scheduler) -> dict[str, Any] | None:
    """Return the kind and the options of a scheduler as JSON values; None: it cannot be made again from such values."""
    kind: Any = type(scheduler)
    if not is_dataclass(kind):
        return None
    given = {field.name: getattr(scheduler, field.name) for field in fields(kind)}
    try:
        options: dict[str, Any] = json.loads(json.dumps({"kind": scheduler.kind(), **given}, allow_nan=False))
    except (TypeError, ValueError):
        return None
    return options if from_options(options) == scheduler else None


def from_options(options: dict[str, Any] | None) -> Scheduler | None:
    """Return the scheduler that ``options_of`` described; None: there is none, or its class is not known here."""
    kind = Scheduler.kinds.get((options or {}).get("kind", ""))
    if options is None or kind is None:
        return None
    given: dict[str, Any] = {name: value for name, value in options.items() if name != "kind"}
    try:
        return kind(**given)
    except (TypeError, ValueError, UsageError):
        return None
