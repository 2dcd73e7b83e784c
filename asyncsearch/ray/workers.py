"""Where the trials of a program of Ray Tune run: the one line that it may add."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncsearch.arguments import text_of, workers_of, yes_or_no
from asyncsearch.checked_calls import answering
from asyncsearch.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class WorkerChoice:
    """The workers of all searches of this process from now on."""

    parallelism: int | None = None
    backend: Any = "auto"
    store: str | None = None
    display: str = "auto"
    logs: bool = False


_now = WorkerChoice()


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
        parallelism: how many trials run at a time; None: one for each slot of the cluster, or core of this machine,
            as far as the resources of a trial allow.
        backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"processes"``,
            ``"inline"``, or a launcher, as of ``asyncsearch.Study``.
        store: folder or URL of searches whose program names no ``storage_path``; None: ``studies``.
        display: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
        logs: whether to show the lines that trials print.

    Raises:
        UsageError: a value breaks its rule.
    """
    global _now  # noqa: PLW0603  # a program of Ray has no object that could carry it
    from asyncsearch.launch import require_backend

    if display not in ("auto", "notebook", "plain", "none"):
        raise UsageError(f"display={display!r}: write 'auto', 'notebook', 'plain' or 'none'.")
    _now = WorkerChoice(
        parallelism=None if parallelism is None else workers_of("parallelism", parallelism),
        backend=require_backend(backend),
        store=None if store is None else text_of("store", str(store)),
        display=display,
        logs=yes_or_no("logs", logs),
    )


def present() -> WorkerChoice:
    """Return what was said last."""
    return _now
