"""The workers of another library's programs: the one line that a program may add."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncsearch.arguments import text_of, workers_of, yes_or_no
from asyncsearch.errors import UsageError
from asyncsearch.report.live.display import KINDS

THREADS = "threads"
"""The backend that is this process itself."""


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The workers of all searches of one library in this process that begin from now on."""

    parallelism: int | None = None
    backend: Any = "auto"
    store: str | None = None
    display: str = "auto"
    logs: bool = False
    retries_lost: bool = False


_chosen: dict[str, Workers] = {}
"""By library: what its programs have written last. None of them has an object that could carry it."""


def choose_workers(
    library: str,
    parallelism: int | None,
    *,
    backend: Any,
    store: str | Path | None,
    display: str,
    logs: bool,
    retries_lost: bool = False,
    takes_threads: bool = False,
) -> None:
    """Choose the workers of a library's searches by arguments that a program has written, and let go those that wait.

    Args:
        library: whose searches.
        takes_threads: whether they may run in threads of this process.
        parallelism, backend, store, display, logs, retries_lost: as in ``Workers``.

    Raises:
        UsageError: a value breaks its rule.
    """
    from asyncsearch.launch import require_backend
    from asyncsearch.programs.waiting_run import let_go

    if display not in KINDS:
        raise UsageError(f"display={display!r}: write 'auto', 'notebook', 'plain' or 'none'.")
    if store is not None and not isinstance(store, str | Path):
        raise UsageError(f"store={store!r} must be a folder or a URL, e.g. 'studies/digits'.")
    if backend == THREADS and not takes_threads:
        raise UsageError("backend='threads': write backend='inline', which runs trials in this process one by one.")
    let_go()
    _chosen[library] = Workers(
        parallelism=None if parallelism is None else workers_of("parallelism", parallelism),
        backend=backend if backend == THREADS else require_backend(backend),
        store=None if store is None else text_of("store", str(store)),
        display=display,
        logs=yes_or_no("logs", logs),
        retries_lost=yes_or_no("retries_lost", retries_lost),
    )


def chosen_workers(library: str, default: Workers | None = None) -> Workers:
    """Return the workers that were chosen last, or the default."""
    return _chosen.get(library) or default or Workers()
