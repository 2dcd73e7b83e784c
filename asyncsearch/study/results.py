"""What a study has found: its trials, the best of them, their stories and their checkpoints; read from its store."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.latest_metrics import LatestMetrics
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import NoTrialsError, StoreError, StudyNotFoundError, UsageError
from asyncsearch.files.names import plain_part
from asyncsearch.ids import CheckpointRef, TrialId, parse_trial, trial_name
from asyncsearch.journal.opening import Replayed, StudyFile, config_of, read_records, read_study_file
from asyncsearch.journal.projection import last_metrics
from asyncsearch.journal.reading import read_position, read_state
from asyncsearch.report.explain import explain
from asyncsearch.report.formatting import time_of
from asyncsearch.report.live.lines import continue_lines, head_words
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.status_of import status_of
from asyncsearch.report.plain_text import printable
from asyncsearch.report.plots.incumbents import Incumbent, incumbents, incumbents_dataframe
from asyncsearch.schedulers.reasons import WAITS_THERE
from asyncsearch.sentences import in_sentences
from asyncsearch.sequences.flat_params import ReadableParams
from asyncsearch.sizing.pack_groups import grouping_by
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.logs.reader import LogReader
from asyncsearch.study.fetched_path import FetchedPath
from asyncsearch.trial import Metrics, Trial, TrialState

if TYPE_CHECKING:
    import pandas

    from asyncsearch.report.ablation.table import AblationTable
    from asyncsearch.report.tree.tree import Tree
    from asyncsearch.space import Space


_SHOWN = 3
"""Studies named in a message."""


class ReadState(NamedTuple):
    """What was known of a study."""

    state: StudyState
    journal_size: int
    """Bytes that the journal had, at the least, when it led to the state."""
    unread: str = ""
    """What of the journal could not be read, in words; empty: all was read."""
    last_s: float = 0.0
    """Driver's clock at the last record, in seconds since 1970; 0.0: unknown, or there is none."""


def open_results(store: str | Path) -> Results:
    """Return the results of the study in a store, without the modules that run a study: they take longer to import.

    Raises:
        StudyNotFoundError: the store holds no study.
    """
    results = Results()
    results._open(store)
    return results


