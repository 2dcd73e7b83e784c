"""The tasks that a run leaves behind if its process dies: noted in the store, and ended by the next run.

A server of Spark Connect lets the queries of a dead client run on for minutes, and they hold the slots.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.launch.remote.meeting import FOLDER
from asyncsearch.store.base_store import Store, left_behind

NOTE = f"{FOLDER}/tasks.json"


@contextlib.contextmanager
def ended_by_the_next(launcher: Launcher, store: Store) -> Iterator[None]:
    """End what an earlier run has left, and note for the time of this one what it would leave.

    The right to drive the study is held meanwhile, or its driver is known to be dead.
    """
    note = launcher.tasks_note()
    if not note:
        yield
        return
    if (left := store.read(NOTE)) is not None:
        launcher.end_tasks_of(left)
    store.write(NOTE, note)
    try:
        yield
    finally:
        with left_behind():
            store.remove(NOTE)
            store.remove_if_empty(FOLDER)
