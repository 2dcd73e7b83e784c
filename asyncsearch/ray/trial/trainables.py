"""Trainables of Ray Tune: functions of a configuration, classes with ``step``, and what wraps them."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.files.plain import read_text
from asyncsearch.ray.trial.checkpoints import NAMED_FILE, DirCheckpoint, unpickled
from asyncsearch.ray.trial.messages import ExploitingTrial
from asyncsearch.ray.trial.present_trial import current
from asyncsearch.ray.trial.session import RETURNED, TrialSession

_OLD_NAMES = {
    "setup": "_setup",
    "step": "_train",
    "save_checkpoint": "_save",
    "load_checkpoint": "_restore",
    "cleanup": "_stop",
    "log_result": "_log_result",
}


class StepTrainable:
    """A trainable as a class, with one object for each trial; in programs it is ``tune.Trainable``."""

    def __init__(self, config: Mapping[str, Any] | None = None, **_options: Any) -> None:
        self.config: Any = {} if config is None else config
        self._iteration = 0
        session = current()
        self._logdir = os.getcwd() if session is None else str(session.context.dir)
        call_hook(self, "setup", self.config)

    def setup(self, config: dict[str, Any]) -> None:
        """Build what the steps need."""

    def step(self) -> dict[str, Any]:
        """Train one iteration, and return its metrics."""
        raise NotImplementedError(f"{type(self).__name__} has no step(): write `def step(self): return {{...}}`.")

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        """Write the state into a folder, and return nothing, the folder, or a dictionary with the state."""
        raise NotImplementedError(f"{type(self).__name__} has no save_checkpoint().")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Read a checkpoint of ``save_checkpoint``: the folder, or the dictionary."""
        raise NotImplementedError(f"{type(self).__name__} has no load_checkpoint().")

    def cleanup(self) -> None:
        """End what ``setup`` has begun."""

    def log_result(self, result: dict[str, Any]) -> None:
        """Log what a step has returned, with its number, wherever the class itself wants it."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another configuration; return whether that was done."""
        return False

    def train(self) -> dict[str, Any]:
        """Train one iteration by hand, and return its metrics with their number."""
        result = dict(call_hook(self, "step") or {})
        self._iteration += 1
        numbered = {"training_iteration": self._iteration, **result}
        call_hook(self, "log_result", numbered)
        return numbered

    def save(self, checkpoint_dir: str | None = None) -> DirCheckpoint:
        """Return a checkpoint of the present state."""
        return saved(self, checkpoint_dir)

    def restore(self, checkpoint: Any) -> None:
        """Read a checkpoint, or the folder of one."""
        restored(self, checkpoint if isinstance(checkpoint, DirCheckpoint) else DirCheckpoint(checkpoint))

    def stop(self) -> None:
        """End it, as the search does after the last step."""
        call_hook(self, "cleanup")

    @property
    def iteration(self) -> int:
        """How many steps were trained."""
        return self._iteration

    training_iteration = iteration

    @property
    def trial_id(self) -> str:
        """The id of its trial."""
        session = current()
        return "default" if session is None else session.context.name

    trial_name = trial_id

    @property
    def logdir(self) -> str:
        """The folder of its trial on this machine."""
        return self._logdir

    @property
    def trial_resources(self) -> Any:
        """The resources that the program has asked for."""
        session = current()
        return None if session is None else session.settings.resources

    def get_config(self) -> Any:
        """Return the configuration."""
        return self.config

    @classmethod
    def default_resource_request(cls, config: Mapping[str, Any]) -> Any:
        """Return the resources of a trial. None means those of ``with_resources``."""
        return None


def call_hook(trainable: StepTrainable, name: str, *arguments: Any) -> Any:
    """Call a method, by its name of today or the former one, whichever the class has."""
    old = _OLD_NAMES[name]
    is_old = hasattr(type(trainable), old) and getattr(type(trainable), name) is getattr(StepTrainable, name)
    return getattr(trainable, old if is_old else name)(*arguments)


_STATE = "state.pkl"


def saved(trainable: StepTrainable, folder: str | None = None) -> DirCheckpoint:
    """Return a checkpoint of a trainable."""
    import cloudpickle

    found = DirCheckpoint.temporary() if folder is None else DirCheckpoint(folder)
    made = found.path
    os.makedirs(made, exist_ok=True)
    state = call_hook(trainable, "save_checkpoint", made)
    if isinstance(state, Mapping):
        (Path(made) / _STATE).write_bytes(cloudpickle.dumps(dict(state)))
    elif state is not None and Path(made) not in (Path(state), *Path(state).parents):
        raise UsageError(
            f"{type(trainable).__name__}.save_checkpoint returned {state!r}: let it write into the folder that it is"
            " given and return that, or return a dictionary with the state."
        )
    elif isinstance(state, str) and Path(state) != Path(made):
        (Path(made) / NAMED_FILE).write_text(os.path.relpath(state, made))
    return found


def restored(trainable: StepTrainable, checkpoint: DirCheckpoint) -> None:
    """Let a trainable read a checkpoint, in the form in which its class has written it."""
    with checkpoint.as_directory() as folder:
        state, path = Path(folder) / _STATE, Path(folder) / NAMED_FILE
        if state.exists():
            call_hook(trainable, "load_checkpoint", unpickled(state))
        else:
            call_hook(trainable, "load_checkpoint", str(Path(folder) / read_text(path)) if path.exists() else folder)


