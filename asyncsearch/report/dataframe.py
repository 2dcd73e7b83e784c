"""All trials as a pandas ``DataFrame``; pandas is imported only when one is requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import UsageError
from asyncsearch.sequences.flat_params import flat
from asyncsearch.trial import Trial

if TYPE_CHECKING:
    import pandas

_AS_THEY_ARE = ("resource", "best", "best_resource", "trained", "failures", "losses")
COLUMNS = ("state", *_AS_THEY_ARE, "started", "ended", "reason")
"""The columns after the trial, its value and its parameters."""


def trial_rows(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return a row for each trial as plain values: name, value, parameters such as ``params.lr``, then the rest."""
    return [
        {"trial": trial.name, "value": trial.value}
        | {f"params.{name}": value for name, value in flat(trial.params)}
        | {"state": trial.state.value}
        | {name: getattr(trial, name) for name in _AS_THEY_ARE}
        | {"started": trial.started_s, "ended": trial.ended_s, "reason": trial.reason}
        for trial in trials
    ]


def trials_dataframe(trials: Sequence[Trial]) -> pandas.DataFrame:
    """Return one row a trial: its name, its value, its parameters as ``params.<name>``, the rest; times are in UTC.

    Raises:
        UsageError: pandas is not installed.
    """
    rows = trial_rows(trials)
    names = dict.fromkeys(("trial", "value", *(name for row in rows for name in row if name not in COLUMNS), *COLUMNS))
    without = "`asyncsearch trials STORE --format csv` works without."
    frame = dataframe("trials_dataframe", rows, [*names], times=("started", "ended"), without=without)
    return frame.astype({"value": "float64", "best": "float64"})


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
