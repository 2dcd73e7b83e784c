"""The messages in event files, made by TensorBoard's own library; its hparams page reads them.

Rule: only this module and ``event_file`` import ``tensorboard``, when a function is called. It needs no tensorflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.report.tensorboard.hyper_parameters import ScalarKind, ShownParameter
from asyncsearch.report.tensorboard.trial_runs import ScalarPoint, TrialRun

_PROTOS = "tensorboard.compat.proto"
_HPARAMS = "tensorboard.plugins.hparams"
_VERSION = "brain.Event:2"
"""What the first event of each file says; TensorBoard reads no other."""


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
    """Return what the page knows of a parameter; where it does not know the values it offers to filter by any."""
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
