"""A scheduler that trains each trial as far as another search has trained it, so that both do the same work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncsearch.schedulers import Promotion, RungForecast, Scheduler, SchedulerState


@dataclass(frozen=True, kw_only=True)
class SamePlaces(Scheduler):
    """Let the trial of each number pause at the levels of a former search, and promote it as that one did."""

    levels: tuple[int, ...]
    places: tuple[int, ...]
    """The last level of each trial."""

    @property
    def pauses(self) -> bool:
        """Trials pause at each level."""
        return True

    @property
    def max_resource(self) -> int:
        """The highest level."""
        return self.levels[-1]

    def begin(self, space: Any = None, seed: int = 0) -> SamePlacesState:
        """Return the living half."""
        return SamePlacesState(self)

    def describe(self) -> str:
        """Return one line."""
        return f"SamePlaces({len(self.places)} trials, levels={self.levels})"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        """Return how many trials each level has."""
        bounds = zip((0, *self.levels), self.levels, strict=False)
        return [RungForecast(start, stop, sum(place >= stop for place in self.places)) for start, stop in bounds]


class SamePlacesState(SchedulerState):
    """Promotes whoever was promoted before, as soon as it has paused."""

    def __init__(self, description: SamePlaces) -> None:
        self._levels, self._places = description.levels, description.places
        self._due: dict[int, int] = {}

    def first_target(self, trial: int) -> int:
        """Return the lowest level."""
        return self._levels[0]

    def judge(self, trial: int, resource: int) -> None:
        """Stop nobody."""

    def next_promotion(self) -> Promotion | None:
        """Return the promotion of the trial that is the furthest and the first."""
        if not self._due:
            return None
        trial, level = min(self._due.items(), key=lambda item: (-item[1], item[0]))
        above = self._levels[self._levels.index(level) + 1]
        return Promotion(trial, level, above, "it was promoted in the search that this one repeats")

    def paused(self, trial: int, resource: int, score: float | None) -> None:
        """Take in that a trial has reached a level."""
        if self._places[trial] > resource:
            self._due[trial] = resource

    def promoted(self, trial: int, from_resource: int, to_resource: int) -> None:
        """Take in that a trial goes on."""
        del self._due[trial]

    def snapshot(self) -> Mapping[str, Any]:
        """Return the memory as JSON values."""
        return {"due": [[trial, level] for trial, level in self._due.items()]}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Take back a memory."""
        self._due = dict(snapshot["due"])
