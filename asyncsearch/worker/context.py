"""The trial as the user's function sees it, in a search and outside one.

Rule: all that concerns resources, reports, pausing and saving is decided here; a ``Link`` says where it goes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.ids import trial_name
from asyncsearch.trainable import Load, ReportError, Save, TrialContext, TrialPaused, TrialStopped
from asyncsearch.trial import Params
from asyncsearch.work import Stage
from asyncsearch.worker.metrics import as_metrics
from asyncsearch.worker.once import once

T = TypeVar("T")

_HOW_TO_PAUSE = (
    "write the training as `for epoch in trial.epochs(save=..., load=...):`, or use a scheduler that does not pause"
)

_RESOURCES_END = 2**53
"""Resources are below it, as the contract in ``rpc/`` says."""


class Link(Protocol):
    """What a context needs from the world around it."""

    def report(self, resource: int, metrics: dict[str, float]) -> None:
        """Pass a report on."""
        ...

    def stop_reason(self) -> str | None:
        """Return why the trial was told to stop; None: it was not."""
        ...

    def folder(self, stage: int, resource: int) -> Path:
        """Return the path at which a checkpoint is to be written; nothing is there yet.

        Raises:
            StoreError: there is no place for it.
        """
        ...

    def saved(self, stage: int, resource: int) -> None:
        """Take the checkpoint that was written."""
        ...


class SearchContext(TrialContext):
    """A trial that trains a batch of stages, one after the other, without reloading between them."""

    def __init__(self, stages: Sequence[Stage], link: Link, load: Path | None = None, name: str | None = None) -> None:
        first = stages[0]
        self.has_reported = False
        """Whether anything was reported in this attempt."""
        self.is_paused = False
        """Whether the trial stands at its target, saved if that was wanted."""
        self.uses_epochs = False
        """Whether the function called ``epochs``."""
        self._stages = tuple(stages)
        self._index = 0
        self._link = link
        self._load = load
        self._name = name if name is not None else trial_name(first.trials[0])
        self._done = self._reported = first.start
        self._present: int | None = None

    @property
    def params(self) -> Params:
        return self._stage.params

    @property
    def name(self) -> str:
        return self._name

    @property
    def seed(self) -> int:
        return self._stage.seed

    @property
    def resource(self) -> int:
        return self._done

    @property
    def max_resource(self) -> int | None:
        return self._stage.max_resource

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier attempt trained a part of it."""
        return self._stages[0].start > 0

    @property
    def should_stop(self) -> bool:
        return self._link.stop_reason() is not None

    def once(self, function: Callable[..., T], *args: Any) -> T:
        return once(function, *args)

    def report(self, metrics: Mapping[str, Any] | None = None, /, *, resource: int | None = None, **named: Any) -> None:
        self._raise_if_interrupted()
        values = as_metrics(metrics, named)
        at = self._default_resource() if resource is None else _as_resource(resource)
        self._check_resource(at)
        self._link.report(at, values)
        self.has_reported = True
        self._reported = at
        self._done = max(self._done, at)

    def report_last(self, metrics: Mapping[str, float]) -> bool:
        """Report what the function returned, unless the present resource has its report already.

        Returns:
            Whether it was reported.
        """
        at = self._default_resource()
        limit = max(self._done, 1) if self.uses_epochs else self.max_resource
        if limit is not None and at > limit:
            return False
        self.report(metrics, resource=at)
        return True

    def epochs(self, *, save: Save | None = None, load: Load | None = None) -> Iterator[int]:
        if self.uses_epochs:
            raise UsageError(
                f"{self.name} called epochs() twice; one loop owns the training from its start to its end."
            )
        if self._end_of(self._stages[-1]) is None:
            raise UsageError(
                f"{self.name} called epochs() and the study does not say how many there are: set max_resource (of the "
                "scheduler, or of StandaloneTrial), or write a loop of your own."
            )
        self.uses_epochs = True
        self._check_hooks(save, load)
        self._raise_if_interrupted()
        if self._load is not None and load is not None:
            load(self._load)
        return self._units(save)

    def _units(self, save: Save | None) -> Iterator[int]:
        try:
            while self._has_next_unit(save):
                self._present = self._done + 1
                yield self._present
                self._done = self._present
                self._raise_if_interrupted()
        finally:
            self._present = None

    def _has_next_unit(self, save: Save | None) -> bool:
        """Do all that is due at the present resource: save, pass on to the next stage, pause."""
        while True:
            stage, end = self._stage, self._end_of(self._stage)
            is_at_end = end is not None and self._done >= end
            if save is not None and self._is_save_due(stage, is_at_end):
                self._save(save)
            if not is_at_end:
                return True
            if self._index + 1 == len(self._stages):
                break
            self._index += 1
        if self._pauses:
            self.is_paused = True
            self._raise_if_interrupted()
        return False

    def _is_save_due(self, stage: Stage, is_at_end: bool) -> bool:
        if is_at_end and stage.save:
            return True
        return stage.save_every is not None and self._done > stage.start and self._done % stage.save_every == 0

    def _save(self, save: Save) -> None:
        path = self._link.folder(self._index, self._done)
        save(path)
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            raise UsageError(
                f"save wrote nothing for {self.name} at resource {self._done}: it must write a file at the path that "
                f"it is given ({path}), or make a folder there and write into it."
            )
        self._link.saved(self._index, self._done)

    def _raise_if_interrupted(self) -> None:
        if self.is_paused:
            raise TrialPaused(f"{self.name} is paused at {self._done}")
        reason = self._link.stop_reason()
        if reason is not None:
            raise TrialStopped(reason)

    def _default_resource(self) -> int:
        if self._present is not None:
            return self._present
        return self._done if self._done > self._reported else self._reported + 1

    def _check_resource(self, at: int) -> None:
        if self._load is not None and not self.uses_epochs:
            raise CannotPauseError(
                f"{self.name} is to go on from its checkpoint at {self._stages[0].start} and begins anew: "
                f"{_HOW_TO_PAUSE}."
            )
        if at <= self._reported:
            raise ReportError(
                f"{self.name} reported at resource {at}, and {self._reported} was reported before: report once for "
                "each unit of training, all metrics together, at a higher resource each time."
            )
        if self._present is not None and at > self._present:
            raise ReportError(
                f"{self.name} reported at resource {at} inside epoch {self._present}: leave resource= away, epochs() "
                "counts."
            )
        if self._present is None:
            self._pass_boundaries(at)

    def _pass_boundaries(self, at: int) -> None:
        """Follow a function that counts by itself; it runs through where it should have been paused or saved."""
        while (end := self._end_of(self._stage)) is not None and at > end:
            is_last = self._index + 1 == len(self._stages)
            if is_last and not self._pauses:
                raise ReportError(
                    f"{self.name} reported at resource {at}, beyond max_resource {end}: end the training at "
                    "trial.max_resource, or write it as `for epoch in trial.epochs():`."
                )
            if is_last or self._stage.save:
                raise CannotPauseError(
                    f"{self.name} was to be paused at {end} and trained on to {at}: {_HOW_TO_PAUSE}."
                )
            self._index += 1

    def _check_hooks(self, save: Save | None, load: Load | None) -> None:
        if self._load is not None and load is None:
            raise CannotPauseError(
                f"{self.name} is to go on from its checkpoint at {self._done} and epochs() was called without load=: "
                f"{_HOW_TO_PAUSE}."
            )
        last = self._stages[-1]
        pause = any(stage.save for stage in self._stages[:-1]) or (self._pauses and last.save)
        if pause and (save is None or load is None):
            missing = "save= and load=" if save is None and load is None else "save=" if save is None else "load="
            raise CannotPauseError(
                f"{self.name} is to be paused at {last.stop} and epochs() was called without {missing}: "
                f"{_HOW_TO_PAUSE}."
            )

    @property
    def _stage(self) -> Stage:
        return self._stages[self._index]

    @property
    def _pauses(self) -> bool:
        """Whether the end of the last stage is a pause, not the end of the trial."""
        last = self._stages[-1]
        return last.stop is not None and (last.max_resource is None or last.stop < last.max_resource)

    @staticmethod
    def _end_of(stage: Stage) -> int | None:
        return stage.stop if stage.stop is not None else stage.max_resource


def _as_resource(value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        resource = operator.index(value)
    except TypeError:
        raise ReportError(f"resource={value!r} is not a whole number: it counts units of training, from 1.") from None
    if not 1 <= resource < _RESOURCES_END:
        raise ReportError(f"resource={resource} is out of range: it counts units of training done, 1 to 2**53 - 1.")
    return resource
