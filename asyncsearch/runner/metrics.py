"""The metrics of a report as floats, and the resource at which it may be made. Pure."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any

from asyncsearch.arguments import is_unicode, metric_in_call
from asyncsearch.errors import CannotPauseError
from asyncsearch.runner.saving import HOW_TO_PAUSE
from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.trainable import ReportError

_FEW, _SHORT_NAME = 3, 100
_RULE = "one number for each name: Python, numpy, or a 0-dimensional tensor"


def as_metrics(metrics: Mapping[str, Any] | None, named: Mapping[str, Any], metric: str = "loss") -> dict[str, float]:
    """Return reported metrics as a dictionary of floats; NaN and infinities are allowed.

    ``metric`` is the study's own, for messages.

    Raises:
        ReportError: the report is empty, or a value is not a number.
    """
    if metrics is not None and not isinstance(metrics, Mapping):
        raise ReportError(_unnamed(metrics, metric))
    both = {**(metrics or {}), **named}
    if not both:
        line = f"trial.report({metric_in_call(metric, 0.5)})"
        raise ReportError(f"report() was called without metrics; it takes {_RULE}: write {line}.")
    return {_checked(name): as_number(name, value) for name, value in both.items()}


def is_same(one: float, other: float) -> bool:
    """Return whether two values of a metric are equal, two NaN included."""
    return one == other or (math.isnan(one) and math.isnan(other))


def shortened(metrics: Mapping[str, float], metric: str) -> dict[str, float]:
    """Return a few metrics for a message, that of the study first."""
    names = sorted((name for name in metrics if len(name) <= _SHORT_NAME), key=lambda name: name != metric)
    return {name: metrics[name] for name in names[:_FEW]}


def _unnamed(value: Any, metric: str) -> str:
    shown = reprlib.repr(value)
    given = metric_in_call(metric, shown if isinstance(value, int | float) else 0.5)
    return f"report() takes a mapping or named numbers, not {shown}: write trial.report({given})."


def as_number(name: str, value: Any) -> float:
    """Return a reported value as a float.

    Raises:
        ReportError: the value is not a single number.
    """
    if type(value) is float:
        return value
    try:
        single = _single(value)
        if single is None or isinstance(single, (str, bytes, bytearray)):
            raise TypeError("it is text" if single is not None else "it is None")
        return float(single)
    except Exception as error:
        reduce = " Reduce several values to one first, for example to their mean." if _is_several(value) else ""
        raise ReportError(
            f"{name}={reprlib.repr(value)} is not a number ({error}); report takes {_RULE}.{reduce}"
        ) from None


def _is_several(value: Any) -> bool:
    """Return whether a value has elements, which their mean could stand for; text has none."""
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes, bytearray))


def _single(value: Any) -> Any:
    """Return the element of a one-element array or tensor. TensorFlow's have only ``numpy``, all others ``item``."""
    if isinstance(value, (int, float, str, bytes)) or value is None:
        return value
    if not hasattr(value, "item") and hasattr(value, "numpy"):
        value = value.numpy()
    if getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M"):
        raise TypeError("it is a time, whose number depends on its unit")
    if _is_masked(value):
        return math.nan  # there is no value, and ``item`` gives what lies behind the mask, often 0
    return value.item() if hasattr(value, "item") else value


def _is_masked(value: Any) -> bool:
    """Return whether numpy or torch say that a number of one element is not there."""
    if hasattr(value, "filled") and hasattr(value, "mask"):
        return bool(value.mask.all()) and value.size == 1
    get_mask = getattr(value, "get_mask", None)  # torch.masked: true where there is a value
    return get_mask is not None and value.numel() == 1 and not get_mask().item()


def _checked(name: object) -> str:
    if not isinstance(name, str) or not name:
        rule = "names are strings" if name != "" else "it is empty"
        raise ReportError(f"{name!r} is not a metric name: {rule}; write report({{'accuracy': 0.9}}).")
    if not is_unicode(name):
        raise ReportError(
            f"{name!r} is not valid Unicode: the name of a metric is written to the journal; spell it out."
        )
    return name


def check_resource(trial: str, at: int, timeline: LaneTimeline, done: int, reported: int, present: int | None) -> None:
    """Refuse a report at a resource where the trial cannot be.

    Args:
        trial: its name.
        at: the resource.
        timeline: of the trial.
        done: units of training done.
        reported: resource of the report before.
        present: unit of the loop of ``epochs`` that is trained now. None if the function counts by itself, and so
            passes the points of its pauses and saves.

    Raises:
        ReportError: it was reported already, is beyond the present unit, or beyond the end.
        CannotPauseError: the trial had to pause or save before.
    """
    if at <= reported:
        raise ReportError(
            f"{trial} reported at resource {at}, and {reported} was reported before: report once for "
            "each unit of training, all metrics together, at a higher resource each time."
        )
    if present is not None:
        if at > present:
            raise ReportError(
                f"{trial} reported at resource {at} inside epoch {present}: omit resource=, epochs() counts."
            )
        return
    for stage in timeline.passed(done, at):
        is_last = stage is timeline.stages[-1]
        if is_last and not timeline.is_paused_at_end:
            raise ReportError(
                f"{trial} reported at resource {at}, beyond max_resource {timeline.end}: end the "
                "training at trial.max_resource, or write it as `for epoch in trial.epochs():`."
            )
        if is_last or stage.save:
            raise CannotPauseError(f"{trial} had to pause at {stage.stop}, but trained on to {at}: {HOW_TO_PAUSE}.")
