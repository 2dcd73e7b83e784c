"""The workers of a program of Ray Tune: the one line that it may add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch.checked_calls import answering
from asyncsearch.programs.workers import Workers, choose_workers, chosen_workers


@answering("asyncsearch.ray.workers", "asyncsearch.ray.workers(8, backend='spark')")
def workers(
    parallelism: int | None = None,
    *,
    backend: Any = "auto",
    store: str | Path | None = None,
    display: str = "auto",
    logs: bool = False,
) -> None:
    """Say where the trials of all searches of this process run from now on.

    Args:
        parallelism: how many trials run at a time. None means one for each slot of the cluster, or core of this
            machine, as far as the resources of a trial allow.
        backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"processes"``,
            ``"inline"``, or a launcher, as of ``asyncsearch.Study``.
        store: folder or URL of searches whose program names no ``storage_path``. None means ``studies``.
        display: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
        logs: whether to show the lines that trials print.

    Raises:
        UsageError: a value breaks its rule.
    """
    choose_workers("ray", parallelism, backend=backend, store=store, display=display, logs=logs)


def present() -> Workers:
    """Return the workers that were chosen last."""
    return chosen_workers("ray")
