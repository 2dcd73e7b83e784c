"""What the user writes: a function of a trial, or a ``Trainer``. To everything below the two are one thing.

Rule: nothing here knows where a trial runs. ``TrialContext`` is the contract; ``runner.context`` fulfils it in a
search, ``runner.standalone`` outside one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from asyncsearch.errors import UsageError
from asyncsearch.trial import Params

T = TypeVar("T")

SaveFunction = Callable[[Path], None]
"""Writes a checkpoint at the path that it is given: a file there, or a folder that it makes there."""
LoadFunction = Callable[[Path], None]
"""Reads what ``SaveFunction`` wrote at the path that it is given."""
Update = Callable[[Params], None]
"""Takes over the hyper-parameters that have changed, and those only."""
Evaluate = Callable[[], Mapping[str, Any]]
"""Returns the metrics as they are now, and changes nothing."""


class TrialInterrupted(BaseException):
    """Unwinds the user's function from within; ``except Exception`` does not swallow it."""


class TrialStopped(TrialInterrupted):
    """The trial is not worth finishing."""


class TrialPaused(TrialInterrupted):
    """The trial stands at its target and is saved; it may be resumed later, elsewhere."""


class ReportError(UsageError):
    """A report broke the rules: no metrics, text, or a resource that was reported before."""


