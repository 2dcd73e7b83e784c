"""Taking the status of a study from its state."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque

import msgspec

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.engine.latest_metrics import LatestMetrics
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.repeated_failures import failed_as_a_whole
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.transitions import RETURNED_BESIDE
from asyncsearch.ids import TrialId
from asyncsearch.report.live.status import BestSeen, StudyStatus, TrialRow
from asyncsearch.report.together_words import beyond_quota, enlarged, for_later, gangs, packed
from asyncsearch.trial import UNWANTED, Trial, TrialState

_RUNNING_ROWS = 5
_BEST_ROWS = 5
_FAILED_ROWS = 2
MOST_COLUMNS = 3
"""Metrics besides the study's for which a table has columns."""


def status_of(
    state: StudyState,
    *,
    elapsed_s: float | None = None,
    store: str = "",
    scheduler: str = "",
    place: str = "",
    workers: int = 0,
    num_trials: int | None = None,
    is_complete: bool = True,
    unread: str = "",
    could_pack: bool = False,
    driver_died_s: float | None = None,
    ended_by: str = "",
    latest: LatestMetrics | None = None,
    time_line: str = "",
) -> StudyStatus:
    """Return the status of a study, which holds no part of its state. Called in the thread that owns the state.

    Args:
        elapsed_s: seconds since the run began; None means as the journal of a run in progress says. A run that is over
            takes its duration from the journal, as it is shown later.
        store: as shown to people.
        scheduler: in one line.
        place: where its workers are, in words.
        workers: how many the run was given.
        num_trials: the total that the last run requested, if it is over.
        is_complete: whether the last run did everything that was requested.
        unread: what of the journal could not be read, in words.
        could_pack: whether the study might have asked for ``pack=``, and did not.
        time_line: what the workers' time was for, in words.
        latest: the metrics besides the study's; None means those that the state has seen.
        ended_by: why the run has just ended before its end; empty if for no reason worth words.
        driver_died_s: when the last record was written by a driver that no longer lives and has not closed the
            study, seconds since 1970: no run is in progress, whatever the journal says; None if there is none.
    """
    run = state.run if driver_died_s is None else None
    counts: dict[TrialState, int] = {}
    trained = failures = failing = nonfinite = 0
    rank_by = state.config.rank_by
    sign, worst = 1 if state.config.mode == "min" else -1, math.inf
    ranked: list[tuple[float, TrialId]] = []
    running: list[Trial] = []
    failed: deque[Trial] = deque(maxlen=_FAILED_ROWS)
    last_failed: Trial | None = None
    unrecorded, last_unrecorded = 0, ""
    incumbent: Trial | None = None
    seen = 0.0
    for trial in state.trials:
        if trial.reason == UNWANTED:
            continue
        counts[trial.state] = counts.get(trial.state, 0) + 1
        trained += trial.trained
        failures += trial.failures
        failing += trial.failures > 0
        nonfinite += trial.has_nonfinite_value
        if RETURNED_BESIDE in trial.reason:
            unrecorded += 1
            last_unrecorded = f"{trial.name}: {trial.reason.partition('; ')[2]}"
        if trial.best is not None and (incumbent is None or sign * trial.best < sign * seen):
            incumbent, seen = trial, trial.best
        if trial.state is TrialState.FAILED:
            failed.append(trial)
        elif (value := trial.ranked_value(rank_by)) is not None and sign * value <= worst:
            insort(ranked, (sign * value, trial.id))
            del ranked[_BEST_ROWS:]
            worst = ranked[-1][0] if len(ranked) == _BEST_ROWS else math.inf
        if trial.state is TrialState.RUNNING and len(running) < _RUNNING_ROWS:
            running.append(trial)
        if trial.failures and trial.state in (TrialState.FAILED, TrialState.WAITING):
            last_failed = trial
    best = [state.trials[number] for _, number in ranked]
    is_begun = not is_complete or TrialState.WAITING in counts or TrialState.RUNNING in counts
    is_unfinished = run is None and (is_begun or driver_died_s is not None)
    if state.run is not None:
        num_trials = state.run.num_trials
    times = state.times
    had_nothing = times.done_before == state.begun
    latest = latest or state.latest
    others = tuple(latest.names[:MOST_COLUMNS])
    is_idle = run is None and elapsed_s is not None and not is_unfinished and had_nothing
    if elapsed_s is not None and state.run is None and times.last_s is not None and not had_nothing:
        elapsed_s = times.last_s
    whole = failed_as_a_whole(state.trials, None if is_unfinished else state.promoted) if run is None else None
    return StudyStatus(
        name=state.config.study,
        metric=state.config.metric,
        mode=state.config.mode,
        rank_by=rank_by,
        is_best_early=bool(best) and _is_early(state, best[0]),
        scheduler=scheduler,
        counts=counts,
        rows=tuple({t.id: row_of(t, is_unfinished, latest, rank_by) for t in (*running, *best, *failed)}.values()),
        others=others,
        unshown=len(state.metric_names - {state.config.metric, *others}),
        best=_ranked_row(state, row_of(best[0], is_unfinished, latest, rank_by), best[0]) if best else None,
        is_ablation=any(PARAMETER in trial.params for trial in state.trials[:1]),
        repeated=max((trial.resource - _saved(trial) for trial in state.trials if _goes_on(trial)), default=0)
        if is_unfinished
        else 0,
        incumbent=None if incumbent is None else BestSeen(incumbent.name, seen, incumbent.best_resource),
        unread=unread,
        workers_alive=sum(slot.state is not SlotState.LAUNCHING for slot in state.pool.alive()) if run else 0,
        workers_wanted=run.parallelism if run is not None else 0,
        workers_released=len(state.pool.released) if run else 0,
        workers_had=workers if run is None else 0,
        workers_each=1 if state.gang is None else state.gang.size,
        enlarged=enlarged(state),
        gangs=gangs(state),
        place=place,
        is_unfinished=is_unfinished,
        num_trials=num_trials if run is not None or is_unfinished else None,
        driver_died_s=driver_died_s,
        trained=trained,
        full=None if state.max_resource is None else state.max_resource * len(state.trials),
        saving=sum(not state.attempts[number].is_training for number in state.open_attempts.values()),
        nonfinite=nonfinite,
        who_failed="" if whole is None else whole.who,
        unrecorded=unrecorded,
        last_unrecorded=last_unrecorded,
        failures=failures,
        failing=failing,
        last_failure=f"{last_failed.name}: {last_failed.reason}" if last_failed is not None else "",
        stopping=state.stopping,
        elapsed_s=None if is_idle else times.elapsed_s if elapsed_s is None else elapsed_s,
        ended_by=ended_by if run is None and is_unfinished else "",
        is_idle=is_idle,
        ended_s=times.ended_s,
        total_s=times.total_s if times.runs else None,
        runs=times.runs,
        store=store,
        packed=packed(state),
        time_line=time_line,
        could_pack=could_pack,
        beyond_quota=beyond_quota(state),
        kept_for_later="" if state.run is not None or is_unfinished else for_later(state),
    )


