"""Every scheduler of ours keeps the laws that one written by somebody else must keep."""

from __future__ import annotations

from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base import Scheduler
from asyncsearch.testing import SchedulerConformance


class TestFIFO(SchedulerConformance):
    def make(self) -> Scheduler:
        return FIFO(max_resource=5)


class TestFIFOWithoutEnd(SchedulerConformance):
    def make(self) -> Scheduler:
        return FIFO()


class TestASHA(SchedulerConformance):
    def make(self) -> Scheduler:
        return ASHA(max_resource=9)


class TestASHAThatFinishesItsBest(SchedulerConformance):
    def make(self) -> Scheduler:
        return ASHA(max_resource=9, finish_best=True)


class TestASHAByStopping(SchedulerConformance):
    def make(self) -> Scheduler:
        return ASHA(max_resource=9, variant="stopping")


class TestSHA(SchedulerConformance):
    def make(self) -> Scheduler:
        return SHA(max_resource=9)


class TestSHAInBrackets(SchedulerConformance):
    def make(self) -> Scheduler:
        return SHA(max_resource=9, bracket_size=4)
