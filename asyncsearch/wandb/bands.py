"""The bands of a sweep whose hyperband has ``max_iter`` and ``s``: beyond the last one nobody stops a run.

``max_iter`` says where the bands lie, below it, and ends no run, as in wandb.
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncsearch.schedulers.asha_stopping import StoppingState
from asyncsearch.schedulers.base_scheduler import RungForecast, Scheduler
from asyncsearch.space import Space

_BEYOND = 2**53
"""No run logs so often: the last level of the rule is where it ends a trial, and here none ends."""


def bands_of(max_iter: int, s: int, eta: int) -> tuple[int, ...]:
    """Return ``max_iter`` divided by ``eta`` up to ``s`` times, as whole numbers from 1, the lowest first."""
    band, found = float(max_iter), set[int]()
    for _ in range(s):
        band /= eta
        if band < 1:
            break
        found.add(int(band))
    return tuple(sorted(found))


@dataclass(frozen=True, kw_only=True)
class BandStopping(Scheduler):
    """Judges a run once at each of some bands, by the stopping variant of ASHA."""

    bands: tuple[int, ...]
    eta: int

    @property
    def pauses(self) -> bool:
        return False

    @property
    def max_resource(self) -> int | None:
        return None

    def begin(self, space: Space | None = None, seed: int = 0) -> BandState:
        return BandState((*self.bands, _BEYOND), self.eta)

    def describe(self) -> str:
        return f"hyperband of a sweep: at {', '.join(map(str, self.bands))} logs the best 1 of {self.eta} goes on"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        starts, left = (0, *self.bands), num_trials
        lines = []
        for start, end in zip(starts, (*self.bands, None), strict=True):
            lines.append(RungForecast(start, end, left))
            left = max(1, left // self.eta)
        return lines


class BandState(StoppingState):
    """The runs at each band."""

    def first_target(self, trial: int) -> int | None:
        return None
