"""All trials as a pandas ``DataFrame``; pandas is imported only when one is requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import UsageError
from asyncsearch.report.formatting import flat
from asyncsearch.trial import Trial

if TYPE_CHECKING:
    import pandas

_TIMES = ("started", "ended")
_COUNTS = ("trained", "failures", "losses")
COLUMNS = ("trial", "state", "value", "resource", "best", "best_resource", *_COUNTS, *_TIMES, "reason")


def trial_rows(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return a row for each trial as plain values; its parameters have names such as ``params.lr``."""
    return [_row(trial) for trial in trials]


def trials_dataframe(trials: Sequence[Trial]) -> pandas.DataFrame:
    """Return one row a trial, with its parameters as the columns ``params.<name>``; times are in UTC.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise UsageError(
            "trials_dataframe() needs pandas, which is not installed: pip install 'asyncsearch[report]'. "
            "`asyncsearch trials STORE --format csv` works without."
        ) from error

    rows = trial_rows(trials)
    names = dict.fromkeys(name for row in rows for name in row)
    frame = pandas.DataFrame(rows, columns=[*COLUMNS, *(name for name in names if name not in COLUMNS)])
    for name in ("value", "best"):
        frame[name] = frame[name].astype("float64")
    for name in _TIMES:
        frame[name] = pandas.to_datetime(frame[name].astype("float64"), unit="s", utc=True)
    return frame


def _row(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "state": trial.state.value,
        "value": trial.value,
        "resource": trial.resource,
        "best": trial.best,
        "best_resource": trial.best_resource,
        "trained": trial.trained,
        "failures": trial.failures,
        "losses": trial.losses,
        "started": trial.started_s,
        "ended": trial.ended_s,
        "reason": trial.reason,
        **{f"params.{name}": value for name, value in flat(trial.params)},
    }
