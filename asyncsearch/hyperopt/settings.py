"""The workers of searches: the one line that a program of Hyperopt may add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch.checked_calls import answering
from asyncsearch.programs.workers import Workers, choose_workers, chosen_workers


@answering("hyperopt.workers", "hyperopt.workers(8, backend='spark')")
def workers(
    parallelism: int | None = None,
    *,
    backend: Any = "auto",
    store: str | Path | None = None,
    display: str = "none",
    logs: bool = False,
    retries_lost: bool = False,
) -> None:
    """Say where all searches of this process from now on evaluate their points.

    Args:
        parallelism: how many points are evaluated at a time. None means one for each slot of the cluster, or core of
            this machine. ``SparkTrials(parallelism=...)`` counts before it.
        backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"processes"``,
            ``"inline"``, or a launcher, as of ``asyncsearch.Study``; ``"threads"``: threads of this process, for an
            objective that needs what cannot be sent, such as a session of Spark.
        store: folder or URL for journals and logs, with which a program whose driver was killed goes on by the same
            line. None means a new folder in ``studies``.
        display: ``"none"``, since Hyperopt has a progress bar, ``"auto"``, ``"notebook"`` or ``"plain"``.
        logs: whether to show the lines that objectives print.
        retries_lost: whether the point of a lost worker, which fails, is evaluated once more.

    Raises:
        UsageError: a value breaks its rule.
    """
    choose_workers(
        "hyperopt",
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
    return chosen_workers("hyperopt", Workers(display="none"))
