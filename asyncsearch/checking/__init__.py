"""Proves or refutes, on the user's trainable, that an interrupted training continues bit by bit.

resume_proof       a check, and how its trainings are compared
steps              the trainings of a check, each in a process of its own
explanation        the forgotten parts: each is restored, and those that change the outcome are named
training_runs      one training with an observer
trainable_state    the parts of a trainable: weights, optimizer, generators, order, counters
random_generators  the global generators of Python, numpy, torch and TensorFlow
"""

from __future__ import annotations

from asyncsearch.checking.result import CheckResult, Finding
from asyncsearch.checking.resume_proof import check

__all__ = ["CheckResult", "Finding", "check"]
