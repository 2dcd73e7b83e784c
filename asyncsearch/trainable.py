"""What the user writes: a function of a trial, or a ``Trainer``. To everything below the two are one thing.

Rule: nothing here knows where a trial runs. ``TrialContext`` is the contract; ``worker.context`` fulfils it in a
search, ``worker.standalone`` outside one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from asyncsearch.errors import UsageError
from asyncsearch.trial import Params

T = TypeVar("T")

Save = Callable[[Path], None]
"""Writes a checkpoint at the path that it is given: a file there, or a folder that it makes there."""
Load = Callable[[Path], None]
"""Reads what ``Save`` wrote at the path that it is given."""


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
        """The hyper-parameters at the present resource."""

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
    def epochs(self, *, save: Save | None = None, load: Load | None = None) -> Iterator[int]:
        """Yield the number of each unit of training from where the trial stands to where it should pause.

        ``load`` is called at most once, before the first unit; ``save`` only where the engine wants a checkpoint.
        At a pause the iterator does not end: it unwinds the function with ``TrialPaused``, so that what stands
        after the loop runs only when the trial is complete.

        Raises:
            CannotPauseError: the trial is to be paused or resumed and ``save`` or ``load`` is missing.
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

        trainer = MyTrainer(); trainer.trial = trial; trainer.setup(trial.params)
        for epoch in trial.epochs(save=trainer.save, load=trainer.load):
            trainer.train()
            trial.report(trainer.evaluate())
    """

    trial: TrialContext

    def setup(self, hp: Params) -> None:
        """Build model, optimizer and data from the hyper-parameters."""

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


Function = Callable[[TrialContext], Any]
"""A function of a trial. It may return its last metrics: a mapping, or a number, which counts as the study's metric."""

Trainable = Function | type[Trainer]


def as_function(trainable: object) -> Function:
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


def _trainer_function(trainer_class: type[Trainer]) -> Function:
    def train(trial: TrialContext) -> None:
        trainer = trainer_class()
        trainer.trial = trial
        trainer.setup(trial.params)
        hooks: dict[str, Any] = {"save": trainer.save, "load": trainer.load} if trainer_class.can_pause() else {}
        for _ in trial.epochs(**hooks):
            trainer.train()
            trial.report(trainer.evaluate())

    train.__name__ = train.__qualname__ = trainer_class.__name__
    return train
