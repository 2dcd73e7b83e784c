"""The folders of trials in the store of their study; and the removal of what lost workers left there and elsewhere.

Each is stored as a checkpoint is, below ``dirs``, under the node and the resource up to which it was trained. The last
one of each trial stays as long as the study.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import NoTrialsError, StoreError
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.journal.head import Head, decode_head, encode_head
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.reading import training_ends
from asyncsearch.runner.trial_folder import NAME
from asyncsearch.store.base_store import Store, left_behind
from asyncsearch.store.open_files import HEAD_FILE
from asyncsearch.store.scratch import sweep_machine
from asyncsearch.trial import Trial, TrialState

FOLDER = "dirs"


def place_in(store: Store) -> Store:
    """Return the store of the folders of a study's trials."""
    return store.child(FOLDER)


def last_stored(
    ends: Mapping[TrialId, Sequence[CheckpointRef]], stored: Iterable[CheckpointRef]
) -> dict[TrialId, CheckpointRef]:
    """Return the last stored folder of each trial that has one. Pure.

    Args:
        ends: where the trainings of each trial ended, the last one last.
        stored: what is stored.
    """
    there = set(stored)
    found = {trial: next((end for end in reversed(its) if end in there), None) for trial, its in ends.items()}
    return {trial: end for trial, end in found.items() if end is not None}


def stored_dirs(store: Store) -> dict[TrialId, CheckpointRef]:
    """Return the last stored folder of each trial that has one."""
    if not store.list(FOLDER):
        return {}
    return last_stored(training_ends(read_records(store)), place_in(store).checkpoints())


@contextmanager
def fetched(store: Store, shared: Store | None, trial: Trial, ends: Sequence[CheckpointRef]) -> Iterator[Path]:
    """Provide a trial's folder, as it was last stored, read-only and valid inside the ``with``.

    Args:
        store: of the study.
        shared: of the checkpoints, if that is another one.
        trial: whose folder.
        ends: where its trainings ended, the last one last.

    Raises:
        NoTrialsError: there is none.
    """
    place, kept = place_in(store), trial.checkpoint
    stored = next((end for end in reversed(ends) if end in place.checkpoints(end.node)), None)
    if kept is not None and (stored is None or kept.resource > stored.resource):
        with (shared or store).fetch(kept) as folder:
            if (folder / NAME).is_dir():
                yield folder / NAME
                return
    with place.fetch(_required(stored, trial)) as folder:
        yield folder


def _required(stored: CheckpointRef | None, trial: Trial) -> CheckpointRef:
    if stored is None:
        raise NoTrialsError(
            f"{trial.name} has stored no folder: its code has not read trial.dir, its training has neither saved nor "
            "ended yet, or it was none of the keep_dirs best. In the trainable, write e.g. "
            "(trial.dir / 'notes.txt').write_text('...')."
        )
    return stored


def spared(state: StudyState, keep: int | None) -> set[TrialId]:
    """Return the finished trials that are not among the ``keep`` best of these; None means all are. Pure."""
    finished = [trial for trial in state.trials if trial.state.is_finished]
    finished.sort(key=lambda trial: _rank(state, trial))
    return set() if keep is None else {trial.id for trial in finished[keep:]}


def _rank(state: StudyState, trial: Trial) -> tuple[bool, float, TrialId]:
    score = None if trial.state is TrialState.FAILED else state.score(trial.value)
    return (score is None, score or 0.0, trial.id)


def tidy(store: Store, state: StudyState, keep: int | None) -> None:
    """Remove the folders that no trial reads any more, and what writers that were killed have left.

    Call it under the lock of the store, while no worker runs.

    Args:
        store: of the study.
        state: of the study.
        keep: as in ``Checkpoints.keep_dirs``.
    """
    if not store.list(FOLDER):
        return
    place = place_in(store)
    place.sweep()
    stored = place.checkpoints()
    last, worse = last_stored(training_ends(read_records(store)), stored), spared(state, keep)
    for reference in set(stored) - {end for trial, end in last.items() if trial not in worse}:
        with left_behind():
            place.delete(reference)


@contextmanager
def swept(store: Store, state: StudyState, keep_dirs: int | None, writers: NodeWriters) -> Iterator[None]:
    """Remove at the end of a run what nobody needs, and note that, so that the next run need not look for it.

    After any error but Ctrl-C nothing is removed: by then the store may belong to another driver.
    """
    losses = _losses(state)
    try:
        yield
    except KeyboardInterrupt:
        _sweep_after(store, state, keep_dirs, writers, losses)
        raise
    _sweep_after(store, state, keep_dirs, writers, losses)


def _sweep_after(store: Store, state: StudyState, keep_dirs: int | None, writers: NodeWriters, losses: int) -> None:
    if _losses(state) > losses:
        sweep_machine()
    with suppress(StoreError):  # the search is over, and the next run sweeps again
        sweep(store, state, keep_dirs, writers.settled(state))
        head = read_head(store)
        if head is not None:
            store.write(HEAD_FILE, encode_head(msgspec.structs.replace(head, swept=True)))


def sweep_at_start(store: Store, state: StudyState, keep_dirs: int | None, last: int) -> None:
    """Sweep before a run, unless the end of the last one has: a store with many trials takes a call for each.

    Args:
        store: of the study, locked.
        state: of the study.
        keep_dirs: as in ``Checkpoints.keep_dirs``.
        last: number of the last record of the journal.
    """
    head = read_head(store)
    if head is None or not head.swept or head.n != last:
        sweep(store, state, keep_dirs)


def read_head(store: Store) -> Head | None:
    """Return the last record that a driver has noted; None if there is none, or it cannot be read."""
    data = store.read(HEAD_FILE)
    return None if data is None else decode_head(data)


def sweep(store: Store, state: StudyState, keep_dirs: int | None, settled: Set[NodeKey] = frozenset()) -> None:
    """Remove what writers that were killed have left. No worker may run: it would lose what it writes.

    Args:
        store: of the study, locked.
        state: of the study.
        keep_dirs: as in ``Checkpoints.keep_dirs``.
        settled: nodes in which they have left nothing.
    """
    # An attempt may have ended between a commit and the record of it.
    store.sweep_except(state.references, settled=settled)
    tidy(store, state, keep_dirs)


def _losses(state: StudyState) -> int:
    return sum(trial.losses for trial in state.trials)
