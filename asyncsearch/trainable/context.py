"""The contract between a trial and the user's function: ``TrialContext``, and what ends a trial from within.

Rule: this module does not know where a trial runs. ``runner.context`` implements the contract in a search,
``runner.standalone`` outside one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from asyncsearch.ablation.left_out import PARAMETER, TrialAblation
from asyncsearch.arguments import as_unicode
from asyncsearch.errors import UsageError
from asyncsearch.other_libraries.trainables import answer_on_trial
from asyncsearch.trainable.gang import TrialGang
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


_REASON_CHARS = 500


class TrialInterrupted(BaseException):
    """Unwinds the user's function from within; ``except Exception`` does not swallow it."""


class TrialStopped(TrialInterrupted):
    """The trial is not worth finishing."""


class StoppedItself(TrialStopped):
    """The trial's own code has stopped it, by ``trial.stop(reason)``."""

    def __init__(self, reason: str, trial: TrialContext | None = None) -> None:
        super().__init__(reason)
        self.trial = trial
        """Whose code it was. None if it was in a child of the trial's process, such as a loader of data."""

    def __reduce__(self) -> tuple[type[StoppedItself], tuple[Any, ...]]:
        return type(self), self.args  # a trial stays in its process


class TrialPaused(TrialInterrupted):
    """The trial is at its target and saved; it may be resumed later, on another worker."""


class ReportError(UsageError):
    """A report is invalid: it has no metrics, has text, or repeats a resource."""


class TrialContext(abc.ABC):
    """A trial as the user's function sees it.

    Pseudocode of a function that can be paused::

        for epoch in trial.epochs(state={"net": net, "opt": opt}):   # 1 + units done, ..., target
            net.fit_one_epoch()
            trial.report(accuracy=net.score())                     # counts for this epoch; raises on a stop
    """

    if not TYPE_CHECKING:  # a type checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            answer = answer_on_trial(name, vars(self).get("_metric", "loss"))
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

    @abc.abstractmethod
    def note(self, key: str, text: object) -> None:
        """Leave a short text beside the metrics: ``trial.note("device", name)``. A later one of a key replaces it.

        ``study.trials[0].notes``, ``trials_dataframe`` and ``explain`` have it. It decides nothing.

        Raises:
            UsageError: the key is no name, or the text has more than 2,000 characters.
        """

    def stop(self, reason: str = "its code stopped it") -> NoReturn:
        """Stop the trial here, by its own rule: ``trial.stop("the loss is not finite")``.

        It counts as stopped early, with the reason and its last report, and is not promoted. A function that returns
        has trained to its end instead. The call unwinds the function; of a gang any worker may make it.

        Raises:
            TrialStopped: always.
        """
        words = as_unicode(" ".join(str(reason).split())[:_REASON_CHARS])
        raise StoppedItself(words or "its code stopped it", self)

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
    def is_judged(self) -> bool:
        """Whether a value at the end of the present unit decides anything: the trial is judged there, pauses or ends.

        Elsewhere a value is for people only, and a costly evaluation may be left out: a value that is not reported is
        absent, and another study that needs it evaluates the checkpoint. Outside a search it is True.
        """
        return True

    @property
    def ablation(self) -> TrialAblation:
        """The parts that an ablation study leaves out of this trial: none in any other study."""
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

    @property
    def gang(self) -> TrialGang | None:
        """The ranks that train the trial together, for the trainer of a framework; None if this worker trains alone."""
        return None

    @abc.abstractmethod
    def process_group(self, backend: str | None = None) -> Any:
        """Return ``torch.distributed``'s default process group of the workers that train the trial together.

        The first call in a trial makes it, and every rank must make that call.

        Args:
            backend: ``"gloo"`` or ``"nccl"``. None means ``nccl`` where each rank has a GPU of its own, else ``gloo``.

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

    def evaluating(self) -> AbstractContextManager[None]:
        """Count the time of a ``with`` block as evaluation in ``study.time_spent()``; trainers do so by themselves."""
        return nullcontext()

    @property
    @abc.abstractmethod
    def resource(self) -> int:
        """Units of training done, from 0."""

    @property
    @abc.abstractmethod
    def max_resource(self) -> int | None:
        """Resource at which the trial is complete. None if it is complete when the function returns."""

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
