"""Decides which trials go on next: promotions, with the weights of another trial or their own, and new ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.actions import Branch, Compare, CreateTrial, EndProposals, ExtendWork, Promote, SaveAt
from asyncsearch.arguments import as_unicode
from asyncsearch.engine.affected import is_to_be_evaluated
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.lanes import lane_for
from asyncsearch.engine.moving import settle_from_known
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit, stop_run
from asyncsearch.errors import InternalError, SpaceError
from asyncsearch.ids import CheckpointRef, TrialId
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.trial import Trial, TrialState, is_end

_REPEATS = 1_000
"""After this many new trials in a row without a new request, a search by an endless searcher ends."""


def more(state: StudyState, emit: Emit) -> bool:
    """Let one more trial wait: a promoted one, else a new one; return whether one was asked for."""
    if state.stopping:
        return False
    return promote_next(state, emit) or create_next(state, emit)


class Asked:
    """Lets more trials wait, and counts them."""

    def __init__(self, state: StudyState, emit: Emit) -> None:
        self._state, self._emit = state, emit
        self.count = 0

    def __call__(self) -> bool:
        is_one = more(self._state, self._emit)
        self.count += is_one
        return is_one


def create_next(state: StudyState, emit: Emit) -> bool:
    """Create one more trial, if one may be created; return whether one was asked for."""
    if not may_create(state):
        return False
    create(state, emit)
    return True


def look_ahead(state: StudyState, emit: Emit) -> None:
    """Create trials before a worker is free for them, so that the plan knows where their paths split."""
    repeats = 0
    while len(state.waiting) < state.config.look_ahead and may_create(state) and not state.stopping:
        repeats = 0 if create(state, emit) else repeats + 1
        end_repeats(state, repeats, emit)
    while state.scheduler.promotes_in_groups and not state.stopping and promote_next(state, emit):
        pass


def promote_next(state: StudyState, emit: Emit) -> bool:
    """Promote the next trial, if one is due; return whether one was."""
    promotion = state.scheduler.next_promotion()
    if promotion is None or not (state.scheduler.promotes_in_groups or _can_go_on(state, promotion)):
        return False
    promote(state, promotion, emit)
    return True


def _can_go_on(state: StudyState, promotion: Promotion) -> bool:
    """Return whether a trial could train on now; not while its checkpoint, or its donor's, is being stored."""
    trial, attempt = state.trials[promotion.trial], state.open_attempt_of(promotion.trial)
    if promotion.donor is not None:
        return attempt is None and not _is_storing(state, promotion.donor, promotion.from_resource)
    return attempt is None or bool(_extension(state, attempt, trial, promotion.to_resource))


def is_due_when_stored(state: StudyState) -> bool:
    """Return whether the next promotion waits only for checkpoints that are being stored: possible in a moment."""
    promotion = state.scheduler.next_promotion()
    if promotion is None or _can_go_on(state, promotion):
        return False
    own = state.open_attempt_of(promotion.trial)
    is_near = own is None or _is_at_end(own)
    if promotion.donor is not None and _is_storing(state, promotion.donor, promotion.from_resource):
        storing = state.open_attempt_of(promotion.donor)
        is_near = is_near and storing is not None and _is_at_end(storing)
    return is_near


def _is_at_end(attempt: Attempt) -> bool:
    return attempt.is_committing or attempt.resource >= attempt.stop


def _is_storing(state: StudyState, number: TrialId, resource: int) -> bool:
    """Return whether a trial has yet to save at a resource, or its checkpoint there is being stored."""
    attempt = state.open_attempt_of(number)
    if attempt is None or (attempt.settled or 0) >= resource:
        return False
    return any(stage.stop == resource and stage.save for stage in attempt.batch.stages)


def promote(state: StudyState, promotion: Promotion, emit: Emit) -> None:
    """Let a trial go on to its next target."""
    trial, attempt = state.trials[promotion.trial], state.open_attempt_of(promotion.trial)
    stages = () if attempt is None else _extension(state, attempt, trial, promotion.to_resource)
    reason = as_unicode(promotion.reason) + _repeats(state, trial)
    plain = Promote(promotion.trial, promotion.from_resource, promotion.to_resource, reason)
    emit(branch(state, promotion) or plain)
    settle_from_known(state, trial, emit)
    if attempt is not None and stages and trial.target == promotion.to_resource and trial.state is TrialState.RUNNING:
        at = CheckpointRef(attempt.node_at(attempt.stop), attempt.stop)
        lane = lane_for(state, Batch(None, stages))
        # Where workers are lost, a trial that saves nowhere would begin again and again.
        is_needed = promotion.is_donor or state.plan.has_others(at) or trial.losses > 0
        is_needed = is_needed or (state.best_saved.size > 0 and state.wants_best(trial))
        save = state.config.save_at_rungs or is_needed
        emit(ExtendWork(attempt.lease, lane.stages, save, attempt.lane))


