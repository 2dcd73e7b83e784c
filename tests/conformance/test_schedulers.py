"""Every scheduler of ours keeps the laws that one written by somebody else must keep."""

from __future__ import annotations

from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.testing import SchedulerConformance
from tests.shares import IS_ALL


class OfOurs(SchedulerConformance):
    orders = SchedulerConformance.orders if IS_ALL else 4


class TestFIFO(OfOurs):
    def make(self) -> Scheduler:
        return FIFO(max_resource=5)


class TestFIFOWithoutEnd(OfOurs):
    def make(self) -> Scheduler:
        return FIFO()


class TestASHA(OfOurs):
    def make(self) -> Scheduler:
        return ASHA(max_resource=9)


class TestASHAThatFinishesItsBest(OfOurs):
    def make(self) -> Scheduler:
        return ASHA(max_resource=9, finish_best=True)


class TestASHAByStopping(OfOurs):
    def make(self) -> Scheduler:
        return ASHA(max_resource=9, variant="stopping")


class TestSHA(OfOurs):
    def make(self) -> Scheduler:
        return SHA(max_resource=9)


class TestSHAInBrackets(OfOurs):
    def make(self) -> Scheduler:
        return SHA(max_resource=9, bracket_size=4)


class TestASHAWithoutEnd(OfOurs):
    def make(self) -> Scheduler:
        return ASHA()


class TestASHAByStoppingWithoutEnd(OfOurs):
    def make(self) -> Scheduler:
        return ASHA(variant="stopping")


class TestHyperbandByShares(OfOurs):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=9)


class TestHyperbandInRounds(OfOurs):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=9, variant="rounds")


class TestSynchronousHyperband(OfOurs):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=9, variant="synchronous")


class TestHyperbandWithBracketsOfOnesOwn(OfOurs):
    def make(self) -> Scheduler:
        return Hyperband(max_resource=16, reduction_factor=2, brackets=(4, 2))


class TestMedianStopping(OfOurs):
    def make(self) -> Scheduler:
        return MedianStopping(max_resource=9, min_trials=2)


class TestMedianStoppingAtEveryUnit(OfOurs):
    def make(self) -> Scheduler:
        return MedianStopping(max_resource=9, min_trials=2, interval=1)


class TestMedianStoppingWithoutEnd(OfOurs):
    def make(self) -> Scheduler:
        return MedianStopping(min_trials=2)


class TestPBT(OfOurs):
    promotes_without_value = True

    def make(self) -> Scheduler:
        return PBT(max_resource=9, perturbation_interval=2)


class TestPBTInStep(OfOurs):
    promotes_without_value = True

    def make(self) -> Scheduler:
        return PBT(max_resource=9, perturbation_interval=3, quantile=0.5, synchronous=True)


class TestPBTInPopulations(OfOurs):
    promotes_without_value = True

    def make(self) -> Scheduler:
        return PBT(max_resource=9, perturbation_interval=3, population=4)
