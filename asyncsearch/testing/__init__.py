"""Conformance suites: the laws of every scheduler, searcher and store, for those who write their own.

schedulers   SchedulerConformance              searchers   SearcherConformance              stores   StoreTests
suite        laws as methods, with or without pytest
asking       holds each answer and each fact to the interface; legal: each action; forecasts: each forecast
worlds       agents that do whatever comes, in whatever order; batches: agents whose trainings have histories
recording    states to begin with, journals in memory, replays
effort       what a decision costs, in instructions of Python
workloads    ties, NaN, infinities; histories: a workload as good as weights

Nothing here needs pytest; with it, derive a class named ``Test...`` from a suite.
"""

from asyncsearch.testing.launchers import LauncherTests
from asyncsearch.testing.schedulers import SchedulerConformance
from asyncsearch.testing.searchers import SearcherConformance
from asyncsearch.testing.stores import StoreTests

__all__ = ["LauncherTests", "SchedulerConformance", "SearcherConformance", "StoreTests"]
