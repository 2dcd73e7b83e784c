"""The interface of schedulers, which decide how far each trial trains.

Rule 1: pure. All that it knows it was told as a fact; see ``asyncsearch.listener``.
Rule 2: methods that ask change nothing. What the engine makes of an answer comes back as a fact, so that a replay,
which asks nothing, ends in the same state.

A scheduler has two halves. The user writes a frozen, keyword-only description (``Scheduler``), such as
``ASHA(max_resource=81)``. Its ``begin()`` makes the living half (``SchedulerState``), which one study owns.

Order within a rung is (score, trial id).
"""

from __future__ import annotations

import abc
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import msgspec

from asyncsearch.checked_calls import CheckedCalls
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId
from asyncsearch.listener import StudyListener
from asyncsearch.other_libraries.algorithms import answer_on_scheduler
from asyncsearch.space import Space
from asyncsearch.trial import Params


class Promotion(msgspec.Struct, frozen=True):
    """An answer of ``next_promotion``: this paused trial should train on."""

    trial: TrialId
    from_resource: int
    to_resource: int
    reason: str
    """In words, e.g. "rank 2 of 12 at 3 epochs, 4 go on to 9"."""
    donor: TrialId | None = None
    """The trial whose weights it should go on with, if that one has a durable checkpoint. None if its own."""
    is_donor: bool = False
    """Whether others may go on with the weights that it has now, so that its checkpoint is needed."""


class Offspring(msgspec.Struct, frozen=True):
    """An answer of ``branch``: how a trial goes on with the weights of another one."""

    params: Params
    """The donor's up to the resource of its checkpoint, so that both have the same path up to there."""
    to_resource: int
    reason: str
    """In words, e.g. "exploited trial-3 at resource 20: rank 15 of 16, takes its weights; lr 0.01 -> 0.012"."""


class RungForecast(msgspec.Struct, frozen=True):
    """One line of a preview: how many trials are expected to be trained from one resource to another."""

    from_resource: int
    to_resource: int | None
    trials: int
    bracket: int = 0

    @property
    def units(self) -> int:
        """Units of training of all its trials; 0 where they end by themselves."""
        return 0 if self.to_resource is None else self.trials * (self.to_resource - self.from_resource)


class SchedulerState(StudyListener):
    """The living half of a scheduler: its own methods ask and change nothing, those of a listener state facts."""

    promotes_in_groups = False
    """Whether ``next_promotion`` does not depend on when it is asked. Then trials may be promoted before workers are
    free for them, so that the plan sees where their paths part."""

    begins_all_first = False
    """Whether trials that have not begun come before promotions, so that all that compete have begun."""

    judges = False
    """Whether ``judge`` is overridden: a scheduler that never stops a trial is not asked after each report."""

    closes_brackets = False
    """Whether the brackets of one run take no trials of a later run."""

    compares_saved = False
    """Whether trials are compared once their checkpoints are durable, as donors need where ``branch`` is overridden and
    no promotion says which trial ``is_donor``."""

    watches: str | None = None
    """Name of another metric, by which it judges where the study's own ranks; each report of it is ``watched``. None if
    it judges by the study's own alone."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "branch" in vars(cls) and "compares_saved" not in vars(cls):
            cls.compares_saved = True
        cls.judges = cls.judge is not SchedulerState.judge

    @abc.abstractmethod
    def first_target(self, trial: TrialId) -> int | None:
        """Return the resource up to which a new trial trains first. None if it trains until its function returns."""

    def may_create(self, trial: TrialId) -> bool:
        """Return whether a new trial, which would get this id, may begin now. A full synchronous bracket says no."""
        return True

    def judge(self, trial: TrialId, resource: int) -> str | None:
        """Return why the trial should stop now, or None to let it go on. Asked after each ``reported``."""
        return None

    def watched(self, trial: TrialId, resource: int, value: float | None) -> None:  # most watch nothing
        """A trial reported the metric that it ``watches``, with this value; None if that is not finite.

        A fact, stated before ``judge`` is asked.
        """

    def judged_next(self, trial: TrialId, resource: int) -> int | None:
        """Return the first resource above this one where ``judge`` may stop a trial. None if nobody waits for it.

        A trial that reports there waits for the answer, so that no unit is trained beyond it. Asked for a trial that
        trains, at its beginning and after each such report.
        """
        return None

    @abc.abstractmethod
    def next_promotion(self) -> Promotion | None:
        """Return the next paused trial that should train on; asked until None while a worker is free. O(log n)."""

    def promotion_of(self, trial: TrialId) -> Promotion | None:
        """Return the promotion of a trial that has reported at its target. None if it should not train on now.

        Asked where the one of ``next_promotion`` has to wait for a checkpoint: then it goes on where it is.
        """
        first = self.next_promotion()
        return first if first is not None and first.trial == trial else None

    def may_promote(self, trial: TrialId) -> bool:
        """Return whether a trial at its target may train on later in this run, whatever the others report.

        A trial that may not pauses without a checkpoint, which nobody would load: say True of one that is the best.
        """
        return True

    def losers(self) -> Sequence[TrialId]:
        """Return the trials that wait and will never be promoted, in no run: their brackets have decided it.

        They end as STOPPED, and give up their checkpoints. One that has ended is not named any more.
        """
        return ()

    def closing_promotion(self) -> Promotion | None:
        """Like ``next_promotion``, asked only when nothing runs, nothing will be created and that one says None."""
        return None

    def branch(self, promotion: Promotion, params: Params, resource: int) -> Offspring | None:
        """Return how a trial goes on from the checkpoint of its donor. None if it goes on from its own after all.

        Args:
            promotion: an answer of ``next_promotion`` that names a donor.
            params: the donor's; sequences in their JSON form.
            resource: of the donor's newest durable checkpoint, in units of training done.
        """
        return None

    def position(self, trial: TrialId) -> str:
        """Return a sentence on the trial's rank among others, for ``explain``; empty if there is nothing to say."""
        return ""


