"""Conformance suites: the laws of every scheduler, searcher, store and launcher, for those who write their own.

Suites: ``SchedulerConformance``, ``SearcherConformance``, ``StoreTests``, ``LauncherTests``. Their parts:

checked_methods    holds each answer of a method, each action and each forecast to its interface
random_cluster     workers that do anything in any order, with the trainings of histories
recording          states to begin with, journals in memory, replays; values with ties, NaN and infinities
instruction_count  the cost of a decision, in instructions of Python
recording_driver   a driver that decides nothing, for the laws of launchers

Nothing here needs pytest; with it, derive a class named ``Test...`` from a suite.
"""

from asyncsearch.testing.launchers import LauncherTests
from asyncsearch.testing.schedulers import SchedulerConformance
from asyncsearch.testing.searchers import SearcherConformance
from asyncsearch.testing.stores import StoreTests

__all__ = ["LauncherTests", "SchedulerConformance", "SearcherConformance", "StoreTests"]
