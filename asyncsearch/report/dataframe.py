"""All trials as a pandas ``DataFrame``; pandas is imported only when one is requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import UsageError
from asyncsearch.sequences.params import flat
from asyncsearch.trial import Trial

if TYPE_CHECKING:
    import pandas

_FIRST = ("trial", "value")
_METRICS, _NOTES, _PARAMS = "metrics.", "notes.", "params."
_AS_THEY_ARE = ("resource", "best", "best_resource", "trained", "failures", "losses")
COLUMNS = ("state", *_AS_THEY_ARE, "started", "ended", "reason")
"""The columns after the trial, its metrics and its parameters."""


def trial_rows(trials: Sequence[Trial], metric: str) -> list[dict[str, Any]]:
    """Return a row for each trial as plain values: what a trial has not reported, or has no parameter for, is left out.

    They are its name, the value of the study's ``metric``, the other metrics such as ``metrics.accuracy``, notes as
    ``notes.device``, parameters such as ``params.lr``, and the rest.
    """
    return [
        {"trial": trial.name, "value": trial.value}
        | {f"{_METRICS}{name}": value for name, value in trial.metrics.items() if name != metric}
        | {f"{_NOTES}{name}": text for name, text in trial.notes.items()}
        | {f"{_PARAMS}{name}": value for name, value in flat(trial.params)}
        | {"state": trial.state.value}
        | {name: getattr(trial, name) for name in _AS_THEY_ARE}
        | {"started": trial.started_s, "ended": trial.ended_s, "reason": trial.reason}
        for trial in trials
    ]


def column_names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the columns of some rows in their order: trial, value, other metrics, notes, parameters, the rest."""
    named = dict.fromkeys(name for row in rows for name in row)
    kinds = (_METRICS, _NOTES, _PARAMS)
    metrics, notes, params = ([name for name in named if name.startswith(kind)] for kind in kinds)
    return [*_FIRST, *metrics, *notes, *params, *COLUMNS]


def trials_dataframe(trials: Sequence[Trial], metric: str) -> pandas.DataFrame:
    """Return one row a trial: its name and value, its other metrics as ``metrics.<name>``, its parameters, the rest.

    Times are in UTC. States are in the words of the table. A parameter that was chosen as None is None.

    Raises:
        UsageError: pandas is not installed.
    """
    rows = trial_rows(trials, metric)
    for row, trial in zip(rows, trials, strict=True):
        row["state"] = trial.words
    without = "`asyncsearch trials STORE --format csv` works without."
    frame = dataframe("trials_dataframe", rows, column_names(rows), times=("started", "ended"), without=without)
    numbers = [name for name in frame.columns if name.startswith(_METRICS)]
    frame = frame.astype(dict.fromkeys(["value", "best", *numbers], "float64"))
    from asyncsearch.report.trials_frame import TrialsFrame

    return TrialsFrame(_as_chosen(frame, rows))


def _as_chosen(frame: pandas.DataFrame, rows: Sequence[dict[str, Any]]) -> pandas.DataFrame:
    """Put back the parameters that pandas has changed: None and large integers, which it makes NaN and floats."""
    import pandas

    for name in frame.columns:
        values = [row[name] for row in rows if name in row] if name.startswith(_PARAMS) else []
        kinds = {type(value) for value in values}
        if type(None) in kinds or (int in kinds and (len(kinds) > 1 or len(values) < len(rows))):
            given = [row.get(name, float("nan")) for row in rows]
            frame[name] = pandas.Series(given, index=frame.index, dtype="object")
    return frame


def dataframe(
    function: str, rows: Sequence[Any], names: list[str], *, times: Sequence[str], without: str
) -> pandas.DataFrame:
    """Return a frame for a function of the library; ``times`` are columns of seconds since 1970.

    Raises:
        UsageError: pandas is not installed; ``without`` says what works without it.
    """
    try:
        import pandas
    except ImportError as error:
        raise UsageError(
            f"{function}() needs pandas, which is not installed: pip install 'asyncsearch[report]'. {without}"
        ) from error
    frame: pandas.DataFrame = pandas.DataFrame(rows, columns=names)
    for name in times:
        frame[name] = pandas.to_datetime(frame[name].astype("float64"), unit="s", utc=True)
    return frame