def _repeats(state: StudyState, trial: Trial) -> str:
    """Return from where a paused trial trains again, as words behind a reason. Empty if its checkpoint is there."""
    if trial.state is not TrialState.PAUSED or trial.checkpoint is not None:
        return ""
    nearest = state.plan.nearest(trial.steps, trial.horizon)
    saved = 0 if nearest is None else nearest.resource
    if saved >= trial.resource:
        return ""
    where = f"trains again from {saved}" if saved else "trains again from its beginning"
    return f"; its checkpoint was not kept: {where}"


def _extension(state: StudyState, attempt: Attempt, trial: Trial, stop: int) -> tuple[PlannedStage, ...]:
    """Return the stages by which an attempt at its end could go on with a trial. Empty if it cannot.

    It cannot once another has its place in a pack.
    """
    if not attempt.is_training or attempt.is_stop_sent or attempt.cut is not None:
        return ()
    if attempt.is_open and attempt.is_leaving and state.lanes_staying(attempt.lease) >= attempt.lanes:
        return ()
    return state.plan.extension(attempt.number, trial.id, trial.steps, attempt.stop, stop)


def compare(state: StudyState, attempt: Attempt, resource: int, emit: Emit, *, keeps_worker: bool) -> None:
    """Compare the trials that have reported at the end of an attempt, and let them go on if they are the next to do so.

    The worker that waits there counts as free, so that it is asked for its next work as in Algorithm 2 of ASHA. Where
    that is the trial itself, it goes on without a checkpoint. Else it is paused when its checkpoint is durable.
    """
    is_at_end = resource == attempt.stop and not attempt.is_evaluation and attempt.cut is None
    if not is_at_end or not attempt.is_training or attempt.is_stop_sent or state.scheduler.compares_saved:
        return
    for number in state.plan.requesters_at(attempt.node_at(resource), resource):
        trial = state.trials[number]
        is_here = state.open_attempts.get(number) == attempt.number and trial.compared != trial.target
        is_pause = not is_end(trial.target, state.max_resource) and trial.value_resource > 0
        if is_here and is_pause and not is_to_be_evaluated(state, trial):
            emit(Compare(number))
    length = state.searcher.length()
    if may_create(state) and length is not None and state.proposals >= length:
        _end_proposals(state, emit)  # a bracket that waits for all of its trials has them
    while keeps_worker and state.run is not None and not state.stopping:
        promotion = _due(state, attempt)
        if promotion is None:
            return
        promote(state, promotion, emit)


def _due(state: StudyState, attempt: Attempt) -> Promotion | None:
    """Return the promotion that is due, if it is one of an attempt's, or if promotions are due in groups."""
    scheduler = state.scheduler
    first = scheduler.next_promotion()
    if first is None or scheduler.promotes_in_groups:
        return first
    if first.trial in attempt.trials:
        return first if first.donor is None else None
    other = state.open_attempt_of(first.donor if first.donor is not None else first.trial)
    if other is None or _can_go_on(state, first) or other.lease.worker == attempt.lease.worker:
        return None  # the worker would train that one
    own = [scheduler.promotion_of(trial) for trial in attempt.trials if state.trials[trial].compared == attempt.stop]
    return next((one for one in own if one is not None and one.donor is None), None)


def may_create(state: StudyState) -> bool:
    """Return whether one more trial may be created."""
    if state.run is None or state.is_exhausted:
        return False
    limit = state.run.num_trials
    return (limit is None or len(state.trials) < limit) and state.scheduler.may_create(TrialId(len(state.trials)))


def create(state: StudyState, emit: Emit) -> bool:
    """Create the next trial; return whether known reports have left it unfinished."""
    try:
        params = state.searcher.propose(state.proposals)
    except SpaceError as error:
        stop_run(state, str(error), "SpaceError", emit)
        return False
    if params is None:
        _end_proposals(state, emit)
        return False
    trial = TrialId(len(state.trials))
    target = state.scheduler.first_target(trial)
    named = {**state.config.defaults, **params} if state.config.defaults else params
    steps = state.plan.path(state.root, named, state.horizon, trial)
    branching = steps if len(steps) > 1 else ()
    notes = state.searcher.notes(state.proposals)
    emit(CreateTrial(trial, params, steps[-1].node, target, state.proposals, branching, notes))
    settle_from_known(state, state.trials[trial], emit)
    return not state.trials[trial].state.is_finished


