"""Schedulers decide how far each trial trains."""

from asyncsearch.schedulers.asha import ASHA
from asyncsearch.schedulers.base_scheduler import Offspring, Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.fifo import FIFO
from asyncsearch.schedulers.hyperband import Hyperband
from asyncsearch.schedulers.median import MedianStopping
from asyncsearch.schedulers.pbt import PBT
from asyncsearch.schedulers.sha import SHA

__all__ = [
    "ASHA",
    "FIFO",
    "PBT",
    "SHA",
    "Hyperband",
    "MedianStopping",
    "Offspring",
    "Promotion",
    "RungForecast",
    "Scheduler",
    "SchedulerState",
]
