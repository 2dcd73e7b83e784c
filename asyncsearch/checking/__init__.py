"""Proves or refutes, on the user's own trainable, that what is interrupted trains on bit by bit.

proof        what is trained, and how it is compared
explaining   which ingredient was forgotten: each is given back, and what changes the outcome is named
runs         one training with somebody watching
state        what a trainable consists of: weights, optimizer, generators, order, counters
generators   those of python, numpy, torch and TensorFlow that belong to nobody
"""

from __future__ import annotations

from asyncsearch.checking.result import CheckResult, Finding
from asyncsearch.checking.resume_proof import check

__all__ = ["CheckResult", "Finding", "check"]
