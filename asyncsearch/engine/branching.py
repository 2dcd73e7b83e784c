"""A trial that goes on with the weights of another one, and with values of its own from there: how it is decided. Pure.

Nothing is copied. Its new params are the donor's up to the resource of the donor's checkpoint, so that its new path
leads through the nodes in which the donor was trained, and the plan finds the checkpoint there as it would for anybody.
Where trials share nothing, it leads through them all the same, and ends in a new node of the trial's own.
"""

from __future__ import annotations

from asyncsearch.actions import Branch
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.trial import Trial


def branch(state: StudyState, promotion: Promotion) -> Branch | None:
    """Return how a promoted trial takes over its donor's newest durable checkpoint.

    None: it goes on from its own checkpoint, since the promotion names no donor, the donor has no checkpoint that is as
    far, or the scheduler does not want that checkpoint.

    Raises:
        InternalError: the scheduler's answer does not lead through the donor's checkpoint.
    """
    if promotion.donor is None:
        return None
    trial, donor = state.trials[promotion.trial], state.trials[promotion.donor]
    checkpoint = donor.checkpoint
    # Of one trial each resource is reported once, so it never goes back.
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
            f"{trial.name} was to go on from {checkpoint} of {donor.name} to {offspring.to_resource}, and its new "
            "params do not lead there. Please report this with the study's journal."
        )
    return Branch(
        trial=trial.id,
        donor=donor.id,
        resource=checkpoint.resource,
        to_resource=offspring.to_resource,
        params=offspring.params,
        node=changed.node,
        reason=offspring.reason,
        path=steps if len(steps) > 1 else (),
    )
