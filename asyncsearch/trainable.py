"""The trainable, which the user writes: a function of a trial, or a ``Trainer``. All other modules treat them alike.

Rule: this module does not know where a trial runs. ``TrialContext`` is the contract; ``runner.context`` implements it
in a search, ``runner.standalone`` outside one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, TypeVar

from asyncsearch.ablation.left_out import PARAMETER, TrialAblation
from asyncsearch.arguments import metric_in_call
from asyncsearch.errors import UsageError
from asyncsearch.old_pickles import loads
from asyncsearch.trial import Params

T = TypeVar("T")

SaveFunction = Callable[[Path], None]
"""Writes a checkpoint at the given path, as a file or as a folder that it creates."""
LoadFunction = Callable[[Path], None]
"""Reads the checkpoint that ``SaveFunction`` wrote at the given path."""
Update = Callable[[Params], None]
"""Applies the hyper-parameters that have changed, and only these."""
Evaluate = Callable[[], Mapping[str, Any]]
"""Returns the current metrics and changes nothing."""


class TrialInterrupted(BaseException):
    """Unwinds the user's function from within; ``except Exception`` does not swallow it."""


class TrialStopped(TrialInterrupted):
    """The trial is not worth finishing."""


class TrialPaused(TrialInterrupted):
    """The trial is at its target and saved; it may be resumed later, on another worker."""


class ReportError(UsageError):
    """A report is invalid: it has no metrics, has text, or repeats a resource."""


_ANSWERS = {
    **dict.fromkeys(
        ("config", "hparams", "hyperparameters", "hyperparams", "parameters", "parameter", "param", "hp", "get"),
        "write trial.params['lr'].",
    ),
    **dict.fromkeys(("log", "log_metrics", "add_metric"), "write trial.report({metric})."),
    **dict.fromkeys(
        ("set_user_attr", "user_attrs", "set_system_attr"),
        "write trial.report({metric}) for a number, and anything else into a file in trial.dir.",
    ),
    **dict.fromkeys(("number", "trial_id", "id"), "write trial.name."),
    **dict.fromkeys(("max_epochs", "num_epochs", "budget"), "write trial.max_resource."),
    **dict.fromkeys(("logdir", "log_dir", "folder", "path", "artifacts", "tensorboard_dir"), "write trial.dir."),
    "should_prune": "leave it out, trial.report(...) ends a trial that is not worth finishing.",
    **dict.fromkeys(
        ("checkpoint", "save_checkpoint", "get_checkpoint", "load_checkpoint", "save", "load", "restore"),
        'write `for epoch in trial.epochs(state={"net": net, "opt": opt}):`, which saves and restores.',
    ),
    **dict.fromkeys(
        ("epoch", "step", "iteration", "range", "training_iteration"), "write `for epoch in trial.epochs():`."
    ),
    **dict.fromkeys(("prune", "stop"), "leave it out, trial.report(...) ends a trial that is not worth finishing."),
    **dict.fromkeys(("print", "info", "logger", "write"), "write print(...), whose output is in the trial's log."),
    **dict.fromkeys(("value", "values", "metrics", "result"), "write trial.report({metric}) to say it."),
}
"""Attribute that trials of other libraries have -> what to write."""
_DOMAINS = {"int": "randint(1, 4)", "categorical": "choice('a', 'b')", "loguniform": "loguniform(1e-4, 1e-1)"}


def answer_to(attribute: str, metric: str = "loss") -> str:
    """Return what to write instead of an attribute that trials of other libraries have; empty: it is not known.

    ``metric`` is the study's own.
    """
    if attribute.startswith("suggest_"):
        domain = _DOMAINS.get(attribute.removeprefix("suggest_"), "uniform(0.0, 1.0)")
        return (
            f"values are proposed before a trial: write Study(..., space={{'x': {domain}}}) and read trial.params['x']."
        )
    return _ANSWERS.get(attribute, "").replace("{metric}", metric_in_call(metric))


