"""Where the trials of studies run: the one line that a program of Optuna may add."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asyncsearch.arguments import text_of, workers_of, yes_or_no
from asyncsearch.checked_calls import answering
from asyncsearch.errors import UsageError

THREADS = "threads"


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The workers of all studies of this process that ``optimize`` from now on."""

    parallelism: int | None = None
    backend: Any = "auto"
    store: str | None = None
    display: str = "auto"
    logs: bool = False
    retries_lost: bool = False


_now = Workers()


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
        parallelism: how many trials run at a time; None: one for each slot of the cluster, or core of this machine.
        backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"processes"``,
            ``"inline"``, or a launcher, as of ``asyncsearch.Study``; ``"threads"``: threads of this process, by
            Optuna's own ``optimize``, for an objective that needs what cannot be sent, such as a session of Spark.
        store: folder or URL for journals and logs; None: a new folder in ``studies``.
        display: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
        logs: whether to show the lines that trials print.
        retries_lost: whether the trial of a lost worker, which fails, is run once more with the same parameters.

    Raises:
        UsageError: a value breaks its rule.
    """
    global _now  # noqa: PLW0603  # a program of Optuna has no object that could carry it
    from asyncsearch.launch import require_backend

    if display not in ("auto", "notebook", "plain", "none"):
        raise UsageError(f"display={display!r}: write 'auto', 'notebook', 'plain' or 'none'.")
    if store is not None and not isinstance(store, str | Path):
        raise UsageError(f"store={store!r} must be a folder or a URL, e.g. 'studies/digits'.")
    _now = replace(
        Workers(),
        parallelism=None if parallelism is None else workers_of("parallelism", parallelism),
        backend=backend if backend == THREADS else require_backend(backend),
        store=None if store is None else text_of("store", str(store)),
        display=display,
        logs=yes_or_no("logs", logs),
        retries_lost=yes_or_no("retries_lost", retries_lost),
    )


def present() -> Workers:
    """Return what was said last."""
    return _now
