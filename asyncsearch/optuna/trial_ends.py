"""The ends of trials, by ``optimize`` of Optuna's rules, and the end of the run: when no further trial begins.

A trial says its end itself, is stopped by a scheduler of asyncsearch, or is lost with its worker. After each the
callbacks are called, one at a time.
"""

from __future__ import annotations

import copy
import gc
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import optuna
from optuna import progress_bar
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.study._optimize import _log_failed_trial
from optuna.study._tell import _tell_with_warning
from optuna.trial import FrozenTrial, Trial, TrialState

from asyncsearch.ids import TrialId
from asyncsearch.optuna.drawn_ahead import DrawnAhead
from asyncsearch.optuna.returned import ObjectiveEnd, error_of

ALL_BEGUN = "all trials have begun"
_STOPPED = "the study was stopped"
TrialCallback = Callable[[Any, FrozenTrial], None]
_logger = optuna.logging.get_logger("optuna.study._optimize")


class OptimizeOptions(NamedTuple):
    """The arguments of ``optimize`` that the driver obeys."""

    n_trials: int | None
    timeout_s: float | None
    catch: tuple[type[Exception], ...]
    callbacks: Sequence[TrialCallback]
    gc_after_trial: bool
    show_progress_bar: bool
    retries_lost: bool


class OpenTrial(NamedTuple):
    """A trial that runs on a worker."""

    trial: Trial
    asyncsearch_trial: TrialId
    ends: ExitStack
    """Ends its heartbeat."""

    @classmethod
    def begun(cls, study: Any, asked: Trial, trial: TrialId) -> OpenTrial:
        """Return a trial of a study that begins; its heartbeat does, too."""
        ends = ExitStack()
        ends.enter_context(get_heartbeat_thread(asked._trial_id, study._storage))
        return cls(asked, trial, ends)


