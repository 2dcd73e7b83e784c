"""Conformance suites: the laws of every scheduler, searcher, store and launcher, for those who write their own.

Suites: ``SchedulerConformance``, ``SearcherConformance``, ``StoreTests``, ``LauncherTests``. Their parts:

checked_methods    holds each answer of a method to its interface; action_laws: each action; forecasts: each forecast
agent_world        agents that do anything in any order, whose trainings have histories
recording          states to begin with, journals in memory, replays
instruction_count  what a decision costs, in instructions of Python
workloads          ties, NaN, infinities; histories: values that identify the training

Nothing here needs pytest; with it, derive a class named ``Test...`` from a suite.
"""

from asyncsearch.testing.launchers import LauncherTests
from asyncsearch.testing.schedulers import SchedulerConformance
from asyncsearch.testing.searchers import SearcherConformance
from asyncsearch.testing.stores import StoreTests

__all__ = ["LauncherTests", "SchedulerConformance", "SearcherConformance", "StoreTests"]