class TrialContext(abc.ABC):
    """A trial as the user's function sees it.

    Pseudocode of a function that can be paused::

        for epoch in trial.epochs(state={"net": net, "opt": opt}):   # 1 + units done, ..., target
            net.fit_one_epoch()
            trial.report(accuracy=net.score())                     # counts for this epoch; raises on a stop
    """

    if not TYPE_CHECKING:  # a type checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            answer = answer_to(name, vars(self).get("_metric", "loss"))
            # The parameters are no attributes, and an object half made has none yet.
            if not answer and not name.startswith("_") and name != "params" and name in self.params:
                answer = f"write trial.params[{name!r}]."
            raise AttributeError(f"A trial has no {name!r}" + (f": {answer}" if answer else "."), name=name, obj=self)

        def __getitem__(self, name: str) -> NoReturn:
            raise UsageError(f"A trial is not a mapping of parameters: write trial.params[{name!r}].")

    @property
    @abc.abstractmethod
    def params(self) -> Params:
        """The current values of the hyper-parameters: in epoch e those at time e - 1, else those of the next epoch.

        Each epoch has its own dictionary, which does not change when the next epoch begins.
        """

    @abc.abstractmethod
    def at(self, fraction: float) -> Params:
        """Return the values inside the current epoch, for values that change from step to step, such as a warm-up.

        Args:
            fraction: the share of the epoch that is done, from 0 to 1; 0: ``params``.

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
        """The last values used to train the checkpoint that ``load`` will get; without a checkpoint, ``params``.

        Use them to build the objects that load the checkpoint: an optimizer whose class has changed would not fit it.
        """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """``trial-7``; the name of its log.

        Training that several trials share is done once, under the name of the first of them, and with its params: the
        trials have the same values up to there.
        """

    @property
    @abc.abstractmethod
    def seed(self) -> int:
        """The parameter ``seed``, if the trial has one that is an integer, else the study's; 0 <= seed < 2**63."""

    @property
    @abc.abstractmethod
    def dir(self) -> Path:
        """A folder of the trial's own on this machine, for event files, plots and tables.

        It is made when it is first asked for. What is in it goes into each checkpoint, and to the study's store when
        the training ends, however it ends; a trial that goes on finds what was in it at its checkpoint. Training that
        several trials share has one folder, which each of them reads. ``Checkpoints(dir_bytes=)`` says how much it may
        hold. Links, pipes and sockets in it are not stored.
        """

    @property
    def ablation(self) -> TrialAblation:
        """What an ablation study leaves out of this trial: nothing in any other study."""
        found: TrialAblation | None = self.__dict__.get("_ablation")
        if found is None:
            found = self.__dict__["_ablation"] = TrialAblation(self.saved_params.get(PARAMETER))
        return found

    @property
    def rank(self) -> int:
        """Number of this worker among those that train the trial together, from 0; rank 0 reports and saves."""
        return 0

    @property
    def world_size(self) -> int:
        """Number of workers that train the trial together."""
        return 1

    @abc.abstractmethod
    def process_group(self, backend: str | None = None) -> Any:
        """Return ``torch.distributed``'s default process group of the workers that train the trial together.

        The first call in a trial makes it, and every rank must make that call.

        Args:
            backend: ``"gloo"`` or ``"nccl"``; None: ``nccl`` where each rank has a GPU of its own, else ``gloo``.

        Raises:
            UsageError: there is no such backend here.
        """

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        """Tell how much the workers of the trial tell each other in a unit, or would if there were more of them.

        With ``autoscale=`` a function tells it once, so that sizes of gangs can be reckoned before they are measured.
        ``TorchTrainer`` and ``KerasTrainer`` do so by themselves.

        Args:
            steps: how often gradients are averaged in a unit, from 0.
            gradient_bytes: bytes of the gradients of one step, from 0.
        """

    @property
    @abc.abstractmethod
    def resource(self) -> int:
        """Units of training done, from 0."""

    @property
    @abc.abstractmethod
    def max_resource(self) -> int | None:
        """Resource at which the trial is complete; None: it is complete when the function returns."""

    @property
    @abc.abstractmethod
    def should_stop(self) -> bool:
        """Whether the trial has been told to stop, so that the next report raises, or has ended.

        Raises:
            UsageError: this process was forked from that of the trial, which alone is told.
        """

    @abc.abstractmethod
    def epochs(
        self,
        *,
        state: Mapping[str, Any] | None = None,
        save: SaveFunction | None = None,
        load: LoadFunction | None = None,
        update: Update | None = None,
        evaluate: Evaluate | None = None,
    ) -> Iterator[int]:
        """Yield the number of each unit of training from the trial's current resource to its target.

        ``state`` names the objects that training changes; they are saved and restored in place, and with them the
        global generators. ``save`` and ``load`` do that by functions of your own.
        ``load`` is called at most once, before the first unit; ``save`` only where the engine requests a checkpoint.
        ``update`` is called before a unit with the values that have changed, the first time since ``saved_params``.
        ``evaluate`` is called instead of a unit when only the metrics of a checkpoint are requested.
        At a pause the iterator does not end: it unwinds the function with ``TrialPaused``, so that the code after
        the loop runs only when the trial is complete.

        Raises:
            CannotPauseError: the trial is to be paused, resumed or evaluated, and ``state`` (or ``save`` and ``load``)
                or ``evaluate`` is missing.
            UsageError: the study has no ``max_resource``, ``epochs`` was called before, or an object of ``state``
                cannot be saved, or is not like the saved one.
        """

    @abc.abstractmethod
    def report(self, metrics: Mapping[str, Any] | None = None, /, *, resource: int | None = None, **named: Any) -> None:
        """Report one or more named numbers: Python, numpy, 0-dimensional torch or TensorFlow values.

        Args:
            metrics: a mapping, merged with ``named``.
            resource: units of training done; by default the current unit inside ``epochs``, else one more than at
                the last report.

        Raises:
            ReportError: there are no metrics, one is not a number, or the resource is not higher than before.
            TrialStopped: the trial is not worth finishing.
            UsageError: the trial has ended, or this process was forked from that of the trial.
        """

    @abc.abstractmethod
    def once(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, computed by the first of several equal calls in the life of this process.

        Use it for objects that are costly to load and the same for all trials, such as data and tokenizers. Calls are
        equal if the function, its arguments and defaults, what it captures, and the globals, helpers and attributes
        that it reads are equal: a method may read ``self.path``, and what a global has become since counts. An object
        without comparable content, such as a connection, is equal to itself alone, which is said when another comes.
        """


class PackOutcome(NamedTuple):
    """How one call of ``train_pack`` has trained its trainers. Each reason names the line to change; empty: none."""

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
            trial.report(trainer.evaluate())
    """

    trial: TrialContext
    pack_by: Sequence[str] | None = None
    """With ``pack=``: names of the hyper-parameters in which trials must agree to train as one computation. None: all
    whose values are neither floats nor sequences. Name those that decide how the model is built, and ``batch_size``
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
            How they were trained, which ``show`` and ``explain`` say; None: all as one.
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
        """Return why several workers cannot train one trial together, and the line to change; empty: they can."""
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
    raise UsageError(f"{_answer_to_model(trainable)}.")


def _answer_to_model(given: object) -> str:
    """Return what to write instead of a model, or of nothing, where a trainable is taken."""
    kind = given if isinstance(given, type) else type(given)
    bases = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in kind.__mro__}
    name = kind.__name__
    make = f"{name}(**trial.params)"
    if given is None:
        return (
            "None is not a trainable: pass a function of a trial, as in Study(train, ...). Study(train(...), ...) "
            "passes what it returns"
        )
    if not bases.isdisjoint({"lightning.LightningModule", "pytorch_lightning.LightningModule"}):
        return (
            f"{name} is a model, not a trainable: write `def train(trial):` with model = {make}, and fit it there, "
            "L.Trainer(...).fit(model, data)"
        )
    if "torch.Module" in bases or "keras.Model" in bases or "keras.Layer" in bases:
        return (
            f"{name} is a model, not a trainable: write `def train(trial):`, and in it net = {make}, its training, and "
            "trial.report(...) after each epoch; or derive a TorchTrainer or a KerasTrainer that builds it"
        )
    if hasattr(kind, "fit"):
        return (
            f"{name} is an estimator, not a trainable: write `def train(trial): return "
            f"cross_val_score({make}, x, y).mean()`"
        )
    return (
        f"{given!r} is not a trainable: pass a function of a trial, or a class derived from asyncsearch.Trainer (the "
        "class, not an object of it)"
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
    ) -> None:
        """Hold what is to be pickled.

        Args:
            trainable: the trainable.
            functions: name -> function.
            versions: (name, digest of the code) -> function: the same ones, and earlier versions of them.
        """
        self.trainable, self.functions, self.versions = trainable, dict(functions), dict(versions)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.trainable, self.functions, self.versions)


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
) -> Trainable:
    from asyncsearch.sequences.custom_sequences import register, register_versions

    register(functions)
    register_versions(versions)
    return trainable


def _trainer_function(trainer_class: type[Trainer]) -> TrainFunction:
    def train(trial: TrialContext) -> None:
        trainer, epochs = begin_trainer(trainer_class, trial)
        for _ in epochs:
            trainer.train()
            trial.report(trainer.evaluate())

    train.__name__ = train.__qualname__ = trainer_class.__name__
    train.trainer_class = trainer_class  # type: ignore[attr-defined]
    return train


def trainer_class_of(function: object) -> type[Trainer] | None:
    """Return the trainer class of which ``as_function`` made a function; None: it made none of a class."""
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