class TrialContext(abc.ABC):
    """A trial as the user's function sees it.

    Pseudocode of a function that can be paused::

        for epoch in trial.epochs(save=net.save, load=net.load):   # 1 + what is done, ..., target
            net.fit_one_epoch()
            trial.report(accuracy=net.score())                     # counts for this epoch; raises on a stop
    """

    @property
    @abc.abstractmethod
    def params(self) -> Params:
        """The values of the hyper-parameters now: in epoch e those at time e - 1, elsewhere those of the next epoch.

        A dictionary of its own for each epoch, which stays what it is when the next one begins.
        """

    @abc.abstractmethod
    def at(self, fraction: float) -> Params:
        """Return the values inside the present epoch, for what changes from step to step, such as a warm-up.

        Args:
            fraction: share of the epoch that is done, 0 to 1; 0: ``params``.

        Raises:
            UsageError: the fraction is not a number from 0 to 1.
        """

    @property
    @abc.abstractmethod
    def has_sequences(self) -> bool:
        """Whether a hyper-parameter is a sequence, so that ``params`` may change from epoch to epoch."""

    @property
    @abc.abstractmethod
    def saved_params(self) -> Params:
        """The values with which the checkpoint was trained last that ``load`` will get; without one, ``params``.

        Build with them what a checkpoint is loaded into: an optimizer whose class has changed since fits no more.
        """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """``trial-7``; the name of its log."""

    @property
    @abc.abstractmethod
    def seed(self) -> int:
        """Seed of the study, the same for all its trials unless the space says otherwise; 0 <= seed < 2**63."""

    @property
    @abc.abstractmethod
    def resource(self) -> int:
        """Units of training done so far, from 0."""

    @property
    @abc.abstractmethod
    def max_resource(self) -> int | None:
        """Resource at which the trial is complete; None: when the function returns."""

    @property
    @abc.abstractmethod
    def should_stop(self) -> bool:
        """Whether the trial has been told to stop; the next report raises."""

    @abc.abstractmethod
    def epochs(
        self,
        *,
        save: SaveFunction | None = None,
        load: LoadFunction | None = None,
        update: Update | None = None,
        evaluate: Evaluate | None = None,
    ) -> Iterator[int]:
        """Yield the number of each unit of training from where the trial stands to where it should pause.

        ``load`` is called at most once, before the first unit; ``save`` only where the engine wants a checkpoint.
        ``update`` is called before a unit with the values that have changed, since ``saved_params`` at first. Where
        the metrics of a checkpoint are wanted and no training, ``evaluate`` is called instead of a unit.
        At a pause the iterator does not end: it unwinds the function with ``TrialPaused``, so that what stands
        after the loop runs only when the trial is complete.

        Raises:
            CannotPauseError: the trial is to be paused, resumed or evaluated and ``save``, ``load`` or ``evaluate`` is
                missing.
            UsageError: the study has no ``max_resource``, or ``epochs`` was called before.
        """

    @abc.abstractmethod
    def report(self, metrics: Mapping[str, Any] | None = None, /, *, resource: int | None = None, **named: Any) -> None:
        """Report any number of named numbers: Python, numpy, 0-dimensional torch or TensorFlow values.

        Args:
            metrics: a mapping, merged with ``named``.
            resource: units of training done; by default the present one inside ``epochs``, else one more than at
                the last report.

        Raises:
            ReportError: nothing, or not a number, was reported, or not at a higher resource than before.
            TrialStopped: the trial is not worth finishing.
        """

    @abc.abstractmethod
    def once(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, computed once in the life of this process for these arguments.

        For what is costly to load and the same for all trials: data, tokenizers.
        """


class Trainer:
    """A trainable with a life of its own, one object a trial; ``trial`` is set before ``setup``.

    Pseudocode of its life::

        trainer = MyTrainer(); trainer.trial = trial; trainer.setup(trial.saved_params)
        for epoch in trial.epochs(save=trainer.save, load=trainer.load, update=trainer.update, ...):
            trainer.train()
            trial.report(trainer.evaluate())
    """

    trial: TrialContext

    def setup(self, hp: Params) -> None:
        """Build model, optimizer and data.

        Args:
            hp: all values: those of the first epoch, or, where a checkpoint is loaded next, those with which it was
                trained last.
        """

    def update(self, hp: Params) -> None:
        """Take changed values over, without losing what was learned; called before ``train``, after ``load``.

        Args:
            hp: the values that have changed, and those only.
        """
        raise UsageError(_no_update(type(self), f"{', '.join(hp)} changed"))

    def train(self) -> None:
        """Train one unit of resource."""
        raise NotImplementedError

    def evaluate(self) -> Mapping[str, Any]:
        """Return the metrics now; it must not change what ``train`` does next."""
        raise NotImplementedError

    def save(self, path: Path) -> None:
        """Write all state at ``path``, a file or a folder that this method makes."""
        raise NotImplementedError

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote at ``path``; called after ``setup``."""
        raise NotImplementedError

    @classmethod
    def can_pause(cls) -> bool:
        """Whether both ``save`` and ``load`` are written."""
        return cls.save is not Trainer.save and cls.load is not Trainer.load

    @classmethod
    def can_update(cls) -> bool:
        """Whether ``update`` is written, so that hyper-parameters may be sequences."""
        return cls.update is not Trainer.update


TrainFunction = Callable[[TrialContext], Any]
"""A function of a trial. It may return its last metrics: a mapping, or a number, which counts as the study's metric."""

Trainable = TrainFunction | type[Trainer]


def as_function(trainable: object) -> TrainFunction:
    """Return the function of a trial that a trainable is.

    Raises:
        UsageError: it is neither a callable nor a ``Trainer`` class.
    """
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        return _trainer_function(trainable)
    if callable(trainable) and not isinstance(trainable, type):
        return trainable
    raise UsageError(
        f"{trainable!r} is not a trainable: pass a function of a trial, or a class derived from asyncsearch.Trainer "
        "(the class, not an object of it)."
    )


class WithFunctions:
    """A trainable on its way to the workers, with the user's own functions of time that its hyper-parameters name.

    What is unpickled is the trainable; the functions are known in that process from then on.
    """

    def __init__(self, trainable: Trainable, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.trainable, self.functions = trainable, dict(functions)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.trainable, self.functions)


def _restored(trainable: Trainable, functions: dict[str, Callable[..., Any]]) -> Trainable:
    from asyncsearch.sequences import register

    register(functions)
    return trainable


def _trainer_function(trainer_class: type[Trainer]) -> TrainFunction:
    def train(trial: TrialContext) -> None:
        if trial.has_sequences and not trainer_class.can_update():
            raise UsageError(_no_update(trainer_class, "a hyper-parameter is a sequence"))
        trainer = trainer_class()
        trainer.trial = trial
        trainer.setup(dict(trial.saved_params))
        hooks: dict[str, Any] = {"save": trainer.save, "load": trainer.load} if trainer_class.can_pause() else {}
        for _ in trial.epochs(update=trainer.update, evaluate=trainer.evaluate, **hooks):
            trainer.train()
            trial.report(trainer.evaluate())

    train.__name__ = train.__qualname__ = trainer_class.__name__
    return train


def _no_update(trainer_class: type[Trainer], why: str) -> str:
    return (
        f"{trainer_class.__name__} has no update() and {why}: write `def update(self, hp):`, which takes over the "
        "changed values that it gets, or search constant values only."
    )
