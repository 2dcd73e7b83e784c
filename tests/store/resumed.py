"""What a `resume` asks of its store before the first launch: after an end in order, and after a driver's death."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple
from unittest import mock

import msgspec

from asyncsearch import FIFO, Checkpoints, Study, uniform
from asyncsearch.journal.head import encode_head
from asyncsearch.store import Store
from asyncsearch.store.open_files import HEAD_FILE
from asyncsearch.study.trial_dirs import read_head
from asyncsearch.trainable import TrialContext
from tests.store.counted_files import Beginnings

SPACE = {"x": uniform(0, 1)}


class Asked(NamedTuple):
    """The calls until the first launch, and how many appends the journal had, or trials if that is one file."""

    clean: Counter[str]
    crashed: Counter[str]
    appends: int


def saving(trial: TrialContext) -> None:
    from tests.store.counted_files import Beginnings  # the bundle would have a copy of it

    Beginnings.seen.append(Counter(Beginnings.calls))
    for unit in trial.epochs(save=lambda path: path.touch(), load=lambda path: None):
        trial.report(loss=trial.params["x"] + 1 / unit)


def study_of(store: Store, trials: int) -> Study:
    """Make a study that keeps the checkpoint of each of so many trials."""
    kept = Checkpoints(keep_checkpoints=2 * trials)
    options = {"metric": "loss", "mode": "min", "scheduler": FIFO(max_resource=2), "backend": "inline"}
    return Study(saving, space=SPACE, store=store, checkpoints=kept, **options)  # type: ignore[arg-type]


def resumed(store: Store, calls: Counter[str], trials: int) -> Asked:
    """Run a study of so many trials, and resume it after both ends."""
    with mock.patch.object(Beginnings, "calls", calls):
        study_of(store, trials).run(trials, display="none")
        appends = max(trials, len(store.walk("journal")))
        clean = _until_launch(store, calls, trials + 1)
        head = read_head(store)
        assert head is not None
        assert head.swept
        store.write(HEAD_FILE, encode_head(msgspec.structs.replace(head, swept=False)))
        return Asked(clean, _until_launch(store, calls, trials + 2), appends)


def _until_launch(store: Store, calls: Counter[str], trials: int) -> Counter[str]:
    Beginnings.seen.clear()
    calls.clear()
    Study.resume(store.url).run(trials, display="none")
    return Beginnings.seen[0]
