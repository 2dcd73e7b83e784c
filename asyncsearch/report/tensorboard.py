"""A study as TensorBoard shows it: a run for each trial that has begun, in event files to which records are appended.

The messages in the files are made by TensorBoard's own library.

Rule: only this module imports ``tensorboard``, when a function is called. It needs no tensorflow.

A file is a sequence of records, and those of one run are always the same in the same order: how many a file holds
says which are missing. A record that was cut off, because its writer was killed, is written again.
"""

from __future__ import annotations

import enum
import hashlib
import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.files.plain import made_folder, open_file
from asyncsearch.ids import TrialId
from asyncsearch.journal.projection import Report
from asyncsearch.sequences.params import flat
from asyncsearch.space.domains import Domain
from asyncsearch.trial import Params, Trial, TrialState
from asyncsearch.values import unspell

_HEADER = struct.Struct("<Q")
_CHECKSUM_BYTES = 4
_ENDING = ".asyncsearch"
_PROTOS = "tensorboard.compat.proto"
_HPARAMS = "tensorboard.plugins.hparams"
_VERSION = "brain.Event:2"
"""The text of the first event of each file; TensorBoard reads no other."""


def update(folder: Path, began_s: float, beginning: object, records: Sequence[bytes]) -> None:
    """Write the records of a run into its file in a folder, or those of them that it lacks.

    Args:
        folder: of the run; made if need be.
        began_s: seconds since 1970, for the name of the file.
        beginning: what the first records are made of; if it has changed, the file is written anew.
        records: all of them.

    Raises:
        OSError: they cannot be written.
    """
    digest = hashlib.blake2b(repr(beginning).encode(), digest_size=6).hexdigest()
    name = f"events.out.tfevents.{int(began_s)}.{digest}{_ENDING}"
    made_folder(folder.parent, folder.name)
    for former in folder.glob(f"events.out.tfevents.*{_ENDING}"):
        if former.name != name:
            former.unlink()
    with os.fdopen(open_file(folder / name, os.O_RDWR | os.O_CREAT), "r+b") as file:
        _append(file, records)


def begun_in(folder: Path) -> set[int]:
    """Return when the runs began whose files ``update`` has written into a folder, in whole seconds since 1970."""
    times = (path.name.split(".")[3] for path in folder.glob(f"events.out.tfevents.*{_ENDING}"))
    return {int(one) for one in times if one.isdecimal()}


def _append(file: BinaryIO, records: Sequence[bytes]) -> None:
    count, size = _whole_records(file)
    if count < len(records):
        file.truncate(size)  # a record cut off by the end of an earlier writer would spoil all that follow
        file.seek(size)
        write = import_module("tensorboard.summary.writer.record_writer").RecordWriter(file).write
        for record in records[count:]:
            write(record)


def _whole_records(file: BinaryIO) -> tuple[int, int]:
    """Return how many whole records a file holds, and the bytes that they take."""
    size, count, end = file.seek(0, 2), 0, 0
    while (after := _end_of_record(file, end)) <= size:
        count, end = count + 1, after
    return count, end


def _end_of_record(file: BinaryIO, start: int) -> int:
    file.seek(start)
    header = file.read(_HEADER.size)
    length: int = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else 0
    return start + _HEADER.size + 2 * _CHECKSUM_BYTES + length


def require_tensorboard() -> None:
    """Check that the library is there.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import_module(f"{_HPARAMS}.summary_v2")
    except ImportError as error:
        raise UsageError(
            f"study.tensorboard() writes by the library of TensorBoard, and importing it failed ({error}): "
            "pip install 'asyncsearch[tensorboard]'. study.trials_dataframe() and plot_history(study) work without."
        ) from error


def of_experiment(parameters: Sequence[ShownParameter], metrics: Sequence[str], created_s: float) -> list[bytes]:
    """Return the events of a study: its parameters, where they may lie, and its metrics.

    Args:
        parameters: all of them.
        metrics: their names, the study's own one first.
        created_s: when the study was created, seconds since 1970.
    """
    api = import_module(f"{_HPARAMS}.api_pb2")
    experiment = api.Experiment(
        hparam_infos=[_info(api, one) for one in parameters],
        metric_infos=[api.MetricInfo(name=api.MetricName(tag=name)) for name in metrics],
        time_created_secs=created_s,
    )
    return [_event(created_s, file_version=_VERSION), _event(created_s, summary=_summary(experiment=experiment))]


def of_run(run: TrialRun) -> list[bytes]:
    """Return the events of a trial: its beginning with its parameters, its reports, and its end if it has ended."""
    begun = import_module(f"{_HPARAMS}.summary_v2").hparams_pb(run.params, run.name, run.started_s)
    events = [_event(run.started_s, file_version=_VERSION), _event(run.started_s, summary=begun)]
    events += map(_point, run.points)
    if run.ended_s is not None:
        events.append(_event(run.ended_s, summary=_end(run, run.ended_s)))
    return events


def _event(t: float, **what: Any) -> bytes:
    event = import_module(f"{_PROTOS}.event_pb2").Event(wall_time=t, **what)
    return bytes(event.SerializeToString())


def _point(point: ScalarPoint) -> bytes:
    summary = import_module(f"{_PROTOS}.summary_pb2").Summary()
    summary.value.add(tag=point.metric, simple_value=point.value)
    return _event(point.t, step=point.resource, summary=summary)


def _end(run: TrialRun, ended_s: float) -> Any:
    status = import_module(f"{_HPARAMS}.api_pb2").Status
    found = status.STATUS_FAILURE if run.has_failed else status.STATUS_SUCCESS
    end = import_module(f"{_HPARAMS}.plugin_data_pb2").SessionEndInfo(status=found, end_time_secs=ended_s)
    return _summary(session_end_info=end)


def _summary(**data: Any) -> Any:
    """Return a summary for the page; the library's own functions for it import tensorflow, or know no types."""
    metadata = import_module(f"{_HPARAMS}.metadata")
    [field] = data
    tag = metadata.EXPERIMENT_TAG if field == "experiment" else metadata.SESSION_END_INFO_TAG
    described = metadata.create_summary_metadata(import_module(f"{_HPARAMS}.plugin_data_pb2").HParamsPluginData(**data))
    summary = import_module(f"{_PROTOS}.summary_pb2").Summary()
    summary.value.add(tag=tag, metadata=described, tensor=metadata.NULL_TENSOR)
    return summary


def _info(api: Any, parameter: ShownParameter) -> Any:
    """Return the description of a parameter for the page, which offers to filter by any value where it knows none."""
    kinds = {
        ScalarKind.BOOLEAN: api.DATA_TYPE_BOOL,
        ScalarKind.NUMBER: api.DATA_TYPE_FLOAT64,
        ScalarKind.TEXT: api.DATA_TYPE_STRING,
    }
    info = api.HParamInfo(name=parameter.name, type=kinds[parameter.kind])
    if parameter.choices:
        info.domain_discrete.extend(parameter.choices)
    elif parameter.interval is not None:
        info.domain_interval.min_value, info.domain_interval.max_value = parameter.interval
    return info


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
