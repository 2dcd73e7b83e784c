"""A study as far as its journal has come: its state, read again only when there is more to read, and who runs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.latest_metrics import LatestMetrics
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import NoTrialsError, StoreError, StudyNotFoundError, UsageError
from asyncsearch.ids import CheckpointRef, TrialId, parse_trial
from asyncsearch.journal.opening import Replayed, StudyFile, config_of, read_records, read_study_file
from asyncsearch.journal.projection import last_metrics, last_notes
from asyncsearch.journal.reading import read_position, read_state
from asyncsearch.report.formatting import printable, time_of
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.status_of import status_of
from asyncsearch.sentences import in_sentences
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.trial import Trial, TrialState

ELSEWHERE = "evaluated_elsewhere"
"""Name of the trainable of a study whose trials nobody trains here."""
_SHOWN = 3
"""Studies named in a message."""


class ReadState(NamedTuple):
    """The state of a study as last read."""

    state: StudyState
    journal_size: int
    """Bytes that the journal had, at the least, when it led to the state."""
    unread: str = ""
    """The part of the journal that could not be read, in words; empty if all was read."""
    last_s: float = 0.0
    """Driver's clock at the last record, in seconds since 1970; 0.0: unknown, or there is none."""


class ReadStudy:
    """A study that is read from its store, however it came about."""

    name: str
    config: EngineConfig
    shared: Store | None
    _place: Store
    _seen: ReadState | None
    _ends: tuple[int, dict[TrialId, list[CheckpointRef]]] = (0, {})
    """Bytes that the journal had, at the least, and where the trainings of each trial ended."""
    _reported: tuple[int, dict[TrialId, dict[str, float]]] = (0, {})
    """Bytes that the journal had, at the least, and the last value of each metric of each trial."""

    @property
    def store(self) -> Store:
        """The place of everything that the study writes."""
        return self._place

    def _open(self, store: str | Path) -> None:
        """Become the study of a store, to read it.

        Raises:
            StudyNotFoundError: the store holds no study.
        """
        self._place = open_store(store)
        file = self._require_file()
        self.name = file.name
        self.shared = open_store(file.shared) if file.shared else None
        self.config = config_of(file)
        self._seen = None

    def _status(self) -> StudyStatus:
        state, scheduler = self._read_state(), self._require_file().scheduler
        died_s = self._driver_died_s()
        state, unread = self._read_state(), "" if self._seen is None else self._seen.unread
        place = self.store.shown
        latest = self._latest()
        shown: dict[str, Any] = {"store": place, "scheduler": scheduler, "unread": unread, "latest": latest}
        status = status_of(state, **shown, driver_died_s=died_s)
        if status.is_unfinished and state.run is None:
            from asyncsearch.journal.projection import last_total

            total = last_total(read_records(self.store))
            status = status_of(state, **shown, num_trials=total)
        return msgspec.structs.replace(status, has_workers=not self._is_elsewhere())

    def _words(self) -> Callable[[TrialState], str]:
        """Return the names of states as of now; see ``StudyStatus.words``, which costs more."""
        if self._is_running():
            return lambda trial_state: trial_state.words
        is_begun = any(trial.state in (TrialState.WAITING, TrialState.RUNNING) for trial in self._read_state().trials)
        is_unfinished = is_begun or self._read_state().run is not None
        return partial(TrialState.words_after, is_unfinished=is_unfinished)

    def _is_running(self) -> bool:
        """Return whether a run is in progress, whose driver lives."""
        return self._read_state().run is not None and self._driver_died_s() is None

    def _metrics(self) -> dict[TrialId, dict[str, float]]:
        """Return the last value of each metric of each trial; the journal is read only where the state has not all."""
        state, metric = self._read_state(), self.config.metric
        is_plain = not any(trial.value is None and trial.value_resource for trial in state.trials)
        if is_plain and state.metric_names <= {metric}:
            return {trial.id: {metric: trial.value} for trial in state.trials if trial.value is not None}
        size, found = self._reported
        if size != (present := self.store.journal_size()) or not found:
            size, found = self._reported = present, last_metrics(read_records(self.store))
        return found

    def _notes(self) -> dict[TrialId, dict[str, str]]:
        """Return the notes of each trial; the journal is read only where there are any."""
        return last_notes(read_records(self.store)) if self._read_state().has_notes else {}

    def _latest(self) -> LatestMetrics:
        """Return the metrics that tables have columns for."""
        latest = LatestMetrics(self.config.metric)
        if self._read_state().metric_names - {self.config.metric}:
            latest.fill(self._metrics())
        return latest

    def _driver_died_s(self) -> float | None:
        """Return the time of the last record of a run whose driver no longer lives; None if there is no such run."""
        if self._read_state().run is None or self.store.is_locked():
            return None
        if self._is_elsewhere():
            return None  # its trials go on where they are evaluated, whether somebody has it open or not
        # Read after the look at the lock: a driver that ended in order in between has recorded the end of its run.
        run = self._read_state().run
        return None if run is None or self._seen is None else self._seen.last_s

    def _is_elsewhere(self) -> bool:
        """Return whether its trials are evaluated elsewhere, so that it has no workers."""
        return self._require_file().trainable == ELSEWHERE

    def _read_state(self) -> StudyState:
        """Return the state that the journal leads to; it is read again only when there is more to read."""
        seen = self._seen
        if seen is None or seen.unread or self._has_grown(seen):
            size = self.store.journal_size()  # before the look: what comes meanwhile is looked at the next time
            state, found = read_state(self.store, self._require_file())
            seen = self._seen = ReadState(state, size, self._unread(found), found.last_s)
        return seen.state

    def _unread(self, found: Replayed) -> str:
        """Say that the end of the journal could not be read, if so; only HDFS keeps it until its driver closes it."""
        if not found.unread:
            return ""
        after = f" since {time_of(found.last_s)}" if found.last_s else ""
        if self.store.is_locked():
            return f"being written: what happened{after} can be read in a moment, at the next segment of the journal"
        return f"its driver has died: what happened{after} is read, with nothing lost, when the study is resumed"

    def _has_grown(self, seen: ReadState) -> bool:
        try:
            return self.store.journal_size() > seen.journal_size
        except StoreError:
            return False  # what was seen can be shown without the store

    def _position(self, trial: TrialId) -> str:
        """Return where a trial stands in its scheduler's words; empty where the scheduler is not at hand."""
        words = self._read_state().scheduler.position(trial)
        return words or read_position(self.store, self._require_file(), trial)

    def _training_ends(self, number: TrialId) -> list[CheckpointRef]:
        """Return the ends of the trainings of a trial; the journal is read again only when there is more to read."""
        from asyncsearch.journal.reading import training_ends

        size, found = self._ends
        if size != (present := self.store.journal_size()):
            size, found = self._ends = present, training_ends(read_records(self.store))
        return found.get(number, [])

    def _nothing_reported(self) -> NoTrialsError:
        trials, metric = self._read_state().trials, self.config.metric
        failed = [trial for trial in trials if trial.failures]
        if not trials:
            return NoTrialsError(f"{self.name!r} has no trial yet: write study.run(num_trials=64) first.")
        if not failed:
            return NoTrialsError(
                f"No trial of {self.name!r} has reported a finite {metric!r} yet: write study.history(0) to see what "
                "one reported."
            )
        last = failed[-1]
        count = f"All {len(trials)} trials" if len(failed) == len(trials) else f"{len(failed)} of {len(trials)} trials"
        return NoTrialsError(
            f"{count} of {self.name!r} failed, and none has reported a finite {metric!r}. The last one, {last.name}: "
            f"{printable(last.reason)}. Write print(study.explain({last.id})) to see where."
        )

    def _require_file(self) -> StudyFile:
        file = read_study_file(self.store)
        if file is None:
            raise self._not_found()
        return file

    def _not_found(self) -> StudyNotFoundError:
        return StudyNotFoundError(
            f"{self.store.shown} holds no study: there is no study.json in it. {self._studies_below()}"
        )

    def _studies_below(self) -> str:
        """Say which studies there are in the folder that was named instead of one of them."""
        root = self.store.shown.rstrip("/")
        names = sorted(file.parent.name for file in Path(root).glob("*/study.json"))  # none where it is a URL
        if not names:
            return "Is the path right?"
        held = "is a study" if len(names) == 1 else f"are {len(names)} studies"
        more = f", or one of {len(names) - _SHOWN} others" if len(names) > _SHOWN else ""
        return f"There {held} below: write {' or '.join(f'{root}/{name}' for name in names[:_SHOWN])}{more}."

    @in_sentences()
    def _trial_id(self, trial: int | str | Trial) -> TrialId:
        number = trial.id if isinstance(trial, Trial) else parse_trial(str(trial))
        if number >= (count := len(self._read_state().trials)):
            raise UsageError(f"There is no trial {number}: the study has {count}, numbered from 0.")
        return TrialId(number)
