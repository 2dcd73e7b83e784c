"""Gives work to free workers, notifies training workers of changes, and ends the run. Pure.

Every function reads the state and emits actions; ``emit`` applies each at once, so the next read sees its effect.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from asyncsearch.actions import Assign, CutWork, DeleteCheckpoint, DismissWorker, EndRun, SaveAt
from asyncsearch.engine.affected import kept_for_later
from asyncsearch.engine.lanes import lane_for
from asyncsearch.engine.next_trials import (
    Asked,
    create,
    end_repeats,
    look_ahead,
    may_create,
    more,
    promote,
    promote_next,
)
from asyncsearch.engine.repeated_failures import failed_as_a_whole
from asyncsearch.engine.sizing.gangs import is_waiting_in_vain, members, next_size, size_for
from asyncsearch.engine.sizing.packs import is_open, pack, to_measure
from asyncsearch.engine.sizing.share import excess, give_back
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit, stop_run, stop_training
from asyncsearch.engine.transitions import NEVER, UNSAVED
from asyncsearch.errors import InternalError
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.plan.base_plan import Batch
from asyncsearch.sizing.autoscale import Sized
from asyncsearch.sizing.packing import Packing
from asyncsearch.trial import TrialState
from asyncsearch.work import Work


def adjust(state: StudyState, emit: Emit) -> None:
    """Tell workers of changes to their work: all of it or its tail is no longer needed, or a new split lies in it."""
    while state.touched:
        number, reason = state.touched.popitem()
        attempt = state.attempts.get(number)
        if attempt is None or not attempt.is_training:
            continue
        wanted = state.plan.wanted_stop(number)
        if not wanted:
            # One that goes on elsewhere from here needs the checkpoint that is being saved.
            is_saving = bool(attempt.trials) and attempt.resource >= attempt.stop
            if not attempt.is_all_saved and not is_saving:
                stop_training(attempt, reason, emit)
            continue
        stop = max(wanted, attempt.resource)
        if stop < attempt.stop:
            emit(CutWork(attempt.lease, stop, attempt.lane))
        for node, resource in state.plan.splits(number):
            if resource > attempt.resource:
                emit(SaveAt(attempt.lease, node, resource, attempt.lane))


def fill(state: StudyState, emit: Emit) -> None:
    """Give work to idle workers while there are both work and workers that the study may keep."""
    if state.run is not None and state.run.share is not UNSET:
        give_back(state, emit)
    while state.run is not None and not state.stopping and not excess(state):
        worker, size = state.pool.first_idle(), next_size(state)
        if worker is None or not size:
            return
        batch = _next_batch(state, worker, emit)
        if batch is None:
            return
        packing = state.packing
        batches, why = [batch], ""
        if packing is not None:
            batches, why = pack(state, packing, worker, lambda: more(state, emit), emit)
        if batches:
            holder = state.pool.idle_holder(batches[0].load)
            asked = Asked(state, emit)
            sized = size_for(state, batches[0], size, asked)
            if asked.count:  # they may divide these batches: the plan would not know them any more
                continue
            work = _work_for(state, batches, worker if holder is None else holder, sized)
            emit(Assign(work if packing is None else _packed(state, packing, work, batches, why)))


def _packed(state: StudyState, packing: Packing, work: Work, batches: list[Batch], why: str) -> Work:
    """Return the work with its facts of packs, for its worker and for people."""
    measured, opened = to_measure(state, packing, batches) or UNSET, is_open(state, packing, batches) or UNSET
    sized = f"{len(batches)} lanes: {why}" if len(batches) > 1 else work.sized
    return msgspec.structs.replace(work, measured=measured, is_open=opened, sized=sized)


def _next_batch(state: StudyState, worker: WorkerId, emit: Emit) -> Batch | None:
    """Return the next batch of a free worker: begun trials, a promotion, or a new trial. None if there is none."""
    held = state.pool.slots[worker].held
    if state.config.look_ahead:
        look_ahead(state, emit)
    repeats = 0
    while not state.stopping:
        batch = state.plan.next_batch(held)
        if batch is not None and (state.scheduler.begins_all_first or batch.is_urgent):
            return batch
        if promote_next(state, emit):
            continue
        if batch is not None:
            return batch
        if not may_create(state) or (state.voices == 1 and _awaits_own(state, worker)):
            return None
        create(state, emit)
        repeats += 1  # its request is already trained or in training, else there would be a batch
        end_repeats(state, repeats, emit)
    return None


def _awaits_own(state: StudyState, worker: WorkerId) -> bool:
    """Return whether a worker is storing the checkpoint from which a promoted trial goes on: that is its next work.

    The only worker waits for it, so that it promotes as Algorithm 2 of ASHA does; of several, none has to.
    """
    committing = [attempt for attempt in state.attempts_of(worker) if attempt.is_committing]
    promotion = state.scheduler.next_promotion() if committing else None
    awaited = None if promotion is None else promotion.trial
    return any(
        number == awaited or state.trials[number].horizon > attempt.stop
        for attempt in committing
        for number in attempt.trials
    )


def _work_for(state: StudyState, batches: list[Batch], worker: WorkerId, sized: Sized) -> Work:
    lease = Lease(state.next_lease, worker, state.pool.slots[worker].epoch)
    gang = UNSET if state.gang is None else members(state, worker, sized.size)
    lanes = tuple([lane_for(state, batch) for batch in batches])
    return Work(lease, lanes, gang=gang, sized=sized.reason or UNSET)


def is_anything_left(state: StudyState) -> bool:
    """Return whether a run has work left: trials that wait, that may be created, or that may be promoted."""
    length = state.searcher.length()
    is_new = may_create(state) and (length is None or state.proposals < length)
    return bool(state.waiting) or is_new or state.scheduler.next_promotion() is not None


def _require_progress(state: StudyState) -> None:
    """Require that a worker trains for the waiting trials: else the run would hang without a message."""
    if state.waiting and not state.busy and state.pool.first_idle() is not None and next_size(state):
        waiting = ", ".join(state.trials[number].name for number in list(state.waiting)[:3])
        raise InternalError(
            f"{len(state.waiting)} trials wait ({waiting}, ...), workers are free, and nothing is to be trained. "
            "Please report this with the study's journal."
        )


def _too_few(state: StudyState) -> str:
    assert state.gang is not None
    least, left = state.gang.min_size or state.gang.size, len(state.pool.alive())
    return f"a trial needs {least} workers, and only {left} are left: the others were lost too many times in a row"


def conclude(state: StudyState, emit: Emit) -> None:
    """End the run when nothing runs and no work is left, or when a stop was requested and everything has stopped."""
    if state.run is None or state.attempts:
        return
    if not state.stopping and is_anything_left(state):
        if is_waiting_in_vain(state):
            stop_run(state, _too_few(state), "WorkersLostError", emit)
        else:
            _require_progress(state)
            return
    if not state.stopping:
        promotion = state.scheduler.closing_promotion()
        if promotion is not None:
            promote(state, promotion, emit)
            fill(state, emit)
            return
    for slot in state.pool.alive():
        emit(DismissWorker(slot.worker, slot.epoch, state.stopping or "nothing is left to train"))
    reason, kind = state.stopping or "everything that was asked for is trained", state.stopping_kind
    is_failure = not kind and state.config.ends_on_failures
    failure = failed_as_a_whole(state.trials, None if state.stopping else state.promoted) if is_failure else None
    if failure is not None:
        reason, kind = failure.words, "TrialsFailedError"
    if kind in ("", "TrialsFailedError") and not state.stopping and (missing := _missing_metric(state)):
        reason, kind = missing, "MetricNotReportedError"
    elif kind == "TrialsFailedError" and not state.stopping and (unsaved := _cannot_pause(state)):
        reason, kind = unsaved, "CannotPauseError"
    is_complete = not state.stopping
    emit(EndRun(reason, kind, is_complete=is_complete))
    if is_complete and not state.config.keep_paused:
        for checkpoint, paused in kept_for_later(state).items():
            emit(DeleteCheckpoint(checkpoint, paused))


def _missing_metric(state: StudyState) -> str:
    """Return why a trial failed at a pause or an end at which no trial ever had the metric. Empty if none did.

    One worker had all such trials, so that no other one was there to agree while the run went on.
    """
    since = state.metric_since
    for trial in state.trials if "MetricNotReportedError" in state.repeated.claims else ():
        is_early = not since or (trial.target is not None and since > trial.target)
        if trial.state is TrialState.FAILED and not trial.value_resource and is_early and NEVER in trial.reason:
            return trial.reason
    return ""


def _cannot_pause(state: StudyState) -> str:
    """Return why a trial could not be paused, in a search that failed as a whole. Empty if none was to be.

    As above, no other worker was there to agree.
    """
    for trial in state.trials if "CannotPauseError" in state.repeated.claims else ():
        if trial.state is TrialState.FAILED and ("CannotPauseError" in trial.reason or UNSAVED in trial.reason):
            return trial.reason
    return ""
