"""The runs of a study: each ``optimize`` is one, in a numbered folder of the study's own, and a later process goes on.

A study in memory is made anew of what the journals of its runs tell. Of a study with a database of its own they tell
which trials a driver that was killed had running.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import optuna
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from asyncsearch.actions import EndRun, GivenLane, MoveTrial, lanes_given
from asyncsearch.errors import UsageError
from asyncsearch.events import Consulted, RunRequested
from asyncsearch.files.paths import plain_part
from asyncsearch.ids import TrialId
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.optuna.facts import facts_in, give_attributes, trials_of
from asyncsearch.store import open_store
from asyncsearch.study.kept.default_store import DefaultFolder
from asyncsearch.trial import TrialState as State

_UNNAMED = "no-name-"
"""How Optuna begins the name of a study that has none."""


class EarlierRun(NamedTuple):
    """What the journal of a run tells."""

    facts: list[Consulted]
    pruned: set[int]
    """The numbers of the leases whose trials a scheduler has stopped, or has paused last."""
    asked: int
    """How many trials were asked for."""
    is_cut_off: bool
    """Whether its driver was killed or interrupted before it was done."""

    @property
    def all_facts(self) -> list[dict[str, Any]]:
        """Each fact alone."""
        return [fact for event in self.facts for fact in facts_in(event)]

    def trials(self) -> Iterator[FrozenTrial]:
        """Yield its trials in the order of their beginnings."""
        return trials_of(self.facts, self.pruned)

    @property
    def ended(self) -> int:
        """How many trials have ended; those that were lost have failed and do not count."""
        return sum("ended" in fact for fact in self.all_facts) + len(self.pruned)


class StudyRuns:
    """The folder of one study."""

    _unnamed = 0
    """How many studies of this process have no name."""

    def __init__(self, study: Any, store: str | None, *, goes_on: bool = False) -> None:
        """Find the folder; nothing is written.

        Args:
            study: whose runs they are.
            store: folder of all studies of the program; None: a new one in ``studies`` at the first run.
            goes_on: whether an existing folder of the study's name in ``studies`` is taken.
        """
        self.left: int | None = None
        """How many trials the first ``optimize`` has left of a run that was cut off. None if none was."""
        self._asked = 0
        self._name = "" if study.study_name.startswith(_UNNAMED) else study.study_name
        self._base = ""
        if store is not None:
            self._base = f"{store.rstrip('/')}/{plain_part(self._name or self._number())}"
        elif goes_on and self._name:
            found = [folder for folder in DefaultFolder(self._name).folders() if (folder / "1").is_dir()]
            self._base = str(found[-1]) if found else ""

    @classmethod
    def _number(cls) -> str:
        cls._unnamed += 1
        return "study" if cls._unnamed == 1 else f"study-{cls._unnamed}"

    def next(self, label: str) -> str:
        """Return the folder of the next run; ``label``: the objective's name, for a study without one."""
        if not self._base:
            default = DefaultFolder(self._name or label)
            self._base = str(default.claim(default.choose()))
        return f"{self._base}/{sum(1 for _ in self._folders()) + 1}"

    def trials_left(self, asked: int | None) -> int | None:
        """Return how many trials an ``optimize`` runs: the same as before a kill has those that were left."""
        left, self.left = self.left, None
        return left if left is not None and asked == self._asked else asked

    def load(self, study: Any, *, may_add: bool) -> None:
        """Give a study that has just been made what earlier processes have found.

        Raises:
            UsageError: they came to their end, and ``may_add`` is false: whoever runs a program again must say so.
        """
        runs = [self._read(folder) for folder in self._folders()] if self._base else []
        if not runs:
            return
        last, ended = runs[-1], runs[-1].ended
        if not (may_add or last.is_cut_off):
            raise UsageError(
                f"{self._base} holds a study that came to its end: give create_study a study_name= and "
                "load_if_exists=True to add trials to it, or give optuna.workers another store=."
            )
        if isinstance(study._storage, InMemoryStorage) and not study.get_trials(deepcopy=False):
            study.add_trials([trial for run in runs for trial in run.trials()])
            give_attributes(study, [fact for run in runs for fact in run.all_facts])
            study.sampler.reseed_rng()  # with its seed it would draw the same values once more
        else:
            ended = _ended_in_storage(study, last)
            _fail_running(study, runs)
        if last.is_cut_off:
            self.left, self._asked = max(0, last.asked - ended), last.asked

    def _folders(self) -> Iterator[str]:
        number = 1
        while read_study_file(open_store(f"{self._base}/{number}")) is not None:
            yield f"{self._base}/{number}"
            number += 1

    def _read(self, folder: str) -> EarlierRun:
        facts: list[Consulted] = []
        leases: dict[TrialId, int] = {}
        pruned: set[TrialId] = set()
        asked, is_cut_off = 0, True
        for record in read_records(open_store(folder)):
            if isinstance(record.event, Consulted):
                facts.append(record.event)
            elif isinstance(record.event, RunRequested):
                asked, is_cut_off = record.event.num_trials or 0, True
            for action in record.actions:
                leases |= {trial: given.lease.number for given in lanes_given(action) for trial in _trials_of(given)}
                if isinstance(action, EndRun):
                    is_cut_off = not action.is_complete
                elif isinstance(action, MoveTrial):
                    is_pruned = action.to in (State.STOPPED, State.PAUSED)
                    (pruned.add if is_pruned else pruned.discard)(action.trial)
        return EarlierRun(facts, {leases[trial] for trial in pruned if trial in leases}, asked, is_cut_off)


def _trials_of(given: GivenLane) -> set[TrialId]:
    return {trial for stage in given.lane.stages for trial in stage.trials}


def _ended_in_storage(study: Any, last: EarlierRun) -> int:
    """Return how many trials of the last run have ended as the storage says, which may know more than the journal."""
    first = min((fact["begun"] for fact in last.all_facts if "begun" in fact), default=None)
    return sum(
        first is not None and trial.number >= first and trial.state.is_finished()
        for trial in study.get_trials(deepcopy=False)
    )


def _fail_running(study: Any, runs: list[EarlierRun]) -> None:
    """Let the trials fail that a killed driver had running, in a storage that still has them so."""
    begun = {fact["begun"] for run in runs for fact in run.all_facts if "begun" in fact}
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if trial.number in begun:
            try:
                study._storage.set_trial_state_values(trial._trial_id, state=TrialState.FAIL)
            except optuna.exceptions.UpdateFinishedTrialError:
                continue
