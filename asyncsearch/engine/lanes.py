"""Makes the lane that a worker gets from a batch of the plan. Pure."""

from __future__ import annotations

from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import judged_next
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.trial import UNBOUNDED, seed_of
from asyncsearch.work import Lane, Stage

_SAVES_AFTER_LOSS = 4
"""Into how many parts a stage is divided by its checkpoints once a worker was lost with its trial."""


def _save_every(state: StudyState, planned: PlannedStage) -> int | None:
    """Return the interval at which a stage is saved. None means only where it is told to be.

    Where workers are lost, a trial that saves nowhere would begin again and again.
    """
    if state.config.save_every is not None or planned.stop == UNBOUNDED or not state.config.can_save:
        return state.config.save_every
    is_lost = any(state.trials[number].losses for number in planned.trials)
    return max(1, (planned.stop - planned.start) // _SAVES_AFTER_LOSS) if is_lost else None


def lane_for(state: StudyState, batch: Batch) -> Lane:
    """Return a lane that trains a batch."""
    saves_all = state.config.save_at_rungs or bool(state.config.shared_as)  # studies take over where others stopped
    first = [state.trials[planned.trials[0]].proposed for planned in batch.stages]
    stages = [
        Stage(
            node=planned.node,
            params=params,
            trials=planned.trials,
            seed=seed_of(params, state.config.seed),
            start=planned.start,
            stop=None if planned.stop == UNBOUNDED else planned.stop,
            max_resource=state.max_resource,
            save=(planned.save or saves_all) and planned.start < planned.stop < UNBOUNDED,
            save_every=_save_every(state, planned),
            more=planned.more,
        )
        for planned, params in zip(batch.stages, first, strict=True)
    ]
    trials, start = batch.stages[0].trials, batch.stages[0].start
    return Lane(tuple(stages), batch.load, judged_next(state, trials, start))
