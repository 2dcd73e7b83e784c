"""The workers of studies: the one line that a program of Optuna may add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch.checked_calls import answering
from asyncsearch.programs.workers import Workers, choose_workers, chosen_workers


@answering("optuna.workers", "optuna.workers(8, backend='spark')")
def workers(
    parallelism: int | None = None,
    *,
    backend: Any = "auto",
    store: str | Path | None = None,
    display: str = "auto",
    logs: bool = False,
    retries_lost: bool = False,
) -> None:
    """Say where the trials of all studies of this process run from now on.

    Args:
        parallelism: how many trials run at a time. None means one for each slot of the cluster, or core of this
            machine.
        backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"processes"``,
            ``"inline"``, or a launcher, as of ``asyncsearch.Study``; ``"threads"``: threads of this process, by
            Optuna's own ``optimize``, for an objective that needs what cannot be sent, such as a session of Spark.
        store: folder or URL for journals and logs. None means a new folder in ``studies``.
        display: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
        logs: whether to show the lines that trials print.
        retries_lost: whether the trial of a lost worker, which fails, is run once more with the same parameters.

    Raises:
        UsageError: a value breaks its rule.
    """
    choose_workers(
        "optuna",
        parallelism,
        backend=backend,
        store=store,
        display=display,
        logs=logs,
        retries_lost=retries_lost,
        takes_threads=True,
    )


def present() -> Workers:
    """Return the workers that were chosen last."""
    return chosen_workers("optuna")
