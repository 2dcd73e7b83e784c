"""The runs of a study: each ``optimize`` is one, in a numbered folder of the study's own, and a later process goes on.

A study in memory is made anew of what the journals of its runs tell. Of a study with a database of its own they tell
which trials a driver that was killed had running.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import optuna
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from asyncsearch.actions import EndRun, MoveTrial, lanes_given
from asyncsearch.errors import UsageError
from asyncsearch.events import Consulted, RunRequested
from asyncsearch.files.paths import plain_part
from asyncsearch.ids import TrialId
from asyncsearch.journal.opening import StudyFile, read_records, read_study_file
from asyncsearch.optuna.facts import facts_in, give_attributes, trials_of
from asyncsearch.programs.same_line import numbered_folders
from asyncsearch.store import open_store
from asyncsearch.study.kept.default_store import DefaultFolder
from asyncsearch.trial import UNWANTED
from asyncsearch.trial import TrialState as State

_UNNAMED = "no-name-"
"""How Optuna begins the name of a study that has none."""


class EarlierRun(NamedTuple):
    """An earlier run, as its journal tells it."""

    folder: str
    file: StudyFile
    facts: list[Consulted]
    trials_by_lease: dict[int, TrialId]
    """The number of each lease, and the trial of asyncsearch that had it."""
    states: dict[TrialId, State]
    """The last one of each of these trials."""
    asked: int
    """How many trials the last ``optimize`` asked for that it served; 0: it did not say."""
    since: int
    """How many of the facts are of those before."""
    is_cut_off: bool
    """Whether its driver was killed or interrupted before it was done."""

    @property
    def all_facts(self) -> list[dict[str, Any]]:
        """Each fact alone."""
        return [fact for event in self.facts for fact in facts_in(event)]

    @property
    def last_facts(self) -> list[dict[str, Any]]:
        """Those of the last ``optimize``."""
        return [fact for event in self.facts[self.since :] for fact in facts_in(event)]

    @property
    def is_open(self) -> bool:
        """Whether it was cut off with trials that a scheduler may let go on."""
        return self.is_cut_off and (self.file.scheduler_options or {}).get("kind") != "FIFO"

    def trials(self, *, keeps_open: bool = False) -> Iterator[FrozenTrial]:
        """Yield its trials in the order of their beginnings; ``keeps_open``: unfinished ones are running."""
        became = {lease: _became(self.states.get(trial)) for lease, trial in self.trials_by_lease.items()}
        if keeps_open:
            became |= {
                lease: TrialState.RUNNING for lease, trial in self.trials_by_lease.items() if self._is_left(trial)
            }
        return trials_of(self.facts, became)

    def _is_left(self, trial: TrialId) -> bool:
        return self.states.get(trial) in (State.PAUSED, State.WAITING, State.RUNNING)

    @property
    def numbers(self) -> dict[TrialId, int]:
        """The trials of asyncsearch that have begun, and the numbers that the study has given them."""
        found = [(event.lease.number, fact) for event in self.facts for fact in facts_in(event)]
        return {self.trials_by_lease[lease]: fact["begun"] for lease, fact in found if "begun" in fact}

    @property
    def ended(self) -> int:
        """How many trials of the last ``optimize`` have ended; those that were lost have failed and do not count."""
        last, all_ = self._trials_ended(self.facts[self.since :]), self._trials_ended(self.facts)
        ended = {trial for trial, state in self.states.items() if state in (State.STOPPED, State.PAUSED)}
        return len(last) + len(ended - all_)

    def _trials_ended(self, facts: Sequence[Consulted]) -> set[TrialId]:
        return {
            self.trials_by_lease[event.lease.number] for event in facts for fact in facts_in(event) if "ended" in fact
        }


def _became(state: State | None) -> TrialState:
    """Return the end of a trial that has not said it, by what the engine has done with it."""
    return TrialState.PRUNED if state in (State.STOPPED, State.PAUSED) else TrialState.FAIL


class OpenRun(NamedTuple):
    """A run with a scheduler that was cut off, and goes on in its own folder."""

    folder: str
    name: str
    trials: dict[TrialId, int]
    """Those that go on, and their ids in the storage."""
    begun: frozenset[TrialId]
    """All that have begun."""


class StudyRuns:
    """The folder of one study."""

    _unnamed = 0
    """How many studies of this process have no name."""

    def __init__(self, study: Any, store: str | None, *, goes_on: bool = False) -> None:
        """Find the folder; nothing is written.

        Args:
            study: whose runs they are.
            store: folder of all studies of the program. None means a new one in ``studies`` at the first run.
            goes_on: whether an existing folder of the study's name in ``studies`` is taken.
        """
        self.left: int | None = None
        """How many trials the first ``optimize`` has left of a run that was cut off. None if none was."""
        self._asked = 0
        self._open: OpenRun | None = None
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
        return f"{self._base}/{sum(1 for _ in numbered_folders(self._base)) + 1}"

    def trials_left(self, asked: int | None) -> int | None:
        """Return how many trials an ``optimize`` runs: the same as before a kill has those that were left."""
        left, self.left = self.left, None
        return left if left is not None and asked == self._asked else asked

    def take_open(self, study: Any, asked: int | None, *, is_scheduled: bool) -> OpenRun | None:
        """Return the run that goes on, once: by as many trials, and with a scheduler. Else its trials fail."""
        found, self._open = self._open, None
        if found is None or (is_scheduled and asked == self._asked):
            self.left = None if found is not None else self.left
            return found
        for number in found.trials.values():
            _fail(study, number)
        return None

    def load(self, study: Any, *, may_add: bool) -> None:
        """Give a study that has just been made what earlier processes have found.

        Raises:
            UsageError: they came to their end, and ``may_add`` is false: whoever runs a program again must say so.
        """
        runs = [self._read(folder) for folder in numbered_folders(self._base)] if self._base else []
        if not runs:
            return
        last, ended = runs[-1], runs[-1].ended
        ids: dict[int, int] = {}
        if not (may_add or last.is_cut_off):
            raise UsageError(
                f"{self._base} holds a study that came to its end: give create_study a study_name= and "
                "load_if_exists=True to add trials to it, or give optuna.workers another store=."
            )
        if isinstance(study._storage, InMemoryStorage) and not study.get_trials(deepcopy=False):
            for run in runs:
                for trial in run.trials(keeps_open=run is last and last.is_open):
                    study.add_trial(trial)
                    ids[trial.number] = study._storage.get_n_trials(study._study_id) - 1
                ids = ids if run is last else {}
            give_attributes(study, [fact for run in runs for fact in run.all_facts])
            study.sampler.reseed_rng()  # with its seed it would draw the same values once more
        else:
            ended = _ended_in_storage(study, last)
            _fail_running(study, runs[:-1] if last.is_open else runs)
            ids = {trial.number: trial._trial_id for trial in study.get_trials(deepcopy=False)}
        if last.is_open:
            self._open = _open_run(study, last, ids)
        if last.is_cut_off:
            self.left, self._asked = max(0, last.asked - ended), last.asked

    def _read(self, folder: str) -> EarlierRun:
        facts: list[Consulted] = []
        store = open_store(folder)
        file = read_study_file(store)
        assert file is not None, "else it is no run"
        trials: dict[int, TrialId] = {}
        states: dict[TrialId, State] = {}
        asked, since, is_done, is_cut_off = 0, 0, False, True
        for record in read_records(store):
            if isinstance(record.event, Consulted):
                for fact in facts_in(record.event):
                    if "asked" in fact:
                        asked, since, is_done = fact["asked"], len(facts), False
                    is_done = is_done or bool(fact.get("done"))
                facts.append(record.event)
            elif isinstance(record.event, RunRequested):
                asked, is_cut_off = record.event.num_trials or 0, True
            for action in record.actions:
                trials |= {given.lease.number: given.lane.stages[0].trials[0] for given in lanes_given(action)}
                if isinstance(action, EndRun):
                    is_cut_off = not action.is_complete
                elif isinstance(action, MoveTrial):
                    states[action.trial] = State.FAILED if action.reason == UNWANTED else action.to
        return EarlierRun(folder, file, facts, trials, states, asked, since, is_cut_off and not is_done)


def _open_run(study: Any, run: EarlierRun, ids: dict[int, int]) -> OpenRun:
    """Return a run that goes on; ``ids``: the ids of the study's trials by the numbers that they had in that run."""
    running = {trial._trial_id for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))}
    left = {trial: ids[number] for trial, number in run.numbers.items() if ids.get(number) in running}
    return OpenRun(run.folder, run.file.name, left, frozenset(run.numbers))


def _ended_in_storage(study: Any, last: EarlierRun) -> int:
    """Return how many trials of the last run have ended as the storage says, which may know more than the journal."""
    first = min((fact["begun"] for fact in last.last_facts if "begun" in fact), default=None)
    return sum(
        first is not None and trial.number >= first and trial.state.is_finished()
        for trial in study.get_trials(deepcopy=False)
    )


def _fail_running(study: Any, runs: list[EarlierRun]) -> None:
    """Let the trials fail that a killed driver had running, in a storage that still has them so."""
    begun = {fact["begun"] for run in runs for fact in run.all_facts if "begun" in fact}
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if trial.number in begun:
            _fail(study, trial._trial_id)


def _fail(study: Any, number: int) -> None:
    with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
        study._storage.set_trial_state_values(number, state=TrialState.FAIL)