class Results:
    """The results of a study, at any time: while it runs, afterwards, and on a machine that has none of its code."""

    name: str
    config: EngineConfig
    shared: Store | None
    _place: Store
    _seen: ReadState | None
    _ends: tuple[int, dict[TrialId, list[CheckpointRef]]] = (0, {})
    """Bytes that the journal had, at the least, and where the trainings of each trial ended."""
    _reported: tuple[int, dict[TrialId, dict[str, float]]] = (0, {})
    """Bytes that the journal had, at the least, and the last value of each metric of each trial."""
    _shown_in: object = None
    """The run of a notebook's cell that shows the table already; None: there is none."""

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

    @property
    def store(self) -> Store:
        """What holds everything that the study writes."""
        return self._place

    @property
    @in_sentences()
    def trials(self) -> list[Trial]:
        """All trials in the order in which they began; copies, each with all of its ``metrics``."""
        words, metrics = self._words(), self._metrics()
        return [trial.seen_in(words(trial.state), metrics.get(trial.id)) for trial in self._read_state().trials]

    @property
    @in_sentences()
    def best_trial(self) -> Trial:
        """The trial with the best last value of the metric, failed ones excepted: its checkpoint has that value.

        With ``rank_by="best"`` the one with the best value that it ever reported, which later training may have lost.

        Raises:
            NoTrialsError: none has reported a finite value yet.
        """
        best = self._read_state().best()
        if best is None:
            raise self._nothing_reported()
        return best.seen_in(self._words()(best.state), self._metrics().get(best.id))

    @property
    @in_sentences()
    def incumbent(self) -> Incumbent:
        """The best value that any trial had at any resource, whatever became of the trial; the last ``incumbents``.

        Raises:
            NoTrialsError: none has reported a finite value yet.
        """
        found = self.incumbents()
        if not found:
            raise self._nothing_reported()
        return found[-1]

    @in_sentences()
    def incumbents(self) -> list[Incumbent]:
        """Return each value that was the best so far when it was reported, with its trial, resource and time."""
        return incumbents(read_records(self.store), metric=self.config.metric, mode=self.config.mode)

    @in_sentences()
    def incumbents_dataframe(self) -> pandas.DataFrame:
        """Return one row for each of ``incumbents``; needs pandas."""
        return incumbents_dataframe(self.incumbents())

    @property
    @in_sentences()
    def best_params(self) -> dict[str, Any]:
        """The configuration of the best trial; schedules in it print as they are written."""
        return ReadableParams(copy.deepcopy(self.best_trial.params))

    @property
    @in_sentences()
    def best_value(self) -> float:
        """The value that ranks the best trial: its last one, or with ``rank_by="best"`` its best."""
        value = self.best_trial.ranked_value(self.config.rank_by)
        assert value is not None
        return value

    @in_sentences()
    def trials_dataframe(self) -> pandas.DataFrame:
        """Return one row a trial, with its last value of each metric that it has reported; needs pandas."""
        from asyncsearch.report.dataframe import trials_dataframe

        return trials_dataframe(self.trials, self.config.metric)

    @in_sentences()
    def ablation(self) -> AblationTable:
        """Return what leaving out each component does to the metric, as a table for ``print`` and notebooks.

        Its ``dataframe()`` and ``plot()`` are a frame and a picture.

        Raises:
            UsageError: the study's searcher is no ``Ablation``, or the extra ``report`` is not installed.
            NoTrialsError: there is nothing to compare yet.
        """
        from asyncsearch.journal.projection import reports
        from asyncsearch.report.ablation.effects import effects_of
        from asyncsearch.report.ablation.table import AblationTable

        found = effects_of(self.trials, reports(read_records(self.store)), self.config.metric)
        return AblationTable(self.name, self.config.metric, self.config.mode, found)

    def history(self, trial: int | str | Trial) -> list[tuple[int, Metrics]]:
        """Return every report of a trial as (resource, metrics), in the order of the journal."""
        from asyncsearch.journal.projection import history

        return history(read_records(self.store), self._trial_id(trial))

    @in_sentences()
    def explain(self, trial: int | str | Trial) -> str:
        """Say in sentences what happened to a trial, and why."""
        number = self._trial_id(trial)
        status = self._status()
        state = self._read_state().trials[number].state
        position = "" if state.is_finished else self._position(number)
        story = explain(
            read_records(self.store),
            number,
            metric=self.config.metric,
            mode=self.config.mode,
            position=position.removesuffix(f"; {WAITS_THERE}") if status.is_finished else position,
            head=head_words(status, state),
            group=grouping_by(self.config.pack_by),
        )
        return "\n".join([story, *continue_lines(status, state)])

    @in_sentences()
    def tensorboard(self, path: str | Path | None = None) -> Path:
        """Write what the trials have reported as event files of TensorBoard, and return their folder.

        Each trial is a run, whose steps are its resource, and its configuration is on the page "hparams". The event
        files that trials wrote into ``trial.dir`` are put beside them. A second call adds only what is new, so that it
        may be called while the study runs: by ``Study.open(store)`` in another cell or process.

        Args:
            path: a folder on this machine; None: ``tensorboard/<name of the study>``; a name with a ``/`` is no path.

        Raises:
            UsageError: the extra ``tensorboard`` is not installed, or the folder cannot be written.
            NoTrialsError: no trial has begun yet.
        """
        from asyncsearch.study.event_files import write_event_files

        space: Space | None = getattr(self, "space", None)  # of a study that was made or resumed here
        domains = {} if space is None else space.parameters
        logdir = Path("tensorboard", plain_part(self.name)) if path is None else Path(path)
        return write_event_files(self, logdir, self._require_file().created_s, domains)

    @in_sentences()
    def tree(self) -> Tree:
        """Return what is trained and for which trials, as a picture for a notebook and as text for ``print``.

        Raises:
            NoTrialsError: there is no trial yet.
        """
        from asyncsearch.report.tree.tree import tree

        config, words, is_running = self.config, self._words(), self._is_running()
        shown: dict[str, Any] = {"name": self.name, "metric": config.metric, "mode": config.mode}
        best = self._read_state().best()
        shown["best"] = None if best is None else best.id
        return tree(read_records(self.store), **shown, words=words, is_running=is_running)

    def logs(self, trial: int | str | Trial) -> Iterator[str]:
        """Yield the lines that a trial printed, each with the worker's clock and ``O`` or ``E`` for its stream.

        Before them stands in whose log to look for what was trained with another trial.
        """
        from asyncsearch.journal.projection import trained_with

        number = self._trial_id(trial)
        for start, stop, other in trained_with(read_records(self.store), number):
            end = "its end" if stop is None else f"{stop:,}"
            yield f"... units {start:,} to {end} were trained with {trial_name(other)}: see its log ..."
        log = LogReader(self.store, trial_name(number))
        yield from log.lines()
        if log.unread:
            yield f"... {log.unread} ..."

    def checkpoint(self, trial: int | str | Trial | None = None) -> AbstractContextManager[Path]:
        """Give the path that the trainable's ``save`` wrote, of a trial or of the best one, inside a ``with``.

        Raises:
            NoTrialsError: the trial has no checkpoint; ``keep_checkpoints`` says how many are kept.
        """
        return FetchedPath(self._fetched(trial))

    @contextmanager
    def _fetched(self, trial: int | str | Trial | None) -> Iterator[Path]:
        number = self.best_trial.id if trial is None else self._trial_id(trial)
        chosen = self._read_state().trials[number]
        if chosen.checkpoint is None:
            raise NoTrialsError(
                f"{chosen.name} has no checkpoint. Those of unfinished trials and of the "
                f"{self.config.keep_checkpoints} best finished ones are kept, as far as the quota allows; raise "
                "Checkpoints(keep_checkpoints=...) or Sharing(quota_bytes=...)."
            )
        with (self.shared or self.store).fetch(chosen.checkpoint) as folder:
            yield folder / "checkpoint"

    def trial_dir(self, trial: int | str | Trial) -> AbstractContextManager[Path]:
        """Give a trial's ``trial.dir`` as it was last stored, inside a ``with``: at its end, or at a later checkpoint.

        Raises:
            NoTrialsError: the trial has stored none.
        """
        return FetchedPath(self._fetched_dir(self._trial_id(trial)), "trial_dir")

    def _fetched_dir(self, number: TrialId) -> AbstractContextManager[Path]:
        from asyncsearch.study.trial_dirs import fetched

        return fetched(self.store, self.shared, self._read_state().trials[number], self._training_ends(number))

    def _training_ends(self, number: TrialId) -> list[CheckpointRef]:
        """Return where the trainings of a trial ended; the journal is read again only when there is more to read."""
        from asyncsearch.journal.training_ends import training_ends

        size, found = self._ends
        if size != (present := self.store.journal_size()):
            size, found = self._ends = present, training_ends(read_records(self.store))
        return found.get(number, [])

    @in_sentences()
    def summary(self) -> str:
        """Return how the study stands, as the table that people see."""
        from asyncsearch.report.live.table import table

        return table(self._status())

    def _repr_html_(self) -> str:
        from asyncsearch.report.live.html import html

        return html(self._status())

    def _ipython_display_(self) -> None:
        """Show the table, except in the cell whose run of the study has just shown it: there it would stand twice."""
        from IPython.display import display

        from asyncsearch.report.live.display import running_cell

        if self._shown_in is None or self._shown_in != running_cell():
            display({"text/html": self._repr_html_(), "text/plain": repr(self)}, raw=True)  # type: ignore[no-untyped-call]

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
        return status

    def _words(self) -> Callable[[TrialState], str]:
        """Return what people call a state now; see ``StudyStatus.words``, which costs more."""
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

    def _latest(self) -> LatestMetrics:
        """Return the metrics that tables have columns for."""
        latest = LatestMetrics(self.config.metric)
        if self._read_state().metric_names - {self.config.metric}:
            latest.fill(self._metrics())
        return latest

    def _driver_died_s(self) -> float | None:
        """Return when the last record was written of a run whose driver no longer lives; None: there is no such run."""
        if self._read_state().run is None or self.store.is_locked():
            return None
        # Read after the look at the lock: a driver that ended in order in between has recorded the end of its run.
        run = self._read_state().run
        return None if run is None or self._seen is None else self._seen.last_s

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
