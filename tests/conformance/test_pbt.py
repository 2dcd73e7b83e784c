"""PBT keeps the laws of schedulers."""

from __future__ import annotations

from asyncsearch.schedulers import PBT
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.testing import SchedulerConformance


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
