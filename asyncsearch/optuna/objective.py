"""The worker's half: an objective with a real ``optuna.Trial`` whose values, storage and study are the driver's.

What a trial draws, reports and sets goes to the driver over the worker's stream (``answering``). One trial at a time
runs in a process, so a study that the objective has from its closure asks on behalf of the present one.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from optuna.distributions import BaseDistribution, check_distribution_compatibility
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.study.study import _ThreadLocalStudyAttribute
from optuna.trial import FrozenTrial, Trial, TrialState

from asyncsearch.errors import UsageError
from asyncsearch.optuna.drawn_ahead import Ahead, AskedOrder
from asyncsearch.optuna.messages import ValueCodec
from asyncsearch.optuna.returned import ObjectiveEnd, end_by_error, end_by_value
from asyncsearch.optuna.units import METRIC, ReportedUnits
from asyncsearch.programs.changes import Watch, here
from asyncsearch.programs.raised import travels
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import UNWANTED


class UnwantedError(Exception):
    """A trial came to a study that has all it wants, or to a run that no ``optimize`` uses."""


class NotBegunError(Exception):
    """A trial came to a worker after its study had ended."""


class NoValueError(Exception):
    """An objective returned what is no value, so that its trial has failed."""


class DriverLine:
    """The way to the driver, of the trial that runs in this process."""

    def __init__(self, context: Any, codec: ValueCodec) -> None:
        self._context, self._codec = context, codec
        self.trial: WorkerTrial | None = None
        self.units: ReportedUnits | None = None
        """None: no scheduler judges the reports."""
        self._resource = 0
        self._noted: list[Any] = []

    def ask(self, kind: str, *arguments: Any) -> Any:
        """Ask the driver, and return its answer.

        Raises:
            Exception: what the study, its sampler or its pruner raised there.
            NotBegunError: the study has ended.
            UnwantedError: it has all the trials that it wants.
        """
        state, value = self._codec.loads(self._context.ask(self._content(kind, arguments)))
        if state == "unwanted":
            raise UnwantedError
        if state == "over":
            raise NotBegunError(f"its study had ended: {value}")
        if state == "error":
            raise value
        return value

    def tell(self, kind: str, *arguments: Any) -> None:
        """Tell the driver, without waiting."""
        self._context.ask(self._content(kind, arguments), is_awaited=False)

    def note(self, kind: str, *arguments: Any) -> None:
        """Tell the driver what it can foresee, together with what it is asked or told next."""
        self._noted.append([kind, *arguments])

    def note_used(self) -> None:
        """Note that the trial has taken the next of the values that came when it began."""
        if self._noted and self._noted[-1][0] == "used":
            self._noted[-1][1] += 1
        else:
            self.note("used", 1)

    def _content(self, kind: str, arguments: tuple[Any, ...]) -> bytes:
        noted, self._noted = self._noted, []
        return self._codec.dumps(["several", *noted, [kind, *arguments]] if noted else [kind, *arguments])

    def show(self, step: int, value: float) -> None:
        """Let the report be judged, or appear in live tables and logs where its step is higher than all before."""
        if self.units is not None:
            self.units.report(step, value)
        elif step + 1 > self._resource:
            self._resource = step + 1
            self._context.report({METRIC: value}, resource=step + 1)


sent_study: contextvars.ContextVar[Study | None] = contextvars.ContextVar("sent_study", default=None)
"""The study whose objective is being pickled for the workers: it asks the driver there."""
_lines: list[DriverLine] = []
"""That of the present trial; empty between trials."""


class _Orders:
    """What this process knows of the order in which trials ask."""

    last = AskedOrder()


_orders = _Orders()


def _line() -> DriverLine:
    if not _lines:
        raise UsageError(
            "No trial runs here now, so nobody asks the driver for the study: use it inside the objective."
        )
    return _lines[-1]


def is_on_worker() -> bool:
    """Return whether an objective runs in this process, so that a study that it makes is Optuna's own affair."""
    return bool(_lines)


