"""The runs of one ``Trials``: each lot of workers is one, in a numbered folder, and a later process goes on."""

from __future__ import annotations

from typing import Any

from hyperopt.base import JOB_STATE_NEW

from asyncsearch.events import Consulted
from asyncsearch.hyperopt.facts import found_in
from asyncsearch.journal.opening import read_records
from asyncsearch.programs.same_line import numbered_folders
from asyncsearch.store import open_store
from asyncsearch.study.kept.default_store import DefaultFolder


class TrialsRuns:
    """The folder of one ``Trials``."""

    _numbered = 0
    """How many of this process have had a folder."""

    def __init__(self, store: str | None) -> None:
        """Find the folder; nothing is written.

        Args:
            store: folder of all trials of the program. None means a new one in ``studies`` at the first run.
        """
        self.draws = 0
        """How many seeds algo got in earlier processes, which are not drawn once more."""
        self._base = ""
        if store is not None:
            cls = type(self)
            cls._numbered += 1
            self._base = f"{store.rstrip('/')}/trials" + (f"-{cls._numbered}" if cls._numbered > 1 else "")

    def next(self, label: str) -> str:
        """Return the folder of the next run; ``label``: the objective's name."""
        if not self._base:
            default = DefaultFolder(label)
            self._base = str(default.claim(default.choose()))
        return f"{self._base}/{sum(1 for _ in numbered_folders(self._base)) + 1}"

    def load(self, trials: Any) -> list[str]:
        """Give trials what earlier processes have found; return sentences on it."""
        facts = [event for folder in numbered_folders(self._base) for event in _facts_of(folder)] if self._base else []
        if not facts:
            return []
        found = found_in(facts)
        known = {one["tid"]: place for place, one in enumerate(trials._dynamic_trials)}
        added = 0
        for document in found.documents:
            place = known.get(document["tid"])
            if place is None:
                trials._dynamic_trials.append(document)
            elif trials._dynamic_trials[place]["state"] == JOB_STATE_NEW:
                trials._dynamic_trials[place] = document
            else:
                continue
            added += 1
        trials._ids.update(document["tid"] for document in found.documents)
        trials.attachments = {**found.attachments, **trials.attachments}
        trials.refresh()
        self.draws = found.draws
        words = f"{added} points of an earlier process are taken from {self._base}, so max_evals= counts them"
        return [f"{words}; for a search from the beginning, give hyperopt.workers another store=."] if added else []


def _facts_of(folder: str) -> list[Consulted]:
    return [record.event for record in read_records(open_store(folder)) if isinstance(record.event, Consulted)]
