"""Conformance suites: the laws of every scheduler and searcher, for those who write their own.

schedulers          SchedulerConformance               searchers   SearcherConformance
base_suite          laws as methods, with or without pytest
checked_methods     checks every answer and every fact of a method against the interface
action_laws         checks every action; forecasts: every forecast
agent_world         simulated agents in a random order of events; batch_world: their trainings have histories
recording           states to begin with, journals in memory, replays
instruction_count   the cost of a decision in instructions of Python
workloads           ties, NaN, infinities; histories: values that depend on every unit that was trained

Nothing here needs pytest; with it, derive a class named ``Test...`` from a suite.
"""

from asyncsearch.testing.schedulers import SchedulerConformance
from asyncsearch.testing.searchers import SearcherConformance

__all__ = ["SchedulerConformance", "SearcherConformance"]
