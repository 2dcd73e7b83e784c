"""The names that results have of themselves."""

from __future__ import annotations

from asyncsearch.ray.milestones import ITERATION
from asyncsearch.ray.trial.session import RETURNED

TRAINING_ITERATION, DEFAULT_METRIC = ITERATION, RETURNED
TIME_TOTAL_S, TIME_THIS_ITER_S = "time_total_s", "time_this_iter_s"
DONE, SHOULD_CHECKPOINT, TRIAL_ID = "done", "should_checkpoint", "trial_id"