def row_of(
    trial: Trial, is_unfinished: bool = False, latest: LatestMetrics | None = None, rank_by: str = "last"
) -> TrialRow:
    """Return a trial as a table shows it, with the value by which trials are ranked.

    ``is_unfinished``: as of a search that no run continues now.
    """
    saved = _saved(trial)
    repeats = is_unfinished and _goes_on(trial) and saved < trial.resource
    row = TrialRow(trial.name, trial.state, trial.resource, trial.target, None, trial.params, trial.reason)
    metrics = trial.metrics if latest is None else latest.of(trial.id)
    value = trial.ranked_value(rank_by)
    is_nonfinite = value is None and trial.has_nonfinite_value
    goes_on_from = saved if repeats else None
    return msgspec.structs.replace(
        row, value=value, metrics=metrics, is_nonfinite=is_nonfinite, goes_on_from=goes_on_from
    )


def _ranked_row(state: StudyState, row: TrialRow, trial: Trial) -> TrialRow:
    """Return the row of the best trial with the resource at which the value that ranks it was reported."""
    return row if state.config.rank_by == "last" else msgspec.structs.replace(row, resource=trial.best_resource)


def _is_early(state: StudyState, trial: Trial) -> bool:
    return trial.state is TrialState.PAUSED and state.max_resource is not None and trial.resource < state.max_resource


def _goes_on(trial: Trial) -> bool:
    return trial.state in (TrialState.RUNNING, TrialState.WAITING)


def _saved(trial: Trial) -> int:
    return 0 if trial.checkpoint is None else trial.checkpoint.resource
