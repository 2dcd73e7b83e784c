"""The one place where a decision is made: ``handle(state, event, now) -> list[Action]``.

Rule 1: pure. It has no clock, socket, thread, file or generator; time is an argument.
Rule 2: only ``learning`` (facts) and ``applying`` (decisions) change the state. A replay calls these two and decides
nothing, so it ends in the state of the run that wrote the journal. The other modules only read and emit.
Rule 3: an event that is stale or was seen before changes nothing and has no actions: messages may come twice and late.

DESIGN.md beside this file describes the design.
"""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.actions import AnyAction, DeleteCheckpoint
from asyncsearch.engine.affected import is_stale
from asyncsearch.engine.applying import apply
from asyncsearch.engine.deciding import respond
from asyncsearch.engine.filling import adjust, conclude, fill
from asyncsearch.engine.learning import learn
from asyncsearch.engine.sizing.gangs import is_scaled, resize
from asyncsearch.engine.sizing.idle_slots import recall
from asyncsearch.engine.sizing.joining import join
from asyncsearch.engine.sizing.share import excess
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import end_study_by_rule
from asyncsearch.engine.stopping import Emit, stop_losers
from asyncsearch.events import AnyEvent, CheckpointCommitted, Reported
from asyncsearch.ids import TrialId
from asyncsearch.plan.retention import checkpoint_to_spare
from asyncsearch.trial import Trial, TrialState


def handle(state: StudyState, event: AnyEvent, now: float) -> list[AnyAction]:
    """Apply a fact and return the actions that follow, already applied to the state.

    Args:
        state: the state of the study, which is changed.
        event: the fact.
        now: the driver's clock in seconds since 1970; never decreasing.

    Returns:
        The decisions in order; they must be in the journal, together with the event, before any is carried out.
    """
    actions: list[AnyAction] = []
    if is_stale(state, event):
        return actions

    def emit(action: AnyAction) -> None:
        apply(state, action, now)
        actions.append(action)

    respond(state, event, learn(state, event, now), emit)
    if state.config.stop_when is not None:
        end_study_by_rule(state, now, emit)
    if state.touched:
        adjust(state, emit)
    fill(state, emit)
    if losers := state.scheduler.losers():
        stop_losers(state, losers, emit)
    if is_scaled(state) and not excess(state):
        resize(state, emit)
    if state.packing is not None and (actions or _may_make_room(state, event)) and not excess(state):
        join(state, state.packing, emit)
    if state.pool.released:
        recall(state, emit)
    if not state.attempts:
        conclude(state, emit)
    if state.touched:  # a trial that was promoted since may split the work of a lease that began before
        adjust(state, emit)
    if state.unreachable:
        delete_unreachable(state, emit)
    if state.usage.is_over and (actions or isinstance(event, CheckpointCommitted)):
        delete_beyond_quota(state, emit)
    if actions:
        state.times.seen_s = now
    return actions


def _may_make_room(state: StudyState, event: AnyEvent) -> bool:
    """Return whether a pack may have room after an event; each lane reports each unit, and the last one makes some."""
    if type(event) is not Reported:
        return True
    attempt = state.attempt(event.lease, event.lane)
    return attempt is not None and attempt.is_leaving


def replay(state: StudyState, event: AnyEvent, actions: Sequence[AnyAction], now: float) -> None:
    """Apply one journal record and decide nothing."""
    if is_stale(state, event):
        return
    learn(state, event, now)
    for action in actions:
        apply(state, action, now)
    if actions:
        state.times.seen_s = now
    state.touched.clear()


def delete_unreachable(state: StudyState, emit: Emit) -> None:
    """Delete the checkpoints from which no trial and no attempt would continue."""
    while state.unreachable:
        emit(DeleteCheckpoint(next(iter(state.unreachable))))


def delete_beyond_quota(state: StudyState, emit: Emit) -> None:
    """Let trials give up their checkpoints until the rest fit into the quota of bytes.

    First those that pause and will not go on in this run, then finished ones, the worst first.
    """
    while state.usage.is_over:
        best = state.best_trials.trials()
        given_up = _given_up_by_paused(state)
        if given_up is None:
            spared = checkpoint_to_spare(best, lambda number: state.trials[number].checkpoint, state.references)
            given_up = None if spared is None else DeleteCheckpoint(spared)
        if given_up is None:
            return
        emit(given_up)


def _given_up_by_paused(state: StudyState) -> DeleteCheckpoint | None:
    """Return the deletion of a checkpoint that only paused trials need which will not go on in this run."""

    def has_checkpoint(number: TrialId, resource: int) -> bool:
        trial = state.trials[number]
        return trial.state is TrialState.PAUSED and trial.horizon == resource and trial.checkpoint is not None

    worst = state.paused.first(has_checkpoint, lambda number: bool(_paused_holders(state, state.trials[number])))
    if worst is None:
        return None
    trial = state.trials[worst]
    assert trial.checkpoint is not None
    return DeleteCheckpoint(trial.checkpoint, _paused_holders(state, trial))


def _paused_holders(state: StudyState, trial: Trial) -> tuple[TrialId, ...]:
    """Return the trials that would give up the checkpoint of a paused one. Empty if it is needed."""
    checkpoint, scheduler = trial.checkpoint, state.scheduler
    if checkpoint is None or scheduler.may_promote(trial.id):
        return ()
    count = state.references[checkpoint]
    holders = [trial] if count == 1 else [other for other in state.trials if other.checkpoint == checkpoint]
    may_go_on = (one for one in holders if one.state is not TrialState.PAUSED or scheduler.may_promote(one.id))
    if len(holders) < count or any(may_go_on) or any(map(state.is_best, holders)):
        return ()
    return tuple([one.id for one in holders])
