"""Decides that a study or a trial has trained enough, as its stop rules say. Pure.

What a rule ends is not thrown away: where training can be saved it ends at a unit with a checkpoint, so that the value
that was reached has its weights. The decision is written with its reason; a replay asks no rule.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from asyncsearch.actions import AnyAction, CutWork, MoveTrial, StopRun, StopTraining
from asyncsearch.arguments import as_unicode
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.stop_rules import RunningBest, StopProgress, StopRule
from asyncsearch.trial import Trial, TrialState, is_end

BY_RULE = "its stop_when holds: "
"""How the reason of a run begins that a rule has ended."""


def study_progress(state: StudyState, now: float) -> StopProgress:
    """Return the progress of the study at a time."""
    assert state.stop_facts is not None, "a study with rules keeps their facts"
    curve, times = state.stop_facts.study, state.times
    running_s = 0.0 if times.began_s is None else now - times.began_s
    return _progress(state, curve, curve.units, (times.total_s or 0.0) + running_s)


def trial_progress(state: StudyState, trial: Trial, now: float) -> StopProgress:
    """Return the progress of a trial at a time."""
    assert state.stop_facts is not None, "a study with rules keeps their facts"
    curve = state.stop_facts.trials.get(trial.id) or RunningBest()
    attempt = state.open_attempt_of(trial.id)
    is_open = attempt is not None and attempt.end is None
    number, since_s = (attempt.number, attempt.since_s) if attempt is not None and is_open else (None, 0.0)
    return _progress(state, curve, trial.resource, curve.seconds_at(number, since_s, now))


def _progress(state: StudyState, curve: RunningBest, units: int, seconds: float) -> StopProgress:
    best = curve.improvements[-1].value if curve.improvements else None
    return StopProgress(
        metric=state.config.metric,
        mode=state.config.mode,
        value=curve.value,
        best=best,
        reports=curve.reports,
        trials=curve.trials,
        units=units,
        seconds=seconds,
        improvements=curve.improvements,
    )


class RuleAnswer(msgspec.Struct, frozen=True):
    """The answer of a rule."""

    reason: str = ""
    """Why enough is trained. Empty if it is not."""
    error: str = ""
    """What the user's function raised, in words. Empty if it did not."""


def ask(rule: StopRule, argument: str, progress: StopProgress) -> RuleAnswer:
    """Ask a rule; a function of the user's that raises is answered in words, and ends the run in order."""
    try:
        return RuleAnswer(as_unicode(rule.reason(progress)))
    except Exception as error:  # of the user's own
        words = as_unicode(f"{argument}={rule.describe()} raised {type(error).__name__}: {error}")
        return RuleAnswer(error=f"{words} (asked after {progress.reports:,} reports, with best={progress.best})")


def study_answer(state: StudyState, now: float) -> RuleAnswer:
    """Return the answer of ``stop_when`` on the study at a time; nothing if there is none."""
    rule = state.config.stop_when
    return RuleAnswer() if rule is None else ask(rule, "stop_when", study_progress(state, now))


def trial_answer(state: StudyState, trial: Trial) -> RuleAnswer:
    """Return the answer of ``stop_trial_when`` on an unfinished trial now; nothing if there is none."""
    rule = state.config.stop_trial_when
    if rule is None or trial.state.is_finished:
        return RuleAnswer()
    return ask(rule, "stop_trial_when", trial_progress(state, trial, state.times.seen_s))


def end_study_by_rule(state: StudyState, now: float, emit: Callable[[AnyAction], None]) -> None:
    """End the run in progress if ``stop_when`` holds; trainings that can be saved end after their unit."""
    if state.config.stop_when is None or state.run is None or state.stopping:
        return
    answer = study_answer(state, now)
    if answer.error:
        emit(StopRun(answer.error, "UsageError"))
    elif answer.reason:
        emit(StopRun(BY_RULE + answer.reason))
    else:
        return
    for attempt in list(state.attempts.values()):
        if not _end_saved(state, attempt, emit):
            emit(StopTraining(attempt.lease, state.stopping, attempt.lane))


def end_trial_by_rule(state: StudyState, trial: Trial, emit: Callable[[AnyAction], None]) -> bool:
    """Stop a trial for which ``stop_trial_when`` holds; return whether it is stopped now.

    One that trains alone and can be saved is stopped once its checkpoint is durable, by ``stopped_by_rule``.
    """
    if trial.state.is_finished:
        return False
    answer = trial_answer(state, trial)
    if answer.error and not state.stopping:
        emit(StopRun(answer.error, "UsageError"))
    if not answer.reason:
        return False
    attempt = state.open_attempt_of(trial.id)
    if attempt is not None and is_end(attempt.stop, state.max_resource) and trial.resource >= attempt.stop:
        return False  # it is at its end
    if attempt is not None and attempt.trials == [trial.id] and _end_saved(state, attempt, emit):
        return False
    emit(MoveTrial(trial.id, TrialState.STOPPED, answer.reason))
    return True


def stopped_by_rule(state: StudyState, trial: Trial, to: TrialState, emit: Callable[[AnyAction], None]) -> bool:
    """Stop a trial that would wait or pause, if ``stop_trial_when`` holds; return whether it is stopped."""
    if state.config.stop_trial_when is None or to not in (TrialState.WAITING, TrialState.PAUSED):
        return False
    answer = trial_answer(state, trial)
    if answer.reason:
        emit(MoveTrial(trial.id, TrialState.STOPPED, answer.reason))
    return bool(answer.reason)


def _end_saved(state: StudyState, attempt: Attempt, emit: Callable[[AnyAction], None]) -> bool:
    """Let a training end at its present unit with a checkpoint; return whether it will."""
    if not attempt.is_training or attempt.is_stop_sent:
        return True
    if not state.config.can_save or attempt.is_evaluation:
        return False
    if attempt.cut is None or attempt.cut > attempt.resource + 1:
        start = attempt.batch.stages[0].start
        emit(CutWork(attempt.lease, min(attempt.stop, max(attempt.resource, start + 1)), attempt.lane))
    return True


def due_s(state: StudyState, now: float) -> float | None:
    """Return when time alone may let a rule hold, in seconds of the driver's clock. None if it never does."""
    if state.run is None or state.stopping:
        return None
    found = []
    of_study, of_trials = state.config.stop_when, state.config.stop_trial_when
    if of_study is not None:
        progress = study_progress(state, now)
        found.append((of_study.due_s(progress), progress.seconds))
    for number in state.open_attempts if of_trials is not None else ():
        progress = trial_progress(state, state.trials[number], now)
        found.append((of_trials.due_s(progress) if of_trials is not None else None, progress.seconds))
    return min((now + due - seconds for due, seconds in found if due is not None), default=None)
