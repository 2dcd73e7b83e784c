"""The trainable, which the user writes: a function of a trial, or a ``Trainer``. All other modules treat them alike.

To the workers it is sent in its pickled form, with the functions of time that its hyper-parameters name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from asyncsearch.errors import UsageError
from asyncsearch.old_pickles import loads
from asyncsearch.other_libraries.trainables import answer_on_model
from asyncsearch.trainable.context import SaveFunction, TrialContext
from asyncsearch.trial import Params


class PackOutcome(NamedTuple):
    """How one call of ``train_pack`` has trained its trainers. A reason names the line to change. Empty if none."""

    refused: str = ""
    """Why they were trained one after another."""
    sequential: str = ""
    """Why some stepped one after another, on batches that all read once, and not as one computation."""


class Trainer:
    """A trainable as a class, with one object for each trial; ``trial`` is set before ``setup``.

    Pseudocode of its use::

        trainer = MyTrainer(); trainer.trial = trial; trainer.setup(trial.saved_params)
        for epoch in trial.epochs(save=trainer.save, load=trainer.load, update=trainer.update, ...):
            trainer.train()
            trial.report(trainer.evaluate())   # each unit, or as ``evaluate_every`` says
    """

    trial: TrialContext
    evaluate_every: int | str = 1
    """After how many units it is evaluated, besides where a value decides anything; ``"judged"``: only there. All
    trials of a pack are evaluated, and report, where any of them is to be."""
    pack_by: Sequence[str] | None = None
    """With ``pack=``: names of the hyper-parameters in which trials must agree to train as one computation. None means
    all whose values are neither floats nor sequences. Name those that decide how the model is built, and ``batch_size``
    where batches of several sizes cannot be padded; a warm-up or a seed need not be named. It decides which trials are
    packed."""

    def setup(self, hp: Params) -> None:
        """Build model, optimizer and data.

        Args:
            hp: all values: those of the first epoch, or, if a checkpoint is loaded next, those with which it was
                trained last.
        """

    def update(self, hp: Params) -> None:
        """Apply changed values and keep the trained state; called before ``train`` and after ``load``.

        Args:
            hp: only the values that have changed.
        """
        raise UsageError(_no_update(type(self), f"{', '.join(hp)} changed"))

    def train(self) -> None:
        """Train one unit of resource."""
        raise NotImplementedError

    @classmethod
    def train_pack(cls, trainers: Sequence[Self]) -> PackOutcome | None:
        """Train one unit of resource of several trainers together; each must end as after its own ``train``.

        Optional: a study with ``pack=`` needs it. The trainers are set up, or loaded, and have at least one unit left.
        Those of one call may leave, so that a later call has fewer. An error that one of them alone is to blame for
        should be raised by its ``evaluate``: one that is raised here counts as a loss of each trial.

        Args:
            trainers: at least two, in the order of their lanes.

        Returns:
            How they were trained, which ``show`` and ``explain`` say. None if all were trained as one.
        """
        raise NotImplementedError

    @classmethod
    def evaluate_pack(cls, trainers: Sequence[Self]) -> Sequence[Mapping[str, Any] | Exception]:
        """Return the current metrics of several trainers, which ``train_pack`` has just trained, in their order.

        Optional. In the place of metrics may be an error, which is that of its trial alone. Where it raises an error,
        each trainer evaluates itself, for the second time if it has done so already.
        """
        return [_evaluated(trainer) for trainer in trainers]

    def evaluate(self) -> Mapping[str, Any]:
        """Return the current metrics; must not change what ``train`` does next."""
        raise NotImplementedError

    def save(self, path: Path) -> None:
        """Write all state at ``path``, as a file or as a folder that this method creates."""
        raise NotImplementedError

    def copied_state(self, may_take: Callable[[int], bool]) -> SaveFunction | None:
        """Copy the state in memory, and return a function that writes the copy as ``save`` writes the state.

        Optional. At the end of a training the copy is written in another thread, while the next trial trains.

        Args:
            may_take: returns whether so many bytes may be copied; it may wait until a copy before is written.

        Returns:
            None: there is no copy, and ``save`` is called.
        """
        return None

    def load(self, path: Path) -> None:
        """Read the state that ``save`` wrote at ``path``; called after ``setup``."""
        raise NotImplementedError

    @classmethod
    def can_pause(cls) -> bool:
        """Whether both ``save`` and ``load`` are implemented."""
        return cls.save is not Trainer.save and cls.load is not Trainer.load

    @classmethod
    def can_pack(cls) -> bool:
        """Whether ``train_pack`` is implemented."""
        return cls.train_pack.__func__ is not Trainer.train_pack.__func__  # type: ignore[attr-defined]

    @classmethod
    def gang_refusal(cls) -> str:
        """Return why several workers cannot train one trial together, and the line to change. Empty if they can."""
        return (
            f"{cls.__name__} trains on one: derive it from TorchTrainer or KerasTrainer, or write a function that uses "
            "trial.rank."
        )

    @classmethod
    def can_update(cls) -> bool:
        """Whether ``update`` is implemented, so that hyper-parameters may be sequences."""
        return cls.update is not Trainer.update


def _evaluated(trainer: Trainer) -> Mapping[str, Any] | Exception:
    try:
        return trainer.evaluate()
    except Exception as error:
        return error


TrainFunction = Callable[[TrialContext], Any]
"""A function of a trial. It may return its last metrics: a mapping, or a number, which counts as the study's metric."""

