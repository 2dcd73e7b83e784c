"""Every scheduler of ours keeps the laws that one written by somebody else must keep."""

from __future__ import annotations

from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
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


class TestASHAWithoutEnd(SchedulerConformance):
    def make(self) -> Scheduler:
        return ASHA()


class TestASHAByStoppingWithoutEnd(SchedulerConformance):
    def make(self) -> Scheduler:
        return ASHA(variant="stopping")


class TestHyperbandByShares(SchedulerConformance):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=9)


class TestHyperbandInRounds(SchedulerConformance):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=9, variant="rounds")


class TestSynchronousHyperband(SchedulerConformance):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=9, variant="synchronous")


class TestHyperbandWithBracketsOfOnesOwn(SchedulerConformance):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=16, reduction_factor=2, brackets=(4, 2))


class TestMedianStopping(SchedulerConformance):
    def make(self) -> Scheduler:
        return MedianStopping(max_resource=9, min_trials=2)


class TestMedianStoppingAtEveryUnit(SchedulerConformance):
    def make(self) -> Scheduler:
        return MedianStopping(max_resource=9, min_trials=2, interval=1)


class TestMedianStoppingWithoutEnd(SchedulerConformance):
    def make(self) -> Scheduler:
        return MedianStopping(min_trials=2)


class TestPBT(SchedulerConformance):
    promotes_without_value = True

    def make(self) -> Scheduler:
        return PBT(max_resource=9, perturbation_interval=2)


class TestPBTInStep(SchedulerConformance):
    promotes_without_value = True

    def make(self) -> Scheduler:
        return PBT(max_resource=9, perturbation_interval=3, quantile=0.5, synchronous=True)


class TestPBTInPopulations(SchedulerConformance):
    promotes_without_value = True

    def make(self) -> Scheduler:
        return PBT(max_resource=9, perturbation_interval=3, population=4)
