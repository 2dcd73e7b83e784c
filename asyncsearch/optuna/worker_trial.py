"""The study and the trial that an objective sees on a worker: Optuna's own classes, which ask the driver."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from optuna.distributions import BaseDistribution, check_distribution_compatibility
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.study.study import _ThreadLocalStudyAttribute
from optuna.trial import FrozenTrial, Trial

from asyncsearch.errors import UsageError
from asyncsearch.optuna.drawn_ahead import Ahead
from asyncsearch.optuna.driver_line import is_on_worker, present_line, refused
from asyncsearch.optuna.messages import require_known


def _remote(name: str) -> Callable[..., Any]:
    def method(_self: BaseStorage, *arguments: Any, **named: Any) -> Any:
        return present_line().ask("storage", name, _bound(name, arguments, named))

    return functools.wraps(getattr(BaseStorage, name))(method)


def _bound(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    bound = inspect.signature(getattr(BaseStorage, name)).bind(None, *arguments, **named)
    bound.apply_defaults()
    return tuple([tuple(one) if isinstance(one, set | frozenset) else one for one in bound.args[1:]])


_KEPT = ("remove_session", "check_trial_is_updatable")
"""What is no question to a storage."""


class WorkerStorage(BaseStorage):  # type: ignore[misc]  # not typed here
    """The study's storage, which only the driver opens."""

    def set_trial_intermediate_value(self, trial_id: int, step: int, intermediate_value: float) -> None:
        line = present_line()
        if self._is_own(trial_id):
            # Where a scheduler judges it, the study knows the step before the scheduler does: by it the trial goes on.
            (line.tell if line.units is None else line.ask)("report", step, intermediate_value)
            line.show(step, intermediate_value)
        else:
            line.ask("storage", "set_trial_intermediate_value", (trial_id, step, intermediate_value))

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        if self._is_own(trial_id):
            present_line().ask("user_attr", key, value)
        else:
            present_line().ask("storage", "set_trial_user_attr", (trial_id, key, value))

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        if self._is_own(trial_id):
            present_line().ask("system_attr", key, value)
        else:
            present_line().ask("storage", "set_trial_system_attr", (trial_id, key, value))

    def _is_own(self, trial_id: int) -> bool:
        trial = present_line().trial
        return trial is not None and trial._trial_id == trial_id


for _name in dir(BaseStorage):
    if not _name.startswith("_") and _name not in (*_KEPT, *vars(WorkerStorage)):
        setattr(WorkerStorage, _name, _remote(_name))
WorkerStorage.__abstractmethods__ = frozenset()


class WorkerStudy(Study):  # type: ignore[misc]  # not typed here
    """A study as an objective sees it: each look asks the driver."""

    def __init__(self, name: str, number: int, directions: list[StudyDirection]) -> None:
        self.study_name, self._study_id, self._directions = name, number, directions
        self._storage = WorkerStorage()
        self._thread_local = _ThreadLocalStudyAttribute()
        self._stop_flag = False

    def stop(self) -> None:
        """See ``optuna.study.Study``."""
        present_line().ask("stop")

    def optimize(self, *arguments: Any, **named: Any) -> NoReturn:
        raise RuntimeError("Nested invocation of `Study.optimize` method isn't allowed.")

    def ask(self, *arguments: Any, **named: Any) -> NoReturn:
        words = "A study makes its trials on the driver: write study.enqueue_trial(params) in an objective."
        raise refused(UsageError(words))

    def __getattr__(self, name: str) -> NoReturn:
        more = ""
        if name in ("sampler", "pruner"):
            more = ", which the driver has: read what the objective needs of it before optimize()"
        raise AttributeError(f"The study of a trial on a worker has no {name!r}{more}.", name=name, obj=self)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerStudy, (self.study_name, self._study_id, self._directions)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Let an error of this project end the search, whatever the objective makes of it."""
    try:
        yield
    except UsageError as error:
        raise refused(error) from None


class WorkerTrial(Trial):  # type: ignore[misc]  # not typed here
    """A trial on a worker."""

    def __init__(self, study: WorkerStudy, frozen: FrozenTrial, ahead: Ahead) -> None:
        """``ahead``: values that were drawn already, for as long as the objective asks for them in their order."""
        self._ahead = ahead.drawn[::-1]
        self.study, self._trial_id, self.storage = study, frozen._trial_id, study._storage
        self._cached_frozen_trial = frozen
        self.relative_search_space: dict[str, BaseDistribution] | None = None
        self._relative_params: dict[str, Any] | None = None
        self._fixed_params = frozen.system_attrs.get("fixed_params", {})
        self._drawn: dict[str, tuple[BaseDistribution, float]] = {}
        """Values that were drawn together with others, in the form in which storages keep them."""

    @property
    def relative_params(self) -> dict[str, Any]:
        return {name: one.to_external_repr(value) for name, (one, value) in self._drawn.items()}

    def report(self, value: float, step: int) -> None:
        """See ``optuna.trial.Trial``. With a scheduler it ends a unit: what is said after it in a loop may be lost."""
        with _refusing():
            self._report(value, step)

    def _report(self, value: float, step: int) -> None:
        units = present_line().units
        is_trained_again = units is not None and step in self._cached_frozen_trial.intermediate_values
        if units is not None and is_trained_again and step not in units.reported:
            units.report(step, float(value))
        else:
            super().report(value, step)

    def checkpoint(self, *, first_step: int = 0, **objects: Any) -> int:
        """Name the objects that training changes, and return the step with which the trial goes on.

        With ``optimize(scheduler=...)`` they are saved where the trial is paused, together with the global generators,
        and restored here when it goes on, on whatever worker. Without a scheduler nothing is saved.

        Args:
            first_step: what is returned where the trial begins.
            objects: as of ``trial.epochs(state=...)`` of asyncsearch: models, optimizers, arrays and so on.

        Raises:
            UsageError: there are no objects, one cannot be saved, or it was called before.
        """
        units = present_line().units
        with _refusing():
            return first_step if units is None else units.begin(first_step, objects)

    def should_prune(self) -> bool:
        if present_line().units is not None:
            return False  # the scheduler judges each report
        if len(self.study.directions) > 1:
            raise NotImplementedError("Trial.should_prune is not supported for multi-objective optimization.")
        verdict: bool = present_line().ask("prune")
        return verdict

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        frozen = self._cached_frozen_trial
        if name in frozen.distributions:
            check_distribution_compatibility(frozen.distributions[name], distribution)
            return frozen.params[name]
        with _refusing():
            require_known(name, distribution)
        known = self._drawn.get(name)
        if known is not None and known[0] == distribution and name not in self._fixed_params:
            internal = known[1]
            present_line().note("suggested", name, distribution)
        elif self._ahead and self._ahead[-1][:2] == (name, distribution):
            internal = self._ahead.pop()[2]
            present_line().note_used()
        else:
            self._ahead = []
            internal, together = present_line().ask("suggest", name, distribution)
            self._drawn.update(together)
        value = distribution.to_external_repr(internal)
        frozen.distributions[name], frozen.params[name] = distribution, value
        return value

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkerTrial:
        return self  # a copy in a callback or a logger is this trial all the same

    def __reduce__(self) -> tuple[Any, ...]:
        return _present, (self._trial_id,)


def _present(trial_id: int) -> WorkerTrial:
    """Return the present trial, of which a pickle was made."""
    trial = present_line().trial if is_on_worker() else None
    if not isinstance(trial, WorkerTrial) or trial._trial_id != trial_id:
        raise UsageError(
            "A trial was pickled and is used in another process, or after its end: send its values instead."
        )
    return trial
