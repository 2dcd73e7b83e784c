"""The runs and hyper-parameters that TensorBoard shows, as plain values: a run for each trial that has begun. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.ids import TrialId
from asyncsearch.journal.projection import Report
from asyncsearch.nonfinite import unspell
from asyncsearch.sequences.params import flat
from asyncsearch.space.domains import Domain
from asyncsearch.trial import Params, Trial, TrialState

Scalar = bool | float | str


class ScalarKind(enum.Enum):
    """How the values of one parameter are shown."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"


class ShownParameter(msgspec.Struct, frozen=True):
    """One parameter of a study."""

    name: str
    kind: ScalarKind
    choices: tuple[Scalar, ...] = ()
    """All its values; empty if they are not known, or not a few."""
    interval: tuple[float, float] | None = None
    """Its least and its greatest number; None if it has none, or they are not known."""


def shown_parameters(configurations: Iterable[Params], domains: Mapping[str, Domain]) -> list[ShownParameter]:
    """Return the parameters of a study, sorted by name.

    Args:
        configurations: those of all trials.
        domains: as far as they are known, by the dotted name of the parameter.
    """
    values: dict[str, list[Any]] = {}
    for configuration in configurations:
        for name, value in flat(configuration):
            values.setdefault(name, []).append(value)
    return [_shown(name, values[name], domains.get(name)) for name in sorted(values)]


def scalar_of(value: Any, kind: ScalarKind) -> Scalar:
    """Return a value as it is shown; a schedule is the text that people write."""
    if kind is ScalarKind.BOOLEAN:
        return bool(value)
    return _number(value) if kind is ScalarKind.NUMBER else str(value)


def _number(value: float) -> float:
    """Return a number as the event format has it; an integer that is too large for it is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _shown(name: str, values: list[Any], domain: Domain | None) -> ShownParameter:
    options = _choices(domain)
    kind = _kind([*values, *options])
    choices = tuple(dict.fromkeys(scalar_of(value, kind) for value in options))
    return ShownParameter(name, kind, choices, _interval(domain) if kind is ScalarKind.NUMBER else None)


def _kind(values: list[Any]) -> ScalarKind:
    if all(isinstance(value, bool) for value in values):
        return ScalarKind.BOOLEAN
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return ScalarKind.NUMBER if are_numbers else ScalarKind.TEXT


def _choices(domain: Domain | None) -> list[Any]:
    """Return the values of a choice; none if one of them is a schedule, a list or the like."""
    given = list(domain.grid(None)) if domain is not None and domain.kind == "choice" else []
    return given if all(isinstance(value, bool | int | float | str | None) for value in given) else []


def _interval(domain: Domain | None) -> tuple[float, float] | None:
    given = {} if domain is None else domain.arguments()
    low, high = given.get("low"), given.get("high")
    return None if low is None or high is None else (_number(low), _number(high))


class ScalarPoint(msgspec.Struct, frozen=True):
    """One value of one metric."""

    t: float
    """Driver's clock, seconds since 1970."""
    resource: int
    metric: str
    value: float
    """NaN and infinities included."""


class TrialRun(msgspec.Struct, frozen=True):
    """One trial. Later runs of the same journal only add points, and the end."""

    name: str
    started_s: float
    """Driver's clock, seconds since 1970."""
    params: dict[str, Scalar]
    points: list[ScalarPoint]
    ended_s: float | None
    """None: it may still go on."""
    has_failed: bool


def trial_runs(trials: Sequence[Trial], reports: Iterable[Report], kinds: Mapping[str, ScalarKind]) -> list[TrialRun]:
    """Return the runs of all trials that have begun or have read a report, in the order of the trials.

    Args:
        trials: of the study.
        reports: all of them, in the order of the journal.
        kinds: name of a parameter -> how TensorBoard shows its values.
    """
    points: dict[TrialId, list[ScalarPoint]] = {}
    for report in reports:
        points.setdefault(report.trial, []).extend(_points(report))
    begun = [trial for trial in trials if trial.started_s is not None or trial.id in points]
    return [_run(trial, points.get(trial.id, []), kinds) for trial in begun]


def metrics_of(runs: Iterable[TrialRun], first: str) -> list[str]:
    """Return the names of all metrics, the study's own one first."""
    return list(dict.fromkeys([first, *(point.metric for run in runs for point in run.points)]))


def _points(report: Report) -> list[ScalarPoint]:
    values = report.metrics.items()
    return [ScalarPoint(report.t, report.resource, name, float(unspell(value))) for name, value in values]


def _run(trial: Trial, points: list[ScalarPoint], kinds: Mapping[str, ScalarKind]) -> TrialRun:
    started_s = points[0].t if trial.started_s is None else trial.started_s
    params = {name: scalar_of(value, kinds[name]) for name, value in flat(trial.params)}
    ended_s = trial.ended_s if trial.state.is_finished else None
    return TrialRun(trial.name, started_s, params, points, ended_s, trial.state is TrialState.FAILED)
