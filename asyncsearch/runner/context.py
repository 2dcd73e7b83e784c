"""The trial object of the user's function, in a search and outside one.

Rule: this module makes all decisions on resources, reports, pauses and saves, and ``timeline`` knows the position of a
lane on its stages; a ``Link`` transports the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.ids import trial_name
from asyncsearch.other_libraries.trainables import answer_on_epochs, answer_on_report, require_functions
from asyncsearch.runner.link import Link
from asyncsearch.runner.metrics import as_metrics, check_resource, is_same, shortened
from asyncsearch.runner.notes import note_bytes
from asyncsearch.runner.once_cache import once
from asyncsearch.runner.process.process_state import rank_connections
from asyncsearch.runner.protocol import Unwritten
from asyncsearch.runner.saving import HOW_TO_PAUSE, check_hooks, hooks_of, placed, read, write
from asyncsearch.runner.state_copies import StateCopy, StateWriter
from asyncsearch.runner.stopwatch import AWAITING, EVALUATING, LOADING, SAVING, TRAINING, Stopwatch
from asyncsearch.runner.timeline import CurrentValues, LaneTimeline, as_fraction, as_resource
from asyncsearch.runner.trial_folder import FolderPlace, TrialFolder
from asyncsearch.runner.verdict_waits import VerdictWaits
from asyncsearch.trainable import (
    Evaluate,
    LoadFunction,
    ReportError,
    SaveFunction,
    TrialContext,
    TrialPaused,
    TrialStopped,
    Update,
)
from asyncsearch.trial import Params
from asyncsearch.work import Stage

T = TypeVar("T")


class SearchContext(TrialContext):
    """A trial that trains a batch of stages, one after the other, without reloading between them."""

    may_be_done = False
    """Whether the function may run with nothing left to train; otherwise it must evaluate."""

    def __init__(
        self,
        stages: Sequence[Stage],
        link: Link,
        load: Path | Callable[[], Path] | None = None,
        name: str | None = None,
        untrusted: str = "",
        place: FolderPlace | None = None,
        metric: str = "loss",
        judged: int | None = None,
        copies: StateWriter | None = None,
    ) -> None:
        """Begin where the first stage begins.

        Args:
            stages: to train, in order.
            link: transports the results.
            load: the checkpoint there, or waits for it where it is still fetched. None if there is none.
            name: of the trial. None for that of the first trial of the first stage.
            untrusted: folder of the checkpoints, if nothing may be unpickled from it; else empty.
            place: where to make the folder of the trial. None for a temporary folder.
            metric: name of the study's metric, for messages.
            judged: the first resource at whose report it waits for what is decided, besides a pause. None if none.
            copies: copies its last state, and writes it once the training has ended. None if it is saved before.
        """
        self.has_reported = False
        """Whether this attempt has reported anything."""
        self.is_paused = False
        """Whether the trial has reached its target, and saved there if requested."""
        self.uses_epochs = False
        """Whether the function has called ``epochs``."""
        self._has_ended, self._pid = False, os.getpid()
        self._timeline = LaneTimeline(stages, judged)
        self._values = CurrentValues(self._timeline)
        self._link, self._load = link, load
        self._untrusted, self._metric = untrusted, metric
        self._name = name if name is not None else trial_name(stages[0].trials[0])
        self._folder = TrialFolder(place or FolderPlace(), load if isinstance(load, Path) else None, self._name)
        self._done = self._timeline.start
        self._reported = self._done - 1 if self._timeline.is_evaluation else self._done
        self._last: Mapping[str, float] = {}
        """The last report of this attempt."""
        self.unreported: dict[str, float] = {}
        """Metrics that the function returned beside its reports."""
        self.unwritten: Unwritten | None = None
        """Its last checkpoint, if that is a copy in memory, to be written once the training has ended."""
        self._copies = copies
        self._present: int | None = None
        self._waits = VerdictWaits()
        self._awaited = 0
        """Resource of the last report, if what is decided by it was not waited for yet. 0 if there is none."""

    @property
    def params(self) -> Params:
        return self._values.read(self._time)

    def at(self, fraction: float) -> Params:
        return self._values.read(self._time, as_fraction(fraction))

    @property
    def has_sequences(self) -> bool:
        return self._values.has_sequences

    @property
    def saved_params(self) -> Params:
        return self._values.at(max(self._timeline.start - 1, 0))

    @property
    def name(self) -> str:
        return self._name

    @property
    def seed(self) -> int:
        return self._timeline.stages[0].seed

    @property
    def dir(self) -> Path:
        self._require_training("trial.dir", is_allowed_in_child=self._folder.is_made)
        if self._load is not None:
            self._checkpoint(self._load)
        return self._folder.path

    def require_small_folder(self) -> None:
        """Refuse, by a ``UsageError``, a ``dir`` that holds more than may be stored."""
        self._folder.require_small()

    @property
    def resource(self) -> int:
        return self._done

    @property
    def is_judged(self) -> bool:
        if self._present is None or self._has_ended:
            return True
        self._require_training("is_judged")
        self._look()  # a cut, or a save for another trial, may have come since the unit began
        return self._timeline.is_of_use(self._present)

    @property
    def max_resource(self) -> int | None:
        return self._timeline.next_stage(self._time).max_resource

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier attempt trained a part of the trial."""
        return self._timeline.start > 0

    @property
    def should_stop(self) -> bool:
        if self._has_ended:  # so that a thread that looks here ends, too
            return True
        self._require_training("should_stop")
        return self._link.stop_reason() is not None

    def close(self) -> None:
        """End the training: a thread or a callback that still holds this trial can change nothing more."""
        self._has_ended = True
        self._link.close(self._words_of_end("trial"))

    def _words_of_end(self, what: str) -> str:
        return (
            f"{self.name} has ended, and something that it left behind uses its {what}, such as a thread or a callback "
            "that it registered: use the trial that the function is called with now, and undo in the function what it "
            "registers."
        )

    def _require_training(self, what: str, *, is_allowed_in_child: bool = False) -> None:
        """Refuse a call that only this trial may make, in this process, while it trains."""
        if self._has_ended:
            raise UsageError(self._words_of_end(what))
        if not is_allowed_in_child and os.getpid() != self._pid:
            raise UsageError(
                f"{self.name} trains in process {self._pid}, and its {what} is used in {os.getpid()}, which was forked "
                "from it: send the value back, as by a queue or by what the process returns, and use the trial there."
            )

    def process_group(self, backend: str | None = None) -> Any:
        self._require_training("process_group()")
        # Imported here: a runner whose trials train without torch needs none of it.
        from asyncsearch.trainers.torch.gangs.connection import open_lone_group

        return open_lone_group(backend, rank_connections.keep)

    def ask(self, content: bytes, *, is_awaited: bool = True) -> bytes:
        """Ask the one who answers in the driver, and return the answer; empty if it is not awaited.

        Only what runs other libraries' programs uses it: the content is known to these two alone.

        Raises:
            TrialStopped: the trial is to stop.
            UsageError: the trial has ended, is another process's, or nobody is there to answer.
        """
        self._require_training("question to the driver")
        ask = getattr(self._link, "ask", None)
        if ask is None:
            raise UsageError(f"{self.name} has no driver that would answer: run it in a study.")
        answer: bytes = ask(content, is_awaited=is_awaited)
        return answer

    @property
    def launch(self) -> object:
        """The same object for all trainings in one process of one launch of a worker, and for no other."""
        return getattr(self._link, "launch", None)

    def unasked_answer(self) -> bytes:
        """Wait for the driver's first word to the trial, and return it; see ``ask``.

        Raises:
            TrialStopped: the trial is to stop.
            UsageError: the trial has ended, or is another process's.
        """
        self._require_training("word of the driver")
        answer: bytes = self._link.unasked_answer()  # type: ignore[attr-defined]  # of the link that ``ask`` uses
        return answer

    def note(self, key: str, text: object) -> None:
        self.ask(note_bytes(key, text), is_awaited=False)

    def once(self, function: Callable[..., T], *args: Any) -> T:
        return once(function, *args)

    def report(
        self, metrics: Mapping[str, Any] | None = None, /, *more: Any, resource: int | None = None, **named: Any
    ) -> None:
        self._require_training("report()")
        if more:
            raise ReportError(answer_on_report((metrics, *more), self._metric))
        if not self.uses_epochs:
            self._agree()
        self._raise_if_interrupted()
        values = as_metrics(metrics, named, self._metric)
        at = self._default_resource() if resource is None else as_resource(resource)
        if self._load is not None and not self.uses_epochs:
            raise CannotPauseError(
                f"{self.name} must resume from its checkpoint at {self._timeline.start}, but started from scratch: "
                f"{HOW_TO_PAUSE}."
            )
        check_resource(self.name, at, self._timeline, self._done, self._reported, self._present)
        is_awaited = self._timeline.is_judged(at) and self._may_wait(at)
        if not (self.uses_epochs or self.has_reported):  # nobody knows when its first unit began
            self.stopwatch.call_it(TRAINING)
        self._link.report(at, values, is_awaited=is_awaited)
        self.has_reported = True
        self._reported, self._last = at, values
        self._awaited = at if is_awaited else 0
        self._done = max(self._done, at)
        if not self.uses_epochs:
            if is_awaited:
                self._await_verdict()
                self._agree()
                self._raise_if_interrupted()
            if self._timeline.is_cut(self._done):
                self._pause()

    def _may_wait(self, at: int) -> bool:
        """Whether what is decided by a report may be waited for."""
        return self._waits.is_worth_it(at)

    def _await_verdict(self) -> None:
        """Wait for the decision on the last report, so that no unit is trained in vain and no pause is in vain."""
        awaited, self._awaited = self._awaited, 0
        if not awaited:
            return
        with self.stopwatch.during(AWAITING):
            self._timeline.judged = self._waits.wait(self._link, awaited, is_end=self._timeline.is_over(awaited))

    def report_last(self, metrics: Mapping[str, float]) -> None:
        """Report the function's return value, unless it is the last report once more.

        If there is no unit left that it could be the report of, it is kept as ``unreported``.
        """
        if all(name in self._last and is_same(self._last[name], value) for name, value in metrics.items()):
            return
        at = self._default_resource()
        limit = max(self._done, 1) if self.uses_epochs else self.max_resource
        if limit is None or at <= limit:
            self.report(metrics, resource=at)
        else:
            self.unreported = shortened(metrics, self._metric)

    def epochs(
        self,
        *given: Any,
        state: Mapping[str, Any] | None = None,
        save: SaveFunction | None = None,
        load: LoadFunction | None = None,
        update: Update | None = None,
        evaluate: Evaluate | None = None,
        **unknown: Any,
    ) -> Iterator[int]:
        self._require_training("epochs()")
        if given or unknown:
            raise UsageError(answer_on_epochs(given, unknown, state))
        require_functions(self._metric, save=save, load=load, update=update, evaluate=evaluate)
        if self.uses_epochs:
            raise UsageError(
                f"{self.name} called epochs() twice; one loop must do the training from its start to its end."
            )
        self._timeline.require_end(self.name)
        self.uses_epochs = True
        save, load = self.saving(state, save, load)
        if state is not None and update is None:
            update = self._values.unread.update
        self._timeline.saves = save is not None
        check_hooks(self.name, self._timeline, self._load is not None, save, load)
        self._agree()
        self._raise_if_interrupted()
        if self._load is not None and load is not None:
            with self.stopwatch.during(LOADING):
                read(load, self._checkpoint(self._load))
        if not self._timeline.is_evaluation or (evaluate is None and self.may_be_done):
            return self._units(save, update)
        if evaluate is None:
            raise CannotPauseError(
                f"{self.name} is to be evaluated at {self._done}, without training, and epochs() was called without "
                "evaluate=: give it a function that returns the metrics, or write the training as a Trainer."
            )
        return self._evaluation(evaluate)

    def _checkpoint(self, load: Path | Callable[[], Path]) -> Path:
        """Return the checkpoint to start from, once it is here."""
        if isinstance(load, Path):
            return load
        self._load = path = load()
        self._folder.goes_on_from(path)
        return path

    def saving(
        self, state: Mapping[str, Any] | None, save: SaveFunction | None, load: LoadFunction | None
    ) -> tuple[SaveFunction | None, LoadFunction | None]:
        """Return the functions that save and load: those of the user, or those for the objects of ``state``."""
        return hooks_of(self.name, state, save, load, self._untrusted)

    @property
    def stopwatch(self) -> Stopwatch:
        """Measures what its process does."""
        return self._link.stopwatch

    def evaluating(self) -> AbstractContextManager[None]:
        return self.stopwatch.during(EVALUATING)

    def _evaluation(self, evaluate: Evaluate) -> Iterator[int]:
        with self.evaluating():
            metrics = evaluate()
        self.report(metrics, resource=self._done)
        if self._timeline.is_paused_at_end:
            self._pause()
        return iter(())

    def _units(self, save: SaveFunction | None, update: Update | None) -> Iterator[int]:
        known = self.saved_params
        try:
            while self._has_next_unit(save):
                self._present = self._done + 1
                if update is not None:
                    known = self._values.pass_changes(update, known, self._time)
                self._values.begin_unit()
                self.stopwatch.switch(TRAINING)
                yield self._present
                self._require_training("epochs()")
                self._done = self._present
                self._await_verdict()
                self._agree()
                self._raise_if_interrupted()
                self._values.require_read(self.name, self._done)
        finally:
            self._present = None

    def _has_next_unit(self, save: SaveFunction | None) -> bool:
        """Save and pause if due at the current resource, and return whether another unit follows."""
        timeline, done = self._timeline, self._done
        reason = self._save(save) if save is not None and timeline.is_save_due(done) else None
        if not timeline.is_over(done):
            if reason is not None:
                raise TrialStopped(reason)
            return True
        if timeline.is_pause(done):
            self._pause()
        return False

    def _save(self, save: SaveFunction) -> str | None:
        """Save, and return the result of ``_look``."""
        timeline, done = self._timeline, self._done
        index = timeline.index_at(done)
        timeline.saved(done)
        try:
            with self.stopwatch.during(SAVING):
                if (copy := self._copy(save)) is not None:
                    self.unwritten = self._keep(copy, index)
                    return self._look()
                self._write(save, index)
        except Exception as error:
            if timeline.is_save_needed(done):
                raise
            self._link.save_failed(index, done, error)
            return self._look()
        # A cut that arrived during the save makes this checkpoint the last one, and the message must say so.
        reason = self._look()
        self._link.saved(index, done, is_last=timeline.is_over(done))
        return reason

    def _copy(self, save: SaveFunction) -> StateCopy | None:
        """Return a copy of the state where the training ends with it. None if it is to be saved."""
        if self._copies is None or not self._timeline.is_save_needed(self._done):
            return None
        copy = self._copies.copy_of(save, self._link.stop_reason)
        self._look()
        return copy if self._timeline.is_save_needed(self._done) else None  # else it goes on: that was told meanwhile

    def _keep(self, copy: StateCopy, index: int) -> Unwritten:
        """Give a copy its place, with the folder of the trial as it is now."""
        assert self._copies is not None
        path = placed(self._add_folder, self._places(index), lambda: True)
        return self._copies.hold(copy, path, index, self._done)

    def _places(self, index: int) -> Callable[[bool, str], Path]:
        def place(is_needed: bool, refused: str) -> Path:
            return self._link.folder(index, self._done, is_needed=is_needed, failed=refused)

        return place

    def _write(self, save: SaveFunction, index: int) -> None:
        def save_all(path: Path) -> None:
            save(path)
            self._add_folder(path)

        where = f"{self.name} at resource {self._done}"
        write(save_all, self._places(index), lambda: self._timeline.is_save_needed(self._done), where)

    def _add_folder(self, checkpoint: Path) -> None:
        """Add the folder of the trial to a checkpoint."""
        self._folder.copy_beside(checkpoint)

    def _pause(self) -> None:
        self.is_paused = True
        self._raise_if_interrupted()

    def _raise_if_interrupted(self) -> None:
        if self.is_paused:
            raise TrialPaused(f"{self.name} is paused at {self._done}")
        if (reason := self._look()) is not None:
            raise TrialStopped(reason)

    def _look(self) -> str | None:
        """Apply new amendments, and return the reason of a stop request. None if there is none."""
        reason = self._link.stop_reason()
        for amendment in self._link.amendments():
            self._timeline.amend(amendment)
        return reason

    def _agree(self) -> None:
        """Agree with the other ranks of a gang on what to do at the end of a unit; a trial alone has none."""

    @property
    def _time(self) -> int:
        """Beginning of the current unit; between units, of the next one, and after the end, of the last one."""
        if self._present is not None:
            return self._present - 1
        end = self._timeline.end
        return max(0, self._done if end is None else min(self._done, end - 1))

    def _default_resource(self) -> int:
        if self._present is not None:
            return self._present
        return self._done if self._done > self._reported else self._reported + 1