def run_class(kind: type[StepTrainable], config: Any, session: TrialSession) -> None:
    """Train the steps of a class until the trial ends."""
    trainable = kind(config)
    goes_on = is_last_saved = False
    try:
        if session.loaded is not None:
            trainable._iteration = session.training_iteration
            restored(trainable, session.loaded)
        every = session.settings.checkpoint_frequency
        while True:
            result = call_hook(trainable, "step")
            if not isinstance(result, Mapping):
                raise UsageError(f"{kind.__name__}.step returned {result!r}: let it return a dictionary of metrics.")
            trainable._iteration += 1
            is_due = bool(every and trainable._iteration % every == 0) or bool(result.get("should_checkpoint"))
            is_due = session.is_comparison_due(result) or is_due
            is_last_saved = is_due
            call_hook(trainable, "log_result", {"training_iteration": trainable._iteration, **result})
            session.report(result, saved(trainable) if is_due else None)
    except ExploitingTrial:
        goes_on = True
        raise
    finally:
        try:
            if session.settings.checkpoint_at_end and session.iteration and not (is_last_saved or goes_on):
                session.keep_last(saved(trainable))
        finally:
            trainable.stop()


def run_function(function: Callable[..., Any], config: Any, session: TrialSession) -> None:
    """Call a function with a configuration, and take what it returns, or yields, as reports."""
    returned = _called(function, config, session)
    if inspect.isgenerator(returned):
        for one in returned:
            session.report(one if isinstance(one, Mapping) else {RETURNED: one})
        return
    if isinstance(returned, Mapping):
        if returned or not session.iteration:
            session.report(returned)
    elif isinstance(returned, int | float) and not isinstance(returned, bool):
        session.report({RETURNED: returned})
    elif hasattr(returned, "item"):
        session.report({RETURNED: returned.item()})


def _called(function: Callable[..., Any], config: Any, session: TrialSession) -> Any:
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function(config)
    if "reporter" in names:
        return function(config, session_reporter)
    if "checkpoint_dir" not in names:
        return function(config)
    if session.loaded is None:
        return function(config, checkpoint_dir=None)
    with session.loaded.as_directory() as folder:
        return function(config, checkpoint_dir=folder)


def session_reporter(**metrics: Any) -> None:
    """Report, as the second argument of the oldest functions does."""
    session = current()
    if session is not None:
        session.report(metrics)


class checkpoint_dir:  # noqa: N801  # Ray's name
    """Provide a folder for a checkpoint of the next report: ``with tune.checkpoint_dir(step) as folder``."""

    def __init__(self, step: int | None = None) -> None:
        self._made = DirCheckpoint.temporary()

    def __enter__(self) -> str:
        return self._made.path

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        session = current()
        if kind is None and session is not None:
            session.pending = self._made


def with_parameters(trainable: Any, **objects: Any) -> Any:
    """Return a trainable that gets these objects beside its configuration; they go to each worker once.

    Raises:
        UsageError: it takes no argument of such a name.
    """
    if isinstance(trainable, type):
        made = type(trainable.__name__, (trainable,), {"_asyncsearch_objects": objects, "setup": _setup_with_objects})
        made.__module__, made.__qualname__ = trainable.__module__, trainable.__qualname__
        return made
    names = inspect.signature(trainable).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in names.values())
    unknown = [name for name in objects if name not in names and not takes_any]
    if unknown:
        raise UsageError(
            f"with_parameters({', '.join(f'{name}=...' for name in unknown)}): {trainable.__name__} takes "
            f"{', '.join(names)}."
        )
    return functools.wraps(trainable)(functools.partial(trainable, **objects))


def _setup_with_objects(self: StepTrainable, config: dict[str, Any]) -> None:
    super(type(self), self).setup(config, **type(self)._asyncsearch_objects)  # type: ignore[attr-defined, misc]


class WithResources:
    """A trainable with the resources of its trials."""

    def __init__(self, trainable: Any, resources: Any) -> None:
        self.trainable, self.resources = trainable, resources


def with_resources(trainable: Any, resources: Any) -> WithResources:
    """Return a trainable with the resources that each of its trials needs: ``{"cpu": 2, "gpu": 1}``."""
    return WithResources(trainable, resources)


def unwrapped(trainable: Any) -> tuple[Any, Any]:
    """Return a trainable and the resources of its trials."""
    resources = None
    while isinstance(trainable, WithResources):
        resources = resources or trainable.resources
        trainable = trainable.trainable
    return trainable, resources


def require_trainable(trainable: Any) -> None:
    """Refuse what can be no trainable.

    Raises:
        UsageError: says what to write.
    """
    if isinstance(trainable, type):
        if not issubclass(trainable, StepTrainable):
            raise UsageError(f"{trainable.__name__} is a class that is not derived from tune.Trainable: derive it.")
        return
    if not callable(trainable):
        raise UsageError(
            f"{trainable!r} is no trainable: give a function of a configuration, or a tune.Trainable class."
        )
    if inspect.iscoroutinefunction(trainable):
        raise UsageError(f"{trainable.__name__} is asynchronous, and nobody would await it: write a plain function.")
    _require_config(trainable)


def _require_config(trainable: Callable[..., Any]) -> None:
    """Refuse a function that cannot be called as ``_called`` calls it: each trial would fail."""
    try:
        names = inspect.signature(trainable).parameters
        taken = inspect.signature(trainable, follow_wrapped=False)  # without what ``with_parameters`` gives
    except (TypeError, ValueError):
        return
    given: tuple[Any, ...] = ({}, session_reporter) if "reporter" in names else ({},)
    try:
        taken.bind(*given, **({"checkpoint_dir": None} if "checkpoint_dir" in names else {}))
    except TypeError as error:
        name = getattr(trainable, "__name__", type(trainable).__name__)
        raise UsageError(
            f"{name}{taken} cannot be called with a configuration alone ({error}): write def train(config), and give "
            f"it other objects by tune.with_parameters(train, name=value)."
        ) from None