class Scheduler(metaclass=CheckedCalls):
    """The frozen description that the user writes."""

    kinds: ClassVar[dict[str, type[Scheduler]]] = {}
    """All classes of schedulers that were defined in this process, by ``kind()``."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Scheduler.kinds[cls.kind()] = cls

    @classmethod
    def kind(cls) -> str:
        """Return the name under which a study's file has the class: short for those of this package."""
        is_ours = cls.__module__.startswith(f"{__package__}.")
        return cls.__name__ if is_ours else f"{cls.__module__}.{cls.__qualname__}"

    @property
    @abc.abstractmethod
    def pauses(self) -> bool:
        """Whether trials are paused and resumed, so that the trainable must be able to save and load."""

    @property
    @abc.abstractmethod
    def max_resource(self) -> int | None:
        """Resource at which a trial is complete. None if that is when its function returns."""

    @property
    def branches(self) -> bool:
        """Whether trials may go on from checkpoints of others with other values, so that their paths are shared."""
        return False

    @abc.abstractmethod
    def begin(self, space: Space | None = None, seed: int = 0) -> SchedulerState:
        """Return a fresh state for one study.

        Args:
            space: of the study; a scheduler that changes parameters needs it.
            seed: of the study, for schedulers that draw.

        Raises:
            SpaceError: the scheduler cannot work on this space.
        """

    def begin_reading(self) -> SchedulerState:
        """Return a fresh state for a study that is only read: it gets all facts, and is asked only for ``position``."""
        return self.begin()

    @abc.abstractmethod
    def describe(self) -> str:
        """Return one line for people, e.g. ``ASHA(max_resource=81, reduction_factor=3)``."""

    @abc.abstractmethod
    def forecast(self, num_trials: int) -> list[RungForecast]:
        """Return how many trials an ideal search of ``num_trials`` trains over which interval."""

    def warnings(self, num_trials: int | None) -> list[str]:
        """Return sentences that a user should know before a search of ``num_trials``.

        Raises:
            ResourceError: the search cannot work at all.
        """
        return []


def require_scheduler(given: object) -> Scheduler:
    """Return a scheduler as it is.

    Raises:
        UsageError: it is none; the message holds the call to write.
    """
    if isinstance(given, Scheduler):
        return given
    raise UsageError(answer_on_scheduler(given))


def options_of(scheduler: Scheduler) -> dict[str, Any] | None:
    """Return the kind and the options of a scheduler as JSON values. None if it cannot be made again from them."""
    kind: Any = type(scheduler)
    if not is_dataclass(kind):
        return None
    given = {field.name: getattr(scheduler, field.name) for field in fields(kind)}
    try:
        options: dict[str, Any] = json.loads(json.dumps({"kind": scheduler.kind(), **given}, allow_nan=False))
    except (TypeError, ValueError):
        return None
    return options if from_options(options) == scheduler else None


def from_options(options: dict[str, Any] | None) -> Scheduler | None:
    """Return the scheduler that ``options_of`` described. None if there is none, or its class is not known here."""
    kind = Scheduler.kinds.get((options or {}).get("kind", ""))
    if options is None or kind is None:
        return None
    given: dict[str, Any] = {name: value for name, value in options.items() if name != "kind"}
    try:
        return kind(**given)
    except (TypeError, ValueError, UsageError):
        return None
