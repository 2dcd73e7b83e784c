"""The runs that TensorBoard shows, as plain values: one for each trial that has begun. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from asyncsearch.ids import TrialId
from asyncsearch.journal.projection import Report
from asyncsearch.nonfinite import unspell
from asyncsearch.report.tensorboard.hyper_parameters import Scalar, ScalarKind, scalar_of
from asyncsearch.sequences.flat_params import flat
from asyncsearch.trial import Trial, TrialState


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
