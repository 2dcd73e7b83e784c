"""The results of a study: its trials, the best of them, their stories and their checkpoints; read from its store."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from asyncsearch.errors import NoTrialsError, StudyNotFoundError, UsageError
from asyncsearch.files.paths import plain_part
from asyncsearch.ids import CheckpointRef, TrialId, trial_name, worker_name
from asyncsearch.journal.opening import read_records
from asyncsearch.report.explain import explain
from asyncsearch.report.formatting import Lines
from asyncsearch.report.live.lines import continue_lines, head_words
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.plots.curves import Incumbent, incumbents, incumbents_dataframe
from asyncsearch.schedulers.reasons import WAITS_THERE
from asyncsearch.sentences import in_sentences
from asyncsearch.sequences.objects import NamedObject, with_known
from asyncsearch.sequences.params import ReadableParams
from asyncsearch.sizing.packing import grouping_by
from asyncsearch.store.logs.reader import LogReader
from asyncsearch.study.read_study import ReadStudy
from asyncsearch.trial import Metrics, Trial

if TYPE_CHECKING:
    import pandas

    from asyncsearch.report.ablation import AblationTable
    from asyncsearch.report.time_words import TimeTable
    from asyncsearch.report.tree.tree import Tree
    from asyncsearch.space import Space


def open_results(store: str | Path) -> Results:
    """Return the results of the study in a store, without the modules that run a study: they take longer to import.

    Raises:
        StudyNotFoundError: the store holds no study.
    """
    results = Results()
    results._open(store)
    return results


class Results(ReadStudy):
    """The results of a study, at any time: while it runs, afterwards, and on a machine that has none of its code."""

    _shown_in: object = None
    """The run of a notebook's cell that shows the table already; None if there is none."""

    def _objects(self) -> Sequence[NamedObject]:
        """Return the objects of the choices of its space; none if it was only opened."""
        return ()

    @property
    @in_sentences()
    def trials(self) -> list[Trial]:
        """All trials in the order in which they began; copies, each with all of its ``metrics`` and ``notes``."""
        words, metrics, notes = self._words(), self._metrics(), self._notes()
        trials = self._read_state().trials
        return [trial.seen_in(words(trial.state), metrics.get(trial.id), notes.get(trial.id)) for trial in trials]

    @property
    @in_sentences()
    def best_trial(self) -> Trial:
        """The trial with the best last value of the metric, failed ones excepted: its checkpoint has that value.

        With ``rank_by="best"`` the one with the best value that it ever reported, which later training may have lost.
        Its ``params`` have the objects of choices themselves, as ``best_params``; those of ``trials`` have their names.

        Raises:
            NoTrialsError: none has reported a finite value yet.
        """
        best = self._read_state().best()
        if best is None:
            raise self._nothing_reported()
        seen = best.seen_in(self._words()(best.state), self._metrics().get(best.id), self._notes().get(best.id))
        if objects := self._objects():
            seen.params = with_known(copy.deepcopy(seen.params), objects)
        return seen

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
        """The configuration of the best trial; schedules in it print as they are written.

        Objects of choices are those of the program, and their names where it has not made the study's space.
        """
        return ReadableParams(self.best_trial.params)

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
        """Return the effect on the metric of leaving out each component, as a table for ``print`` and notebooks.

        Its ``dataframe()`` and ``plot()`` are a frame and a picture.

        Raises:
            UsageError: the study's searcher is no ``Ablation``, or the extra ``report`` is not installed.
            NoTrialsError: there is nothing to compare yet.
        """
        from asyncsearch.journal.projection import reports
        from asyncsearch.report.ablation import AblationTable, effects_of

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
            who=(lambda _: "its evaluator") if self._is_elsewhere() else worker_name,
        )
        return Lines("\n".join([story, *continue_lines(status, state)]))

    @in_sentences()
    def tensorboard(self, path: str | Path | None = None) -> Path:
        """Write the reports of the trials as event files of TensorBoard, and return their folder.

        Each trial is a run, whose steps are its resource, and its configuration is on the page "hparams". The event
        files that trials wrote into ``trial.dir`` are put beside them. A second call adds only what is new, so that it
        may be called while the study runs: by ``Study.open(store)`` in another cell or process.

        Args:
            path: a folder on this machine; None means ``tensorboard/<name of the study>``; a name with a ``/``
                is no path.

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
    def time_spent(self) -> TimeTable:
        """Return where the time of the workers went, as a table for ``print``: by kind, by worker and by trial.

        Its accounts add up to the workers' time to the millisecond. What was done before asyncsearch measured it, or
        by a training that runs, since its last report, is ``unmeasured``.
        """
        from asyncsearch.report.time_words import time_table
        from asyncsearch.time_spent.reading import time_spent

        is_over = not self.store.is_locked()
        kept = () if self._is_elsewhere() else read_records(self.store)  # who asks has the place of workers there
        records = ((record.t, record.event, record.actions) for record in kept)
        return time_table(time_spent(records, is_over=is_over))

    @in_sentences()
    def tree(self) -> Tree:
        """Return the stage tree, with the trials that each stage is for: a picture in a notebook, text for ``print``.

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

        With ``rank_by="best"`` that of its best report, where it was saved there, else the last one.

        Raises:
            NoTrialsError: the trial has no checkpoint; ``keep_checkpoints`` says how many are kept.
        """
        return FetchedPath(self._fetched(trial))

    @contextmanager
    def _fetched(self, trial: int | str | Trial | None) -> Iterator[Path]:
        number = self.best_trial.id if trial is None else self._trial_id(trial)
        chosen = self._read_state().trials[number]
        checkpoint = self._checkpoint_of(chosen)
        if checkpoint is None:
            raise NoTrialsError(
                f"{chosen.name} has no checkpoint. Those of unfinished trials and of the "
                f"{self.config.keep_checkpoints} best finished ones are kept, as far as the quota allows; raise "
                "Checkpoints(keep_checkpoints=...) or Sharing(quota_bytes=...)."
            )
        with (self.shared or self.store).fetch(checkpoint) as folder:
            yield folder / "checkpoint"

    def _checkpoint_of(self, trial: Trial) -> CheckpointRef | None:
        """Return the last checkpoint of a trial, or, where the best report ranks, that of a better one that is kept."""
        state = self._read_state()
        kept = state.best_saved.entries.get(trial.id)
        last = state.score(trial.value)
        is_better = kept is not None and (trial.checkpoint is None or last is None or kept[0] <= last)
        return kept[1] if kept is not None and is_better else trial.checkpoint

    def trial_dir(self, trial: int | str | Trial) -> AbstractContextManager[Path]:
        """Give a trial's ``trial.dir`` as it was last stored, inside a ``with``: at its end, or at a later checkpoint.

        Raises:
            NoTrialsError: the trial has stored none.
        """
        return FetchedPath(self._fetched_dir(self._trial_id(trial)), "trial_dir")

    def _fetched_dir(self, number: TrialId) -> AbstractContextManager[Path]:
        from asyncsearch.study.trial_dirs import fetched

        return fetched(self.store, self.shared, self._read_state().trials[number], self._training_ends(number))

    @in_sentences()
    def summary(self) -> str:
        """Return the status of the study, as the table that people see."""
        from asyncsearch.report.live.table import table

        return Lines(table(self._timed_status()))

    def _repr_html_(self) -> str:
        """Return the table; before the first run the name and the settings, so that a cell may end with the study."""
        from asyncsearch.report.live.table import html

        try:
            return html(self._timed_status())
        except StudyNotFoundError:
            return f"<code>{escape(repr(self))}</code>"

    def _timed_status(self) -> StudyStatus:
        """Return the status with the line on the workers' time, for which the whole journal is read."""
        return msgspec.structs.replace(self._status(), time_line=self.time_spent().line)

    def _ipython_display_(self) -> None:
        """Show the table, except in the cell whose run of the study has just shown it: there it would stand twice."""
        from IPython.display import display

        from asyncsearch.report.live.display import running_cell

        if self._shown_in is None or self._shown_in != running_cell():
            display({"text/html": self._repr_html_(), "text/plain": repr(self)}, raw=True)  # type: ignore[no-untyped-call]


class FetchedPath(AbstractContextManager[Path]):
    """Gives the path inside a ``with``; used as if it were a path itself, it says so."""

    def __init__(self, fetched: AbstractContextManager[Path], method: str = "checkpoint") -> None:
        self._fetched, self._method = fetched, method

    def __enter__(self) -> Path:
        return self._fetched.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._fetched.__exit__(kind, error, traceback)

    def __fspath__(self) -> str:
        raise UsageError(
            f"study.{self._method}(...) is fetched for the time of a with block: write "
            f"`with study.{self._method}({'' if self._method == 'checkpoint' else '0'}) as path:`, and read the path "
            "in it."
        )