Trainable = TrainFunction | type[Trainer]


def as_function(trainable: object) -> TrainFunction:
    """Return a trainable as a function of a trial.

    Raises:
        UsageError: it is neither a callable nor a ``Trainer`` class.
    """
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        return _trainer_function(trainable)
    if callable(trainable) and not isinstance(trainable, type):
        return trainable
    raise UsageError(f"{answer_on_model(trainable)}.")


def _trainer_function(trainer_class: type[Trainer]) -> TrainFunction:
    def train(trial: TrialContext) -> None:
        trainer, epochs = begin_trainer(trainer_class, trial)
        for unit in epochs:
            trainer.train()
            if is_evaluated(trainer, unit):
                with trial.evaluating():
                    metrics = trainer.evaluate()
                trial.report(metrics)

    train.__name__ = train.__qualname__ = trainer_class.__name__
    train.trainer_class = trainer_class  # type: ignore[attr-defined]
    return train


def is_evaluated(trainer: Trainer, unit: int) -> bool:
    """Return whether a trainer is evaluated at the end of its present unit, which has this number, from 1."""
    every = trainer.evaluate_every
    return trainer.trial.is_judged or (isinstance(every, int) and unit % every == 0)


def trainer_class_of(function: object) -> type[Trainer] | None:
    """Return the trainer class of which ``as_function`` made a function. None if it made it of none."""
    return getattr(function, "trainer_class", None)


def begin_trainer(trainer_class: type[Trainer], trial: TrialContext) -> tuple[Trainer, Iterator[int]]:
    """Return a trainer that is set up for a trial, and the units that it is to train."""
    if trial.has_sequences and not trainer_class.can_update():
        raise UsageError(_no_update(trainer_class, "a hyper-parameter is a sequence"))
    trainer = trainer_class()
    trainer.trial = trial
    trainer.setup(dict(trial.saved_params))
    hooks: dict[str, Any] = {"save": trainer.save, "load": trainer.load} if trainer_class.can_pause() else {}
    return trainer, trial.epochs(update=trainer.update, evaluate=trainer.evaluate, **hooks)


def _no_update(trainer_class: type[Trainer], why: str) -> str:
    return (
        f"{trainer_class.__name__} has no update() and {why}: write `def update(self, hp):`, which takes over the "
        "changed values that it gets, or search constant values only."
    )


class WithFunctions:
    """A trainable as sent to the workers, with the user's functions of time that its hyper-parameters name.

    Unpickling returns the trainable and registers the functions in that process.
    """

    def __init__(
        self,
        trainable: Trainable | Pickled,
        functions: Mapping[str, Callable[..., Any]],
        versions: Mapping[tuple[str, str], Callable[..., Any]] = MappingProxyType({}),
        objects: Sequence[Any] = (),
    ) -> None:
        """Hold the objects to pickle.

        Args:
            trainable: the trainable.
            functions: name -> function.
            versions: (name, digest of the code) -> function: the same ones, and earlier versions of them.
            objects: of choices, which a process knows once they are unpickled there.
        """
        self.trainable, self.functions, self.versions = trainable, dict(functions), dict(versions)
        self.objects = tuple(objects)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.trainable, self.functions, self.versions, self.objects)


class Pickled:
    """An object in its pickled form, which is unpickled together with the object that holds it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return loads, (self.data,)


def _restored(
    trainable: Trainable,
    functions: dict[str, Callable[..., Any]],
    versions: Mapping[tuple[str, str], Callable[..., Any]] = MappingProxyType({}),
    _objects: Sequence[Any] = (),
) -> Trainable:
    from asyncsearch.sequences.custom_sequences import register, register_versions

    register(functions)
    register_versions(versions)
    return trainable
