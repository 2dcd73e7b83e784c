"""Applies decisions to the state, in the run that takes them and in every replay. Pure; see ``engine.handling``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from asyncsearch import actions
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.learning import notify_progress, take_report
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.transitions import check_transition
from asyncsearch.ids import CheckpointRef, Lease, worker_name
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.plan.keys import joined
from asyncsearch.trial import UNBOUNDED, Trial, TrialState
from asyncsearch.work import Lane, Stage

_REASON_CHARS = 4_000


def apply(state: StudyState, action: actions.AnyAction, now: float) -> None:
    """Apply a decision, new or recorded."""
    _BY_KIND[type(action)](state, action, now)


def _forget_reports(state: StudyState) -> None:
    """Forget the reports that no trial will read: no new trial comes, and no trial continues from their nodes."""
    if state.is_exhausted:
        continuing = [trial for trial in state.trials if not trial.state.is_finished or trial.checkpoint is not None]
        nodes = {step.node for trial in continuing for step in trial.steps}
        state.plan.reports.keep(nodes)
        state.latest.keep(nodes)


def _apply_delete(state: StudyState, action: actions.DeleteCheckpoint, _now: float) -> None:
    checkpoint = action.checkpoint
    if checkpoint in state.references:  # trials that have ended, or wait, give it up
        given = {number for number in state.best_trials.trials() if state.trials[number].checkpoint == checkpoint}
        state.best_trials.remove(given)
        for number in given:
            state.repoint(state.trials[number], None)
        for number in () if action.paused is msgspec.UNSET else action.paused:
            state.repoint(state.trials[number], None)
    state.unreachable.pop(checkpoint, None)
    state.pool.give_up(checkpoint)
    state.plan.remove_checkpoint(checkpoint)
    state.usage.take(checkpoint)


def _apply_create(state: StudyState, action: actions.CreateTrial, _now: float) -> None:
    trial = Trial(action.trial, action.params, action.node, target=action.target, path=action.path)
    state.trials.append(trial)
    state.proposals = action.proposal + 1
    state.waiting[action.trial] = None
    _request(state, trial)
    for listener in state.listeners:
        # A user's own searcher or scheduler may change its argument, and the trial has recorded it.
        listener.created(action.trial, copy.deepcopy(action.params))
        if action.notes:
            listener.noted(action.trial, action.notes)


def _apply_compare(state: StudyState, action: actions.Compare, _now: float) -> None:
    trial = state.trials[action.trial]
    assert trial.target is not None, "a trial without a target is compared nowhere"
    trial.compared = trial.target
    score = state.score(trial.value)
    for listener in state.listeners:
        listener.paused(trial.id, trial.target, score)


def _apply_promote(state: StudyState, action: actions.Promote, now: float) -> None:
    trial = state.trials[action.trial]
    trial.target = action.to_resource
    if trial.state is TrialState.PAUSED:
        _move(state, trial, TrialState.WAITING, action.reason, now)
    trial.is_begun = True
    state.promoted.began(trial.id)
    _request(state, trial)
    for listener in state.listeners:
        listener.promoted(action.trial, action.from_resource, action.to_resource)


def _apply_branch(state: StudyState, action: actions.Branch, now: float) -> None:
    trial = state.trials[action.trial]
    trial.params, trial.node = action.params, action.node
    trial.path = joined(action.path, state.trials[action.donor].steps)
    trial.resource, trial.target = action.resource, action.to_resource
    if trial.state is TrialState.PAUSED:  # not if its worker was lost before it had saved where it was compared
        _move(state, trial, TrialState.WAITING, action.reason, now)
    trial.is_begun = True
    state.promoted.began(trial.id)
    # Its own checkpoint is not on its new path; the donor's is there, and the plan finds it.
    state.repoint(trial, None)
    _request(state, trial)
    for listener in state.listeners:
        params = copy.deepcopy(action.params)
        listener.branched(action.trial, action.donor, params, action.resource, action.to_resource)


def _apply_inherit(state: StudyState, action: actions.Inherit, _now: float) -> None:
    trial = state.trials[action.trial]
    for resource, value in state.plan.reports.between(trial.steps, trial.resource, action.resource):
        take_report(state, trial, resource, value)
        notify_progress(state, trial, resource)
    state.latest.inherit(trial.id, trial.steps, action.resource)


def _request(state: StudyState, trial: Trial) -> None:
    plan, steps, target = state.plan, trial.steps, trial.horizon
    plan.request(trial.id, steps, target, is_urgent=trial.is_begun)
    for lease in plan.leases_on(steps):
        state.touched.setdefault(lease, "its work is wanted otherwise")
    nearest = plan.nearest(steps, target)
    if nearest is not None:
        state.repoint(trial, nearest)


def _apply_assign(state: StudyState, action: actions.Assign, now: float) -> None:
    lease, lanes = action.work.lease, action.work.lanes
    count = len(lanes)
    state.next_lease = lease.number + count
    state.pool.occupy(lease.worker, lease.number, count, [member.worker for member in action.work.followers])
    is_open = action.work.is_open is True
    for number, lane in enumerate(lanes):
        attempt = _begin_attempt(state, lease, lane, number, now)
        attempt.lanes, attempt.is_open = count, is_open
        attempt.size = 1 + len(action.work.followers)


def _apply_lane(state: StudyState, action: actions.AddLane, now: float) -> None:
    lease = action.lease
    state.next_lease = lease.number + action.lane + 1
    state.pool.add_lane(lease.worker)
    attempt = _begin_attempt(state, lease, action.added, action.lane, now)
    attempt.is_open = attempt.has_joined = True
    together = [other for other in state.attempts_under(lease) if other.end is None and not other.is_leaving]
    for other in together:
        other.lanes = len(together)


def _begin_attempt(state: StudyState, lease: Lease, lane: Lane, place: int, now: float) -> Attempt:
    number = lease.number + place
    stages = _planned(lane.stages)
    batch = Batch(lane.load, stages)
    # A trial may still run under another lease, whose checkpoint turned out to be damaged.
    running = [
        trial
        for stage in stages
        for trial in state.plan.requesters_at(stage.node, stage.stop)
        if state.trials[trial].state is TrialState.WAITING
    ]
    is_evaluation = stages[0].start == stages[0].stop
    attempt = Attempt(
        lease,
        batch,
        sorted(running),
        resource=stages[0].start - is_evaluation,
        since_s=now,
        lane=place,
    )
    state.plan.begin(number, batch)
    state.attempts[number] = attempt
    if batch.load is not None:
        state.hold(batch.load)
        state.pool.hold(lease.worker, batch.load)
    for trial in attempt.trials:
        _move(state, state.trials[trial], TrialState.RUNNING, worker_name(lease.worker), now)
        state.open_attempts[trial] = number
    return attempt


def _apply_stop(state: StudyState, action: actions.StopTraining, _now: float) -> None:
    attempt = state.attempts.get(action.lease.number + action.lane)
    if attempt is not None:
        attempt.is_stop_sent = True
        _close_if_empty(state, attempt)


def _close_if_empty(state: StudyState, attempt: Attempt) -> None:
    """Close a training attempt that was told to stop and has no trial left: its messages are ignored from now on."""
    if attempt.is_stop_sent and not attempt.trials and attempt.end is None:
        attempt.is_closed = True
        state.leave_plan(attempt)


def _apply_cut(state: StudyState, action: actions.CutWork, _now: float) -> None:
    number = action.lease.number + action.lane
    state.attempts[number].cut = action.stop
    if action.resize is not msgspec.UNSET:
        state.attempts[number].resize = action.resize
    state.plan.cut(number, action.stop)


def _apply_extension(state: StudyState, action: actions.ExtendWork, _now: float) -> None:
    number = action.lease.number + action.lane
    batch, stages = state.attempts[number].batch, _planned(action.stages)
    *before, last = batch.stages
    kept = msgspec.structs.replace(last, save=action.save)
    state.attempts[number].batch = Batch(batch.load, (*before, kept, *stages), batch.is_urgent)
    state.plan.extend(number, stages, save=action.save)


def _planned(stages: Sequence[Stage]) -> tuple[PlannedStage, ...]:
    return tuple(
        [
            PlannedStage(
                node=stage.node,
                start=stage.start,
                stop=UNBOUNDED if stage.stop is None else stage.stop,
                trials=stage.trials,
                more=stage.more,
                save=stage.save or stage.stop in (None, stage.start),
            )
            for stage in stages
        ]
    )


def _apply_move(state: StudyState, action: actions.MoveTrial, now: float) -> None:
    trial = state.trials[action.trial]
    attempt = state.open_attempt_of(trial.id)
    _move(state, trial, action.to, action.reason, now)
    state.promoted.moved(trial, action.detail)
    if state.stop_facts is not None:
        state.stop_facts.moved(trial.id, action.to)
    if action.to is TrialState.FAILED:
        state.best_saved.remove(trial.id, state.release)
    if attempt is not None:
        del state.open_attempts[trial.id]
        attempt.trials.remove(trial.id)
        _close_if_empty(state, attempt)
        state.tidy(attempt)
    score = state.score(trial.value)
    _notify_of_move(state, trial, score)
    if action.to is TrialState.FAILED:
        score = None
    if action.to is TrialState.WAITING:
        _request(state, trial)
    else:
        if state.plan.is_shared or attempt is None or attempt.end is None:
            for lease in state.plan.leases_on(trial.steps):
                state.touched[lease] = action.reason
        state.plan.withdraw(trial.id)
    if action.to.is_finished:
        state.consecutive_losses.pop(trial.id, None)
        state.own_units.pop(trial.id, None)
        trial.pack()
        state.plan.reports.settle(trial.node)
        ranked = None if score is None else state.score(trial.ranked_value(state.config.rank_by))
        _retire_checkpoint(state, trial, ranked)


def _notify_of_move(state: StudyState, trial: Trial, score: float | None) -> None:
    match trial.state:
        case TrialState.PAUSED:
            for listener in state.listeners if trial.compared != trial.target else ():
                listener.paused(trial.id, trial.target or trial.resource, score)
        case TrialState.COMPLETED:
            for listener in state.listeners:
                listener.completed(trial.id, trial.resource, score)
        case TrialState.STOPPED:
            for listener in state.listeners:
                listener.stopped(trial.id, trial.resource, score)
        case TrialState.FAILED:
            for listener in state.listeners:
                listener.failed(trial.id, trial.resource)
        case TrialState.WAITING | TrialState.RUNNING:
            pass


def _retire_checkpoint(state: StudyState, trial: Trial, score: float | None) -> None:
    if trial.checkpoint is None:
        return
    if (evicted := state.best_trials.offer(trial.id, score)) is not None:
        state.repoint(state.trials[evicted], None)


def _move(state: StudyState, trial: Trial, to: TrialState, reason: str, now: float) -> None:
    check_transition(trial.id, trial.state, to, trial.reason)
    if trial.state is TrialState.WAITING:
        state.waiting.pop(trial.id, None)
    # Of thousands of trials, each reason would otherwise hold as much as a message: the journal has all of it.
    trial.state, trial.reason = to, reason if len(reason) <= _REASON_CHARS else f"{reason[:_REASON_CHARS]} ..."
    if to is TrialState.RUNNING:
        trial.is_begun = True
        trial.started_s = now if trial.started_s is None else trial.started_s
    if to.is_finished:
        trial.ended_s = now
    if to is TrialState.PAUSED and state.config.quota_bytes is not None:
        state.paused.add(trial.id, trial.horizon, state.score(trial.value))
    if to is TrialState.WAITING:
        state.waiting[trial.id] = None


def _apply_save(state: StudyState, action: actions.SaveAt, _now: float) -> None:
    number = action.lease.number + action.lane
    state.attempts[number].save_points.append(CheckpointRef(action.node, action.resource))
    state.plan.add_save_point(number, action.node, action.resource)


def _apply_end_of_proposals(state: StudyState, _action: actions.EndProposals, _now: float) -> None:
    state.is_exhausted = True
    for listener in state.listeners:
        listener.no_more_trials()
    _forget_reports(state)


def _apply_stop_of_run(state: StudyState, action: actions.StopRun, _now: float) -> None:
    state.stopping, state.stopping_kind = action.reason, action.error_kind


def _apply_dismissal(state: StudyState, action: actions.DismissWorker, _now: float) -> None:
    if action.is_released:
        state.pool.release(action.worker)
    else:
        state.pool.lose(action.worker)


def _apply_end_of_run(state: StudyState, _action: actions.EndRun, now: float) -> None:
    state.times.end(now, state.begun)
    state.run, state.stopping, state.stopping_kind = None, "", ""
    state.unblock_all()
    _forget_reports(state)


_BY_KIND: dict[type[actions.AnyAction], Callable[[StudyState, Any, float], None]] = {
    actions.CreateTrial: _apply_create,
    actions.Inherit: _apply_inherit,
    actions.Compare: _apply_compare,
    actions.Promote: _apply_promote,
    actions.Branch: _apply_branch,
    actions.MoveTrial: _apply_move,
    actions.Assign: _apply_assign,
    actions.AddLane: _apply_lane,
    actions.StopTraining: _apply_stop,
    actions.SaveAt: _apply_save,
    actions.CutWork: _apply_cut,
    actions.ExtendWork: _apply_extension,
    actions.LaunchWorker: lambda state, action, _now: state.pool.launch(action.worker, action.epoch),
    actions.DismissWorker: _apply_dismissal,
    actions.DeleteCheckpoint: _apply_delete,
    actions.EndProposals: _apply_end_of_proposals,
    actions.StopRun: _apply_stop_of_run,
    actions.EndRun: _apply_end_of_run,
}
"""A table, since a decision has three or four actions, and a ``match`` tests one kind after another."""
