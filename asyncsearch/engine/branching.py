"""Decides how a trial continues with another trial's weights, and with its own values from there on. Pure.

No file is copied. Its new params are the donor's up to the resource of the donor's checkpoint, so that its new path
leads through the nodes in which the donor was trained, and the plan finds the checkpoint there as for any trial.
Where trials share no node, the path leads through the donor's nodes nevertheless, and ends in a new node of the trial.
"""

from __future__ import annotations

from asyncsearch.actions import Branch
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.trial import Trial


def branch(state: StudyState, promotion: Promotion) -> Branch | None:
    """Return how a promoted trial takes over its donor's newest durable checkpoint.

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
        reason=offspring.reason,
        path=steps if len(steps) > 1 else (),
    )
