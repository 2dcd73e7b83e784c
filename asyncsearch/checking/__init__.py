"""Proves or refutes, on the user's trainable, that an interrupted training continues bit by bit.

resume_proof       a check: its processes, and how its trainings are compared
steps              what each process does: trainings, and the search for the forgotten parts
training_runs      one training with an observer
trainable_state    the parts of a trainable: weights, optimizer, generators, order, counters
"""

from __future__ import annotations

from asyncsearch.checking.result import CheckResult, Finding
from asyncsearch.checking.resume_proof import check

__all__ = ["CheckResult", "Finding", "check"]