def spare_save(state: StudyState, attempt: Attempt, resource: int, emit: Emit) -> None:
    """Let an attempt end without a checkpoint if its trials end there, or will not go on, and none would keep it."""
    is_at_end = resource == attempt.stop and not attempt.is_evaluation and attempt.cut is None
    if not is_at_end or not attempt.is_training or attempt.is_stop_sent or state.config.shared_as:
        return
    trials = [state.trials[number] for number in state.plan.requesters_at(attempt.node_at(resource), resource)]
    if trials and not state.config.save_at_rungs and all(_is_spared(state, trial) for trial in trials):
        emit(ExtendWork(attempt.lease, (), save=False, lane=attempt.lane))


def save_best(state: StudyState, attempt: Attempt, subscribers: Sequence[Trial], emit: Emit) -> None:
    """Let a training that waits for the verdict on a report save there, if the report is one of the best."""
    at, is_inside = attempt.resource, attempt.resource < attempt.stop
    if not is_inside or not attempt.is_training or attempt.is_stop_sent or not state.config.can_save:
        return
    node = attempt.node_at(at)
    if CheckpointRef(node, at) not in attempt.save_points and any(map(state.wants_best, subscribers)):
        emit(SaveAt(attempt.lease, node, at, attempt.lane))


def _is_spared(state: StudyState, trial: Trial) -> bool:
    """Return whether nobody would load the checkpoint of a trial that has reported at its target."""
    if state.best_saved.size and state.wants_best(trial):
        return False
    if trial.value_resource == 0 or is_to_be_evaluated(state, trial):
        return False
    if not is_end(trial.target, state.max_resource):
        is_paused = trial.compared == trial.target and not state.scheduler.may_promote(trial.id)
        if not is_paused or state.config.keep_checkpoints <= 1:
            return is_paused
    return not state.best_trials.would_keep(trial.id, state.score(trial.ranked_value(state.config.rank_by)))


def _end_proposals(state: StudyState, emit: Emit) -> None:
    emit(EndProposals(f"the searcher has no more than {state.proposals} proposals"))


def end_repeats(state: StudyState, repeats: int, emit: Emit) -> None:
    """End the proposals of an endless searcher that repeats itself: otherwise the driver would hang in this loop."""
    if repeats < _REPEATS or state.run is None or state.run.num_trials is not None:
        return
    if state.searcher.length() is None:
        emit(EndProposals(f"the last {_REPEATS:,} proposals ask for nothing that is not trained already"))


def branch(state: StudyState, promotion: Promotion) -> Branch | None:
    """Return how a promoted trial takes over its donor's newest durable checkpoint.

    No file is copied. Its new params are the donor's up to the resource of the donor's checkpoint, so that its new
    path leads through the nodes in which the donor was trained, and the plan finds the checkpoint there as for any
    trial. Where trials share no node, it leads there nevertheless, and ends in a new node of the trial.

    None: it continues from its own checkpoint, since the promotion names no donor, the donor has no checkpoint at or
    beyond its resource, or the scheduler refuses that checkpoint.

    Raises:
        InternalError: the scheduler's answer does not lead through the donor's checkpoint.
    """
    if promotion.donor is None:
        return None
    trial, donor = state.trials[promotion.trial], state.trials[promotion.donor]
    checkpoint = donor.checkpoint
    # A trial reports each resource once, so its resource must not fall.
    if checkpoint is None or checkpoint.resource < max(trial.resource, promotion.from_resource):
        return None
    offspring = state.scheduler.branch(promotion, donor.params, checkpoint.resource)
    if offspring is None:
        return None
    params = {**state.config.defaults, **offspring.params}
    steps = state.plan.branch_path(state.root, params, state.horizon, trial.id, donor, checkpoint)
    changed = Trial(trial.id, offspring.params, steps[-1].node, path=steps)
    if changed.node_at(checkpoint.resource) != checkpoint.node or offspring.to_resource <= checkpoint.resource:
        raise InternalError(
            f"{trial.name} was to continue from {checkpoint} of {donor.name} to {offspring.to_resource}, and its new "
            "params do not lead there. Please report this with the study's journal."
        )
    return Branch(
        trial=trial.id,
        donor=donor.id,
        resource=checkpoint.resource,
        to_resource=offspring.to_resource,
        params=offspring.params,
        node=changed.node,
        reason=as_unicode(offspring.reason),
        path=steps if len(steps) > 1 else (),
    )