def _remote(name: str) -> Callable[..., Any]:
    def method(_self: BaseStorage, *arguments: Any, **named: Any) -> Any:
        return _line().ask("storage", name, _bound(name, arguments, named))

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
        line = _line()
        if self._is_own(trial_id):
            # Where a scheduler judges it, the study knows the step before the scheduler does: by it the trial goes on.
            (line.tell if line.units is None else line.ask)("report", step, intermediate_value)
            line.show(step, intermediate_value)
        else:
            line.ask("storage", "set_trial_intermediate_value", (trial_id, step, intermediate_value))

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        if self._is_own(trial_id):
            _line().ask("user_attr", key, value)
        else:
            _line().ask("storage", "set_trial_user_attr", (trial_id, key, value))

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        if self._is_own(trial_id):
            _line().ask("system_attr", key, value)
        else:
            _line().ask("storage", "set_trial_system_attr", (trial_id, key, value))

    def _is_own(self, trial_id: int) -> bool:
        trial = _line().trial
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
        _line().ask("stop")

    def optimize(self, *arguments: Any, **named: Any) -> NoReturn:
        raise RuntimeError("Nested invocation of `Study.optimize` method isn't allowed.")

    def ask(self, *arguments: Any, **named: Any) -> NoReturn:
        raise UsageError("A study makes its trials on the driver: write study.enqueue_trial(params) in an objective.")

    def __getattr__(self, name: str) -> NoReturn:
        more = ", which the driver has" if name in ("sampler", "pruner") else ""
        raise AttributeError(f"The study of a trial on a worker has no {name!r}{more}.", name=name, obj=self)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerStudy, (self.study_name, self._study_id, self._directions)


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
        units = _line().units
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
        units = _line().units
        return first_step if units is None else units.begin(first_step, objects)

    def should_prune(self) -> bool:
        if _line().units is not None:
            return False  # the scheduler judges each report
        if len(self.study.directions) > 1:
            raise NotImplementedError("Trial.should_prune is not supported for multi-objective optimization.")
        verdict: bool = _line().ask("prune")
        return verdict

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        frozen = self._cached_frozen_trial
        if name in frozen.distributions:
            check_distribution_compatibility(frozen.distributions[name], distribution)
            return frozen.params[name]
        known = self._drawn.get(name)
        if known is not None and known[0] == distribution and name not in self._fixed_params:
            internal = known[1]
            _line().note("suggested", name, distribution)
        elif self._ahead and self._ahead[-1][:2] == (name, distribution):
            internal = self._ahead.pop()[2]
            _line().note_used()
        else:
            self._ahead = []
            internal, together = _line().ask("suggest", name, distribution)
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
    trial = _lines[-1].trial if _lines else None
    if trial is None or trial._trial_id != trial_id:
        raise UsageError(
            "A trial was pickled and is used in another process, or after its end: send its values instead."
        )
    return trial


class Objective:
    """A program's objective as a function of asyncsearch's trial."""

    def __init__(self, function: Callable[[Trial], Any], study: Any, pauses: bool | None = None) -> None:
        """Begin.

        Args:
            function: the program's own.
            study: is a ``WorkerStudy`` once it is unpickled.
            pauses: whether a scheduler judges the reports, and pauses trials; None: none judges them.
        """
        self.function, self._study, self._pauses = function, study, pauses
        self._home = here()
        self._is_watched = True
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, trial: TrialContext) -> Any:
        line = DriverLine(trial, ValueCodec())
        try:
            frozen, number, names, internals = line.ask("begin", _orders.last.number)
        except UnwantedError:
            trial.stop(UNWANTED)
        if names is not None:
            _orders.last = AskedOrder(number, tuple(names))
        line.trial = WorkerTrial(self._study, frozen, Ahead(_orders.last, internals))
        if self._pauses is not None:
            line.units = ReportedUnits(trial, [*frozen.intermediate_values], must_pause=self._pauses)
        _lines.append(line)
        watch, self._is_watched = Watch(self.function, self._home) if self._is_watched else None, False
        try:
            ended = self._run(line.trial)
            if watch is not None and (names := watch.changed()):
                line.tell("changed", names)
        finally:
            _lines.remove(line)
        return self._end(trial, line, ended)

    def _run(self, trial: WorkerTrial) -> ObjectiveEnd:
        try:
            return end_by_value(self.function(trial))
        except Exception as error:
            frames = error.__traceback__ and error.__traceback__.tb_next
            text = "".join(traceback.format_exception(type(error), error, frames))
            return end_by_error(error, text)

    def _end(self, context: TrialContext, line: DriverLine, ended: ObjectiveEnd) -> Any:
        """Tell the study, and end asyncsearch's trial in the same way: nothing is left to wait for."""
        line.tell("tell", *(ended if travels(ended.error) else ended._replace(error=None)))
        state = ended.state_in(self._study)
        if state is TrialState.FAIL:
            raise ended.error or NoValueError(f"the objective returned {ended.shown}, which is no value of this study")
        if state is TrialState.PRUNED:
            words = str(ended.error or "")
            context.stop(f"pruned: {words}" if words else "pruned")
        if ended.numbers is None:
            trial = line.trial
            assert trial is not None
            last = trial._cached_frozen_trial.intermediate_values
            return {METRIC: last[max(last)] if last else float("nan")}
        names = [METRIC, *[f"{METRIC}_{number}" for number in range(1, len(ended.numbers))]]
        return dict(zip(names, ended.numbers, strict=True))
