"""The workers of Maggy's experiments: the one line that a program may add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch.checked_calls import answering
from asyncsearch.programs.workers import Workers, choose_workers, chosen_workers


@answering("maggy.workers", "maggy.workers(8, backend='spark')")
def workers(
    parallelism: int | None = None,
    *,
    backend: Any = "auto",
    store: str | Path | None = None,
    display: str = "auto",
    logs: bool = True,
) -> None:
    """Say where the trials of all experiments of this process run from now on.

    Args:
        parallelism: how many trials run at a time. None means one for each slot of the cluster, or core of this
            machine.
        backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"processes"``, ``"inline"``,
            or a launcher, as of ``asyncsearch.Study``.
        store: folder or URL for the experiments of this program, each in a folder of its name: an experiment that is
            found there goes on, and one that has all its trials gives its result at once. None means new folders in
            ``studies``, where only an experiment whose driver was killed goes on.
        display: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
        logs: whether to show the lines that trials print.

    Raises:
        UsageError: a value breaks its rule.
    """
    choose_workers("maggy", parallelism, backend=backend, store=store, display=display, logs=logs)


def present() -> Workers:
    """Return the workers that were chosen last."""
    return chosen_workers("maggy")
