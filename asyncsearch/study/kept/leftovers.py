"""Leftovers of workers that were lost, or could not write the store, removed between and after runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from asyncsearch.engine.state import StudyState
from asyncsearch.errors import StoreError
from asyncsearch.store.base_store import Store
from asyncsearch.store.scratch import sweep_machine
from asyncsearch.study import trial_dirs
from asyncsearch.study.trial_dirs import left_behind


@contextmanager
def swept(store: Store, state: StudyState, keep_dirs: int | None) -> Iterator[None]:
    """Remove at the end of a run what was left by workers that were lost in it, or could not write the store.

    After any error but Ctrl-C nothing is removed: by then the store may belong to another driver.
    """
    losses = _losses(state)
    try:
        yield
    except KeyboardInterrupt:
        _sweep_after(store, state, keep_dirs, losses)
        raise
    _sweep_after(store, state, keep_dirs, losses)


def _sweep_after(store: Store, state: StudyState, keep_dirs: int | None, losses: int) -> None:
    if _losses(state) > losses:
        sweep_machine()
    with suppress(StoreError):  # the search is over, and the next run sweeps again
        trial_dirs.tidy(store, state, keep_dirs)
        if _losses(state) > losses or store.list("tmp"):  # a store that could not be written keeps its rest
            sweep(store, state, keep_dirs)


def sweep(store: Store, state: StudyState, keep_dirs: int | None) -> None:
    """Remove what writers that were killed have left. No worker may run: it would lose what it writes."""
    store.sweep()
    trial_dirs.tidy(store, state, keep_dirs)
    for checkpoint in store.checkpoints():
        if checkpoint not in state.references:  # its attempt ended between the commit and the record of it
            with left_behind():
                store.delete(checkpoint)


def _losses(state: StudyState) -> int:
    return sum(trial.losses for trial in state.trials)