class TrialEnds:
    """Ends the trials of one ``optimize``."""

    def __init__(self, study: Any, options: OptimizeOptions, ahead: DrawnAhead) -> None:
        """Begin; ``ahead``: the values drawn for trials that run."""
        self.error: BaseException | None = None
        """What ``optimize`` raises: the exception of a trial that nothing catches, or of a callback."""
        self.over = ""
        """Why no further trial begins, as far as it was looked at. Empty while some may."""
        self._study, self._options, self._ahead = study, options, ahead
        self._is_exhausted = False
        """Whether the sampler has stopped the study, as that of a grid does at its end."""
        self._retries = 0
        """How many lost trials are enqueued once more and have not begun."""
        self._since_s: float | None = None
        """When the first trial began, by which the timeout counts: workers take their time to start."""
        self._bar = progress_bar._ProgressBar(options.show_progress_bar, options.n_trials, options.timeout_s)

    def note_begin(self) -> None:
        """Note that a trial is about to begin."""
        if self._since_s is None:
            self._since_s = time.monotonic()

    def note_begun(self, trial: Trial) -> None:
        """Note that a trial has begun, which may be a lost one's other try."""
        self._retries -= self._retries > 0 and "retry_history" in trial._cached_frozen_trial.system_attrs

    def enough(self) -> str:
        """Look whether a further trial may begin; return why not, else an empty text."""
        timeout_s = self._options.timeout_s
        # To a sampler that counts its points a lost one has had its try.
        awaits_retry = self._is_exhausted and self._retries > 0
        if not self.over and self._study._stop_flag and not awaits_retry:
            self.over = _STOPPED
        elif not self.over and timeout_s is not None and self._elapsed_s >= timeout_s:
            self.over = f"the timeout of {timeout_s:g} s has passed"
        return self.over

    def break_off(self, error: BaseException, reason: str) -> None:
        """Let no further trial begin, and ``optimize`` raise an error; the first one counts."""
        self.error = self.error or error
        self.over = self.over or reason

    def close(self) -> None:
        """End what is shown."""
        self._bar.close()

    def tell(self, opened: OpenTrial, ended: ObjectiveEnd) -> FrozenTrial:
        """End a trial as ``optimize`` of Optuna does, and call the callbacks."""
        study, trial = self._study, opened.trial
        error = error_of(ended, self._options.catch)
        state = None if ended.state is None else TrialState[ended.state]
        was_stopped = study._stop_flag
        try:
            _, _, warning = _tell_with_warning(
                study=study, trial=trial, value_or_values=ended.value_or_values, state=state, suppress_warning=True
            )
        finally:
            opened.ends.close()
            self._ahead.asked(trial)
            self._is_exhausted |= study._stop_flag and not was_stopped
        frozen: FrozenTrial = study._storage.get_trial(trial._trial_id)
        _log(study, frozen, error, ended, warning)
        if frozen.state is TrialState.FAIL and error is not None and not isinstance(error, self._options.catch):
            self.break_off(error, f"trial {frozen.number} has raised {type(error).__name__}")
        else:
            self._call_back(frozen)
        return frozen

    def prune(self, opened: OpenTrial, reason: str) -> None:
        """End a trial that its scheduler has stopped, or that stays paused, with its last report as its value."""
        study = self._study
        self._close(opened)
        try:
            _tell_with_warning(study=study, trial=opened.trial, state=TrialState.PRUNED, suppress_warning=True)
        except (ValueError, optuna.exceptions.UpdateFinishedTrialError):
            return  # another process that uses the storage was first
        frozen = study._storage.get_trial(opened.trial._trial_id)
        _logger.info(f"Trial {frozen.number} pruned. {reason}")  # noqa: G004  # as Optuna's own lines
        self._call_back(frozen)

    def lose(self, opened: OpenTrial, reason: str, *, is_retried: bool = True) -> bool:
        """Let a trial fail whose worker is gone; the storage's own callback may enqueue it once more.

        Returns:
            Whether another one is to take its place.
        """
        study = self._study
        self._close(opened)
        number = opened.trial._trial_id
        try:
            study._storage.set_trial_state_values(number, state=TrialState.FAIL)
        except optuna.exceptions.UpdateFinishedTrialError:
            return False  # another process that uses the storage was first
        frozen = study._storage.get_trial(number)
        _logger.warning(f"Trial {frozen.number} failed: {reason}")  # noqa: G004  # as Optuna's own lines
        if not is_retried:
            return False
        retry = _callback_of(study._storage)
        if retry is None and self._options.retries_lost:
            retry = _retry()
        if retry is None:
            return False
        retry(study, copy.deepcopy(frozen))
        if self._options.retries_lost:
            self._retries += 1
            if self.over == ALL_BEGUN or (self.over == _STOPPED and self._is_exhausted):
                self.over = ""
        return self._options.retries_lost

    def _call_back(self, frozen: FrozenTrial) -> None:
        """Call the callbacks; an exception of one leaves ``optimize``."""
        try:
            for callback in self._options.callbacks:
                callback(self._study, copy.deepcopy(frozen))
        except BaseException as error:
            self.break_off(error, f"a callback has raised {type(error).__name__}")
        if self._options.gc_after_trial:
            gc.collect()
        self._bar.update(self._elapsed_s, self._study)

    def _close(self, opened: OpenTrial) -> None:
        """Give a trial that has not said its end the values that it has got, and end its heartbeat."""
        opened.ends.close()
        for name, distribution, internal in self._ahead.given(opened.trial):
            self._study._storage.set_trial_param(opened.trial._trial_id, name, internal, distribution)

    @property
    def _elapsed_s(self) -> float:
        return 0.0 if self._since_s is None else time.monotonic() - self._since_s


def _callback_of(storage: Any) -> TrialCallback | None:
    """Return the callback of a storage for a trial that is lost, under the name that its version has for it."""
    for name in ("get_heartbeat_stale_trial_callback", "get_failed_trial_callback"):
        if hasattr(storage, name):
            found: TrialCallback | None = getattr(storage, name)()
            return found
    return None


def _retry() -> TrialCallback:
    """Return Optuna's own callback that enqueues a failed trial again, under the name that its version has for it."""
    newer = getattr(optuna.storages, "RetryHeartbeatStaleTrialCallback", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        made: TrialCallback = newer() if newer is not None else optuna.storages.RetryFailedTrialCallback()
    return made


def _log(
    study: Any, frozen: FrozenTrial, error: BaseException | None, ended: ObjectiveEnd, warning: str | None
) -> None:
    """Write the line that Optuna writes."""
    if frozen.state is TrialState.COMPLETE:
        study._log_completed_trial(frozen.values, frozen.number, frozen.params)
    elif frozen.state is TrialState.PRUNED:
        _logger.info(f"Trial {frozen.number} pruned. {error}")  # noqa: G004
    else:
        message = repr(error) if error is not None else str(warning)
        shown = None if error is None else (type(error), error, error.__traceback__)
        _log_failed_trial(frozen.number, frozen.params, message, exc_info=shown, value_or_values=ended.shown)
